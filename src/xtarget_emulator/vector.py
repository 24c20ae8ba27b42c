"""Tables of vector instructions, from mnemonic to kinds and function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from . import division, floats, trig
from .memory import Array

__all__ = ["ALU", "COMPARE", "KEEPS_HALF", "TAU", "Rule", "bitop3", "packed_halves", "rule"]

#: Kind of the result, kinds of the sources, function of the sources.
Rule: TypeAlias = tuple[str, tuple[str, ...], Callable[..., Array]]

ALU: dict[str, Rule] = {}
#: 16-bit results that leave the other half alone on CDNA too.
#: Source: LLVM, GCNSubtarget::zeroesHigh16BitsOfDest.
KEEPS_HALF = {"v_fma_f16", "v_mad_f16", "v_fmac_f16", "v_mad_u16", "v_mad_i16", "v_div_fixup_f16"}

_I = {"16": "u16", "32": "u32", "64": "u64"}


def rule(names: str, result: str, sources: str, function: Callable[..., Array]) -> None:
    """Add instructions (without their `v_`) to the table: kind of the result, kinds of the
    sources."""
    for name in names.split():
        ALU["v_" + name] = (result, tuple(sources.split()), function)


def _c(value: int, like: Array) -> Any:
    return like.dtype.type(value)


def _shift_left(a: Array, b: Array) -> Array:
    return a << (b & _c(a.dtype.itemsize * 8 - 1, b)).astype(a.dtype)


def _shift_right(a: Array, b: Array) -> Array:
    return a >> (b & _c(a.dtype.itemsize * 8 - 1, b)).astype(a.dtype)


def _reversed(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(b, a)


def _identity(a: Array) -> Array:
    return a


def _high(a: Array, b: Array) -> Array:
    wide = np.int64 if a.dtype == np.int32 else np.uint64
    shift = wide(32)
    return (a.astype(wide) * b.astype(wide) >> shift).astype(a.dtype)


def _bits(dtype: Any, sign: bool) -> Callable[..., Array]:
    """Bit-field extract: offset, width."""

    def run(a: Array, offset: Array, width: Array) -> Array:
        offset, width = offset.astype(np.uint32) & 31, width.astype(np.uint32) & 31
        shifted = (a.view(np.int32) if sign else a.view(np.uint32)) >> offset.astype(dtype)
        if not sign:
            return shifted & ((np.uint32(1) << width) - np.uint32(1))
        left = np.where(width == 0, 0, 32 - width).astype(np.uint32)
        kept = np.minimum(32 - offset, width)
        left = np.where(width == 0, 0, 32 - kept).astype(np.int32)
        value = np.left_shift(shifted, left) >> left
        return np.where(width == 0, np.int32(0), value).astype(np.int32)

    return run


def _median(a: Array, b: Array, c: Array) -> Array:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def _median_number(a: Array, b: Array, c: Array) -> Array:
    """The median; with a NaN, the least of the others (v_med3_f32)."""
    least, greatest = floats.least, floats.greatest
    middle = greatest(least(a, b), least(greatest(a, b), c))
    nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(nan, least(least(a, b), c), middle)


def _of_three(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda a, b, c: function(function(a, b), c)


def _permute(a: Array, b: Array, select: Array) -> Array:
    """v_perm_b32: each byte of the result by a selector; b has bytes 0 to 3, a 4 to 7."""
    a, b, select = np.broadcast_arrays(a, b, select)
    both = a.astype(np.uint64) << np.uint64(32) | b.astype(np.uint64)
    result = np.zeros(a.shape, np.uint32)
    for place in range(4):
        which = select >> np.uint32(8 * place) & np.uint32(0xFF)
        byte = both >> (which & np.uint32(7)).astype(np.uint64) * np.uint64(8) & np.uint64(0xFF)
        sign = np.where(which >= 8, np.uint32(16) * (which & np.uint32(3)) + np.uint32(15), 0)
        filled = (both >> sign.astype(np.uint64) & np.uint64(1)) * np.uint64(0xFF)
        byte = np.where(which < 8, byte, filled)
        byte = np.where(which == 12, np.uint64(0), byte)
        byte = np.where(which > 12, np.uint64(0xFF), byte)
        result |= byte.astype(np.uint32) << np.uint32(8 * place)
    return result


def _align(bits: bool) -> Callable[..., Array]:
    def run(a: Array, b: Array, c: Array) -> Array:
        both = a.astype(np.uint64) << np.uint64(32) | b.astype(np.uint64)
        shift = (c & np.uint32(31)) if bits else (c & np.uint32(3)) * np.uint32(8)
        return (both >> shift.astype(np.uint64)).astype(np.uint32)

    return run


def _leading(a: Array) -> Array:
    """Leading zeros, or -1 for none set (v_clz_i32_u32, v_ffbh_u32; s_clz_i32_u64)."""
    if a.dtype == np.uint64:
        low, high = _leading(a.astype(np.uint32)), _leading((a >> 32).astype(np.uint32))
        return np.where(a >> 32 != 0, high, np.where(a != 0, low + np.uint32(32), low))
    exponent = np.frexp(a.astype(np.float64))[1]
    return np.where(a == 0, -1, 32 - exponent).astype(np.uint32)


def _leading_signs(a: Array) -> Array:
    """Count the equal bits from the top, or -1 where all are equal (v_cls_i32, v_ffbh_i32)."""
    bits = 8 * a.itemsize
    return _leading((a ^ a >> bits - 1).view(f"u{a.itemsize}"))


def _trailing(a: Array) -> Array:
    """The place of the lowest bit that is set, or -1 for none, of 32 or 64."""
    low = a & (~a + _c(1, a))
    exponent = np.frexp(low.astype(np.float64))[1]  # exact: it is a power of two
    return np.where(a == 0, -1, exponent - 1).astype(np.uint32)


def _reverse_bits(a: Array) -> Array:
    octets = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, 4)[..., ::-1]
    turned = np.packbits(np.unpackbits(octets, axis=-1, bitorder="little"), axis=-1)
    return np.ascontiguousarray(turned).view(np.uint32)[..., 0]


def _fraction(x: Array) -> Array:
    one = np.nextafter(x.dtype.type(1), x.dtype.type(0))
    return np.minimum(x - np.floor(x), one)


def _scale(x: Array, exponent: Array) -> Array:
    return np.ldexp(x, np.clip(exponent, -5000, 5000).astype(np.int32))


def _mantissa(x: Array) -> Array:
    return np.where(np.isfinite(x), np.frexp(x)[0], x)


def _exponent(x: Array) -> Array:
    return np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32)


def _byte(number: int) -> Callable[[Array], Array]:
    return lambda a: (a >> np.uint32(8 * number) & np.uint32(0xFF)).astype(np.float32)


def _as(dtype: Any) -> Callable[[Array], Array]:
    return lambda a: a.astype(dtype)


def _words(low: Array, high: Array) -> Array:
    return low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << 16


def packed_halves(low: Array, high: Array) -> Array:
    """v_cvt_pk_f16_f32 where an overflow gives the largest number."""
    return _words(*(floats.bounded(x.astype(np.float16), x) for x in (low, high)))


def _any_bits(control: int) -> Callable[..., Array]:
    """The three-input function with that truth table (v_bitop3)."""

    def run(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), a.dtype)
        for row in range(8):
            if control >> row & 1:
                x = a if row & 4 else ~a
                y = b if row & 2 else ~b
                z = c if row & 1 else ~c
                result |= x & y & z
        return result

    return run


bitop3 = _any_bits


def _magnitudes(a: Array, b: Array, c: Array) -> Array:
    """v_sad_u32."""
    return np.where(a > b, a - b, b - a) + c


def _saturated_words(low: Array, high: Array) -> Array:
    most = np.uint32(65535)
    return np.minimum(low, most) | np.minimum(high, most) << 16


def _field_mask(width: Array, offset: Array) -> Array:
    return ((np.uint32(1) << (width & np.uint32(31))) - np.uint32(1)) << (offset & np.uint32(31))


TAU = 2 * np.pi

for _w, _u in _I.items():
    rule(f"mov_b{_w}", _u, _u, _identity)
    rule(f"not_b{_w}", _u, _u, np.invert)
    rule(f"and_b{_w}", _u, f"{_u} {_u}", np.bitwise_and)
    rule(f"or_b{_w}", _u, f"{_u} {_u}", np.bitwise_or)
    rule(f"xor_b{_w}", _u, f"{_u} {_u}", np.bitwise_xor)
    rule(f"xnor_b{_w}", _u, f"{_u} {_u}", lambda a, b: ~(a ^ b))
    _s = "u32" if _w == "64" else _u
    rule(f"lshlrev_b{_w}", _u, f"{_s} {_u}", _reversed(_shift_left))
    rule(f"lshrrev_b{_w}", _u, f"{_s} {_u}", _reversed(_shift_right))
    rule(f"ashrrev_i{_w}", "i" + _w, f"{_s} i{_w}", _reversed(_shift_right))
for _w in ("16", "32"):
    _u, _i = "u" + _w, "i" + _w
    rule(f"add_nc_{_u}", _u, f"{_u} {_u}", np.add)
    rule(f"sub_nc_{_u}", _u, f"{_u} {_u}", np.subtract)
    rule(f"add_nc_{_i}", _i, f"{_i} {_i}", np.add)
    rule(f"sub_nc_{_i}", _i, f"{_i} {_i}", np.subtract)
    rule(f"subrev_nc_{_u}", _u, f"{_u} {_u}", _reversed(np.subtract))
    rule(f"mul_lo_{_u}", _u, f"{_u} {_u}", np.multiply)
    for _k in (_u, _i):
        rule(f"min_{_k}", _k, f"{_k} {_k}", np.minimum)
        rule(f"max_{_k}", _k, f"{_k} {_k}", np.maximum)
        rule(f"min3_{_k}", _k, f"{_k} {_k} {_k}", _of_three(np.minimum))
        rule(f"max3_{_k}", _k, f"{_k} {_k} {_k}", _of_three(np.maximum))
        rule(f"med3_{_k}", _k, f"{_k} {_k} {_k}", _median)
        rule(f"mad_{_k}", _k, f"{_k} {_k} {_k}", lambda a, b, c: a * b + c)
for _w in ("16", "32", "64"):
    _k = "f" + _w
    rule(f"add_{_k}", _k, f"{_k} {_k}", np.add)
    rule(f"sub_{_k}", _k, f"{_k} {_k}", np.subtract)
    rule(f"subrev_{_k}", _k, f"{_k} {_k}", _reversed(np.subtract))
    rule(f"mul_{_k}", _k, f"{_k} {_k}", np.multiply)
    rule(f"min_{_k}", _k, f"{_k} {_k}", floats.least)
    rule(f"max_{_k}", _k, f"{_k} {_k}", floats.greatest)
    rule(f"minimum_{_k}", _k, f"{_k} {_k}", floats.minimum)
    rule(f"maximum_{_k}", _k, f"{_k} {_k}", floats.maximum)
    rule(f"min3_{_k}", _k, f"{_k} {_k} {_k}", _of_three(floats.least))
    rule(f"max3_{_k}", _k, f"{_k} {_k} {_k}", _of_three(floats.greatest))
    rule(f"minimum3_{_k}", _k, f"{_k} {_k} {_k}", _of_three(floats.minimum))
    rule(f"maximum3_{_k}", _k, f"{_k} {_k} {_k}", _of_three(floats.maximum))
    rule(f"med3_{_k}", _k, f"{_k} {_k} {_k}", _median_number)
    rule(f"trunc_{_k}", _k, _k, np.trunc)
    rule(f"ceil_{_k}", _k, _k, np.ceil)
    rule(f"floor_{_k}", _k, _k, np.floor)
    rule(f"rndne_{_k}", _k, _k, np.rint)
    rule(f"fract_{_k}", _k, _k, _fraction)
    rule(f"frexp_mant_{_k}", _k, _k, _mantissa)
    rule(f"div_fixup_{_k}", _k, f"{_k} {_k} {_k}", division.div_fixup)
    _fma = {"16": floats.fma16, "32": floats.fma32, "64": floats.fma64}[_w]
    rule(f"fma_{_k} fmac_{_k} fmamk_{_k} fmaak_{_k}", _k, f"{_k} {_k} {_k}", _fma)

rule("mad_f32 mac_f32 madmk_f32 madak_f32", "f32", "f32 f32 f32", floats.mad32)
rule("mul_legacy_f32 mul_dx9_zero_f32", "f32", "f32 f32",
      lambda a, b: np.where((a == 0) | (b == 0), np.float32(0), a * b))  # fmt: skip
rule("ldexp_f32", "f32", "f32 i32", _scale)
rule("ldexp_f64", "f64", "f64 i32", _scale)
rule("ldexp_f16", "f16", "f16 i16", _scale)
rule("frexp_exp_i32_f32", "i32", "f32", _exponent)
rule("frexp_exp_i32_f64", "i32", "f64", _exponent)
rule("rcp_f32 rcp_iflag_f32 s_rcp_f32", "f32", "f32", floats.flushing(lambda x: 1 / x))
rule("rsq_f32 s_rsq_f32", "f32", "f32", floats.flushing(lambda x: 1 / np.sqrt(x)))
rule("sqrt_f32 s_sqrt_f32", "f32", "f32", floats.flushing(np.sqrt))
rule("exp_f32 s_exp_f32", "f32", "f32", floats.flushing(np.exp2))
rule("log_f32 s_log_f32", "f32", "f32", floats.flushing(np.log2))
rule("sin_f32", "f32", "f32", floats.flushing(lambda x: np.sin(TAU * (x - np.trunc(x)))))
rule("cos_f32", "f32", "f32", floats.flushing(lambda x: np.cos(TAU * (x - np.trunc(x)))))
rule("trig_preop_f64", "f64", "f64 u32", trig.segment)
rule("rcp_f64", "f64", "f64", lambda x: 1 / x)
rule("rsq_f64", "f64", "f64", lambda x: 1 / np.sqrt(x))
rule("sqrt_f64", "f64", "f64", np.sqrt)
for _name, _function in {
    "rcp": lambda x: 1 / x,
    "rsq": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "exp": np.exp2,
    "log": np.log2,
}.items():

    def _half(x: Array, function: Any = _function) -> Array:
        result: Array = function(x.astype(np.float64)).astype(np.float16)
        return result

    rule(f"{_name}_f16", "f16", "f16", _half)

rule("cvt_f32_i32", "f32", "i32", _as(np.float32))
rule("cvt_f32_u32", "f32", "u32", _as(np.float32))
rule("cvt_f64_i32", "f64", "i32", _as(np.float64))
rule("cvt_f64_u32", "f64", "u32", _as(np.float64))
rule("cvt_f64_f32", "f64", "f32", _as(np.float64))
rule("cvt_f32_f64", "f32", "f64", _as(np.float32))
rule("cvt_f16_f32", "f16", "f32", _as(np.float16))
rule("cvt_f32_f16", "f32", "f16", _as(np.float32))
rule("cvt_f16_i16", "f16", "i16", _as(np.float16))
rule("cvt_f16_u16", "f16", "u16", _as(np.float16))
rule("cvt_i16_f16", "i16", "f16", floats.to_int(np.int16))
rule("cvt_u16_f16", "u16", "f16", floats.to_int(np.uint16))
rule("cvt_i32_f32", "i32", "f32", floats.to_int(np.int32))
rule("cvt_u32_f32", "u32", "f32", floats.to_int(np.uint32))
rule("cvt_i32_f64", "i32", "f64", floats.to_int(np.int32))
rule("cvt_u32_f64", "u32", "f64", floats.to_int(np.uint32))
rule("cvt_nearest_i32_f32 cvt_rpi_i32_f32", "i32", "f32",
      lambda x: floats.to_int(np.int32)(np.floor(x + np.float32(0.5))))  # fmt: skip
rule("cvt_floor_i32_f32 cvt_flr_i32_f32", "i32", "f32",
      lambda x: floats.to_int(np.int32)(np.floor(x)))  # fmt: skip
rule("cvt_u32_u16", "u32", "u16", _as(np.uint32))
rule("cvt_i32_i16", "i32", "i16", _as(np.int32))
for _n in range(4):
    rule(f"cvt_f32_ubyte{_n}", "f32", "u32", _byte(_n))
rule("cvt_pkrtz_f16_f32 cvt_pk_rtz_f16_f32", "u32", "f32 f32",
      lambda a, b: _words(floats.rtz16(a), floats.rtz16(b)))  # fmt: skip
rule("cvt_pk_f16_f32", "u32", "f32 f32",
      lambda a, b: _words(a.astype(np.float16), b.astype(np.float16)))  # fmt: skip
rule("cvt_pk_bf16_f32", "u32", "f32 f32",
      lambda a, b: _words(floats.bf16_bits(a), floats.bf16_bits(b)))  # fmt: skip
rule("cvt_pk_u16_u32", "u32", "u32 u32", _saturated_words)
rule("pack_b32_f16", "u32", "f16 f16", _words)

rule("bfrev_b32", "u32", "u32", _reverse_bits)
rule("ffbh_u32 clz_i32_u32", "u32", "u32", _leading)
rule("ffbh_i32 cls_i32", "u32", "i32", _leading_signs)
rule("ffbl_b32 ctz_i32_b32", "u32", "u32", _trailing)
rule("bcnt_u32_b32", "u32", "u32 u32", lambda a, b: np.bitwise_count(a).astype(np.uint32) + b)
rule("bfe_u32", "u32", "u32 u32 u32", _bits(np.uint32, False))
rule("bfe_i32", "i32", "i32 u32 u32", _bits(np.int32, True))
rule("bfi_b32", "u32", "u32 u32 u32", lambda a, b, c: (a & b) | (~a & c))
rule("bfm_b32", "u32", "u32 u32", _field_mask)
rule("perm_b32", "u32", "u32 u32 u32", _permute)
rule("alignbit_b32", "u32", "u32 u32 u32", _align(True))
rule("alignbyte_b32", "u32", "u32 u32 u32", _align(False))
rule("mul_hi_u32", "u32", "u32 u32", _high)
rule("mul_hi_i32", "i32", "i32 i32", _high)
rule("mul_u32_u24", "u32", "u32 u32",
      lambda a, b: (a & np.uint32(0xFFFFFF)) * (b & np.uint32(0xFFFFFF)))  # fmt: skip
rule("mul_i32_i24", "i32", "i32 i32", lambda a, b: (a << 8 >> 8) * (b << 8 >> 8))
rule("mad_u32_u24", "u32", "u32 u32 u32",
      lambda a, b, c: (a & np.uint32(0xFFFFFF)) * (b & np.uint32(0xFFFFFF)) + c)  # fmt: skip
rule("mad_i32_i24", "i32", "i32 i32 i32", lambda a, b, c: (a << 8 >> 8) * (b << 8 >> 8) + c)
rule("mad_u32_u16", "u32", "u16 u16 u32", lambda a, b, c: a.astype(np.uint32) * b + c)
rule("mad_i32_i16", "i32", "i16 i16 i32", lambda a, b, c: a.astype(np.int32) * b + c)
rule("add3_u32", "u32", "u32 u32 u32", lambda a, b, c: a + b + c)
rule("lshl_add_u32", "u32", "u32 u32 u32", lambda a, b, c: _shift_left(a, b) + c)
rule("add_lshl_u32", "u32", "u32 u32 u32", lambda a, b, c: _shift_left(a + b, c))
rule("lshl_or_b32", "u32", "u32 u32 u32", lambda a, b, c: _shift_left(a, b) | c)
rule("and_or_b32", "u32", "u32 u32 u32", lambda a, b, c: a & b | c)
rule("or3_b32", "u32", "u32 u32 u32", lambda a, b, c: a | b | c)
rule("xor3_b32", "u32", "u32 u32 u32", lambda a, b, c: a ^ b ^ c)
rule("xad_u32", "u32", "u32 u32 u32", lambda a, b, c: (a ^ b) + c)
rule("sad_u32", "u32", "u32 u32 u32", _magnitudes)
rule("lshl_add_u64", "u64", "u64 u32 u64",
      lambda a, b, c: _shift_left(a, b & np.uint32(7)) + c)  # fmt: skip
rule("add_nc_u64", "u64", "u64 u64", np.add)
rule("mul_lo_u64", "u64", "u64 u64", np.multiply)

#: Comparisons: what follows `v_cmp_`, up to the kind.
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": np.greater_equal,
    "o": lambda a, b: (a == a) & (b == b),
    "u": lambda a, b: (a != a) | (b != b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "ne": np.not_equal,
    "f": lambda a, b: np.zeros(np.broadcast_shapes(a.shape, b.shape), bool),
    "t": lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), bool),
    "tru": lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), bool),
}
