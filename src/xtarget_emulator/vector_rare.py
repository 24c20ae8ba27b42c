"""Tables of rarer vector instructions: combined minima and maxima, bytes, fixed point, and
forms that only some archs have. Adds to the table of `vector`.

Source: AMD, "RDNA3", "RDNA4", "CDNA3" and "CDNA4" ISA, chapter "Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import division, floats
from .memory import Array
from .vector import ALU, TAU, rule

__all__: list[str] = []

_BYTE = np.uint32(0xFF)


def _then(first: Callable[..., Array], second: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b, c: second(first(a, b), c)


def _high_24(a: Array, b: Array) -> Array:
    """The upper word of a product of 24-bit integers."""
    if a.dtype == np.int32:
        wide = (a << 8 >> 8).astype(np.int64) * (b << 8 >> 8)
    else:
        low = np.uint32(0xFFFFFF)
        wide = (a & low).astype(np.uint64) * (b & low)
    return (wide >> wide.dtype.type(32)).astype(a.dtype)


def _words(low: Array, high: Array) -> Array:
    """Two integers' lower 16 bits as one word."""
    mask = np.uint32(0xFFFF)
    return low.astype(np.int32).view(np.uint32) & mask | high.astype(np.int32).view(np.uint32) << 16


def _both(function: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: _words(function(a), function(b))


def _limited(low: int, high: int) -> Callable[[Array], Array]:
    return lambda a: np.clip(a, low, high)


def _fixed(most: int, least: float) -> Callable[[Array], Array]:
    """Floats of -1 to 1 (0 to 1) as integers of that range."""

    def run(x: Array) -> Array:
        inside = np.clip(np.nan_to_num(x.astype(np.float64)), least, 1.0)
        return np.rint(inside * most).astype(np.int64)

    return run


def _distances(size: int, masked: bool = False) -> Callable[[Array, Array, Array], Array]:
    """Sums of absolute differences of bytes or half words, plus the third operand.

    Args:
        masked: bytes that are 0 in the second operand do not count.
    """
    ones = np.uint32((1 << size) - 1)

    def run(a: Array, b: Array, c: Array) -> Array:
        total = c
        for shift in range(0, 32, size):
            x, y = (v >> np.uint32(shift) & ones for v in (a, b))
            apart = np.where(x > y, x - y, y - x)
            total = total + (np.where(y == 0, np.uint32(0), apart) if masked else apart)
        return total

    return run


def _mean_bytes(a: Array, b: Array, c: Array) -> Array:
    """v_lerp_u8: means, rounded up where the third operand's bits are set."""
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
    for shift in map(np.uint32, range(0, 32, 8)):
        x, y, up = a >> shift & _BYTE, b >> shift & _BYTE, c >> shift & np.uint32(1)
        total |= (x + y + up >> np.uint32(1) & _BYTE) << shift
    return total


def _insert_byte(x: Array, place: Array, rest: Array) -> Array:
    """v_cvt_pk_u8_f32."""
    byte = np.clip(np.rint(np.nan_to_num(x)), 0, 255).astype(np.uint32)
    shift = (place & np.uint32(3)) * np.uint32(8)
    return rest & ~(_BYTE << shift) | byte << shift


def _saturated_bytes(word: Array) -> Array:
    """v_sat_pk_u8_i16."""
    halves = [(word >> np.uint32(s)).astype(np.uint16).view(np.int16) for s in (0, 16)]
    low, high = (np.clip(h, 0, 255).astype(np.uint16) for h in halves)
    return low | high << np.uint16(8)


def _shifted_bytes(low: int, high: int) -> Callable[[Array, Array, Array], Array]:
    """v_ashr_pk: two numbers shifted right, as two bytes."""

    def run(a: Array, b: Array, shift: Array) -> Array:
        by = (shift & np.uint32(31)).astype(np.int32)
        x, y = (np.clip(v >> by, low, high).astype(np.int32).view(np.uint32) for v in (a, b))
        return (x & _BYTE | (y & _BYTE) << np.uint32(8)).astype(np.uint16)

    return run


def _random(a: Array) -> Array:
    """v_prng_b32: the next number of a linear feedback shift register."""
    return a << np.uint32(1) ^ np.where(a >> np.uint32(31) != 0, np.uint32(0xC5), np.uint32(0))


def _dot_halves(kind: str) -> Callable[[Array, Array, Array], Array]:
    """v_dot2_f16_f16 and v_dot2_bf16_bf16, which round after every step."""

    def value(bits: Array) -> Array:
        short = bits.astype(np.uint16)
        return floats.bf16_value(short) if kind == "bf16" else short.view(np.float16)

    def rounded(x: Array) -> Array:
        if kind == "bf16":
            return floats.bf16_value(floats.bf16_bits(x.astype(np.float32)))
        return x.astype(np.float16)

    def run(a: Array, b: Array, c: Array) -> Array:
        total = value(c).astype(np.float64)
        for shift in (0, 16):
            x, y = (value(v >> np.uint32(shift)).astype(np.float64) for v in (a, b))
            total = rounded(total + x * y).astype(np.float64)
        if kind == "bf16":
            return floats.bf16_bits(total.astype(np.float32))
        return total.astype(np.float16).view(np.uint16)

    return run


def _circle(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        wide = x.astype(np.float64)
        return function(TAU * (wide - np.trunc(wide))).astype(np.float16)

    return run


def _exponent_of_half(x: Array) -> Array:
    return np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int16)


def _dx9(a: Array, b: Array, c: Array) -> Array:
    """A product in which 0 times anything is 0."""
    return np.where((a == 0) | (b == 0), c, floats.fma32(a, b, c))


def _mad16(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


_EXTREMES: dict[str, tuple[Any, Any, Any, Any]] = {
    "f32": (floats.least, floats.greatest, floats.minimum, floats.maximum),
    "f16": (floats.least, floats.greatest, floats.minimum, floats.maximum),
    "u32": (np.minimum, np.maximum, None, None),
    "i32": (np.minimum, np.maximum, None, None),
}
for _k, (_min, _max, _minimum, _maximum) in _EXTREMES.items():
    rule(f"maxmin_{_k}", _k, f"{_k} {_k} {_k}", _then(_max, _min))
    rule(f"minmax_{_k}", _k, f"{_k} {_k} {_k}", _then(_min, _max))
    if _minimum is not None:
        rule(f"maximumminimum_{_k}", _k, f"{_k} {_k} {_k}", _then(_maximum, _minimum))
        rule(f"minimummaximum_{_k}", _k, f"{_k} {_k} {_k}", _then(_minimum, _maximum))
rule("mul_hi_u32_u24", "u32", "u32 u32", _high_24)
rule("mul_hi_i32_i24", "i32", "i32 i32", _high_24)
rule("frexp_exp_i16_f16", "i16", "f16", _exponent_of_half)
rule("sin_f16", "f16", "f16", _circle(np.sin))
rule("cos_f16", "f16", "f16", _circle(np.cos))
rule("exp_legacy_f32", "f32", "f32", ALU["v_exp_f32"][2])
rule("log_legacy_f32", "f32", "f32", ALU["v_log_f32"][2])
rule("mad_f16 mac_f16 mad_legacy_f16", "f16", "f16 f16 f16", _mad16)
rule("fma_legacy_f16", "f16", "f16 f16 f16", floats.fma16)
rule("div_fixup_legacy_f16", "f16", "f16 f16 f16", division.div_fixup)
rule("mad_legacy_u16", "u16", "u16 u16 u16", _mad16)
rule("mad_legacy_i16", "i16", "i16 i16 i16", _mad16)
rule("fma_dx9_zero_f32 fmac_dx9_zero_f32", "f32", "f32 f32 f32", _dx9)
rule("cvt_f32_bf16", "f32", "u16", floats.bf16_value)
rule("cvt_off_f32_i4", "f32", "i32", lambda a: (a << 28 >> 28).astype(np.float32) / np.float32(16))
rule("cvt_pk_i16_i32", "u32", "i32 i32", _both(_limited(-32768, 32767)))
rule("cvt_pk_i16_f32", "u32", "f32 f32", _both(floats.to_int(np.int16)))
rule("cvt_pk_u16_f32", "u32", "f32 f32", _both(floats.to_int(np.uint16)))
for _short in ("pknorm", "pk_norm"):
    for _k in ("f16", "f32"):
        rule(f"cvt_{_short}_i16_{_k}", "u32", f"{_k} {_k}", _both(_fixed(32767, -1.0)))
        rule(f"cvt_{_short}_u16_{_k}", "u32", f"{_k} {_k}", _both(_fixed(65535, 0.0)))
rule("cvt_norm_i16_f16", "i16", "f16", lambda x: _fixed(32767, -1.0)(x).astype(np.int16))
rule("cvt_norm_u16_f16", "u16", "f16", lambda x: _fixed(65535, 0.0)(x).astype(np.uint16))
rule("sad_u8", "u32", "u32 u32 u32", _distances(8))
rule("sad_u16", "u32", "u32 u32 u32", _distances(16))
rule("msad_u8", "u32", "u32 u32 u32", _distances(8, masked=True))
rule("sad_hi_u8", "u32", "u32 u32 u32",
     lambda a, b, c: (_distances(8)(a, b, np.zeros_like(c)) << np.uint32(16)) + c)  # fmt: skip
rule("lerp_u8", "u32", "u32 u32 u32", _mean_bytes)
rule("cvt_pk_u8_f32", "u32", "f32 u32 u32", _insert_byte)
rule("sat_pk_u8_i16", "u16", "u32", _saturated_bytes)
rule("ashr_pk_i8_i32", "u16", "i32 i32 u32", _shifted_bytes(-128, 127))
rule("ashr_pk_u8_i32", "u16", "i32 i32 u32", _shifted_bytes(0, 255))
rule("prng_b32", "u32", "u32", _random)
rule("dot2_f16_f16", "u16", "u32 u32 u16", _dot_halves("f16"))
rule("dot2_bf16_bf16", "u16", "u32 u32 u16", _dot_halves("bf16"))
for _name in ("exp", "log", "rcp", "rsq", "sqrt"):
    rule(f"s_{_name}_f16", "u32", "f16",
         lambda x, f=ALU[f"v_{_name}_f16"][2]: f(x).view(np.uint16).astype(np.uint32))  # fmt: skip
