"""Floating-point operations that NumPy does not have: fused multiply-add, division's helpers,
conversions that saturate, rounding toward zero.

Transcendental operations are rounded from float64, which is closer than any GPU; they flush
subnormal arguments and results, as the hardware does.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .memory import Array

__all__ = [
    "bf16_bits",
    "bf16_value",
    "bounded",
    "classify",
    "div_fixup",
    "div_scale",
    "flushing",
    "fma16",
    "fma32",
    "fma64",
    "mad32",
    "rtz16",
    "to_int",
]

_TIE, _BELOW = np.uint64(0x1FFFFFFF), np.uint64(0x10000000)
_TINY32 = 2.0**-126
_SPLIT = 134217729.0  # 2**27 + 1


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in float32, rounded once.

    The product is exact in float64, so only a sum that lies next to the middle of two float32
    values, or is subnormal, has to be looked at closely.
    """
    product = a.astype(np.float64) * b
    total = product + c
    close = (total.view(np.uint64) & _TIE) == _BELOW
    close |= np.abs(total) < _TINY32
    if close.any():
        c64 = np.broadcast_to(np.asarray(c, np.float64), total.shape)
        again = total - product
        lost = (product - (total - again)) + (c64 - again)
        # round to odd: the last bit says that something was lost
        bits = total.view(np.int64)
        odd = (bits & 1) != 0
        fix = close & (lost != 0) & ~odd & np.isfinite(total)
        if fix.any():
            up = (lost > 0) == (total > 0)
            zero = total == 0
            stepped = np.where(up, bits + 1, bits - 1).view(np.float64)
            total = np.where(fix & ~zero, stepped, total)
    result: Array = total.astype(np.float32)
    return result


def mad32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in float32, rounded twice, subnormals flushed (v_mad_f32)."""
    return _flush(_flush(_flush(a) * _flush(b)) + _flush(c))


def fma16(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in float16. The float64 sum is exact but for a part too small to matter unless it
    decides a tie, which rounding to odd keeps apart."""
    product = a.astype(np.float64) * b.astype(np.float64)
    c64 = np.asarray(c, np.float64)
    total = product + c64
    again = total - product
    lost = (product - (total - again)) + (c64 - again)
    bits = total.view(np.int64)
    fix = (lost != 0) & ((bits & 1) == 0) & np.isfinite(total)
    if fix.any():
        up = (lost > 0) == (total > 0)
        total = np.where(fix, np.where(up, bits + 1, bits - 1).view(np.float64), total)
    result: Array = total.astype(np.float16)
    return result


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in float64, rounded once.

    Source: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms
    using rounding to odd", IEEE Transactions on Computers 57(4), 2008. Where exponents are extreme,
    by exact fractions.
    """
    a, b, c = (np.ascontiguousarray(x) for x in np.broadcast_arrays(a, b, c))
    high, low = _product(a, b)
    sum_high, sum_low = _sum(c, low)
    first, second = _sum(high, sum_high)
    odd = _odd_sum(sum_low, second)
    result: Array = first + odd
    magnitude = np.abs(high)
    ordinary = (magnitude > 1e-200) & (magnitude < 1e200) & (np.abs(c) < 1e200)
    ordinary &= (np.abs(a) < 1e150) & (np.abs(b) < 1e150)
    ordinary &= (np.abs(c) > 1e-200) | (c == 0)
    if not ordinary.all():
        plain = a * b + c
        result = np.where(ordinary, result, plain)
        careful = ~ordinary & np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
        careful &= (a != 0) & (b != 0)
        for place in zip(*np.nonzero(careful), strict=True):
            result[place] = _exact(float(a[place]), float(b[place]), float(c[place]))
    return result


def _exact(a: float, b: float, c: float) -> float:
    value = Fraction(a) * Fraction(b) + Fraction(c)
    if not value:
        return a * b + c
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b as the sum of two float64."""
    p = a * b
    t = _SPLIT * a
    a1 = t - (t - a)
    a2 = a - a1
    t = _SPLIT * b
    b1 = t - (t - b)
    b2 = b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _odd_sum(a: Array, b: Array) -> Array:
    """a + b, rounded to odd."""
    total, lost = _sum(a, b)
    bits = np.ascontiguousarray(total).view(np.int64)
    up = (lost > 0) == (total > 0)
    stepped = np.where(up, bits + 1, bits - 1).view(np.float64)
    return np.where((lost != 0) & ((bits & 1) == 0), stepped, total)


def _flush(x: Array) -> Array:
    return np.where(np.abs(x) < np.float32(_TINY32), np.copysign(np.float32(0), x), x)


def flushing(function: Any) -> Any:
    """A float32 function of one argument from one of float64, with subnormals flushed."""

    def run(x: Array) -> Array:
        return _flush(function(_flush(x).astype(np.float64)).astype(np.float32))

    return run


def to_int(dtype: Any) -> Any:
    """Conversion of floats to integers: toward zero, saturating, NaN to 0."""
    info = np.iinfo(dtype)

    def run(x: Array) -> Array:
        wide = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e300, neginf=-1e300))
        return np.clip(wide, info.min, info.max).astype(np.int64).astype(dtype)

    return run


def rtz16(x: Array) -> Array:
    """float32 to float16, toward zero."""
    near = x.astype(np.float16)
    over = np.abs(near.astype(np.float32)) > np.abs(x)
    return np.where(over, (near.view(np.uint16) - np.uint16(1)).view(np.float16), near)


def bounded(half: Array, *operands: Array) -> Array:
    """float16 results with the largest number in place of the infinities that were no operand's,
    nor a pole's (of a function of one operand, at 0)."""
    over = np.isinf(half)
    if not over.any():
        return half
    if len(operands) == 1:
        over = over & (operands[0] != 0)
    for operand in operands:
        if operand.dtype.kind == "f":
            over = over & ~np.isinf(operand)
    result: Array = np.where(over, np.copysign(np.float16(65504), half), half)
    return result


def bf16_bits(x: Array) -> Array:
    """float32 to bfloat16 (as uint16), to nearest even."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & np.uint32(1))) >> 16
    return np.where(np.isnan(x), bits >> 16 | 0x40, rounded).astype(np.uint16)


def bf16_value(bits: Array) -> Array:
    """bfloat16 (as uint16 or the low half of more) to float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def classify(x: Array, wanted: Array) -> Array:
    """v_cmp_class: whether x is of one of the classes whose bits are set.

    Bits: signalling NaN, quiet NaN, -inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf.
    """
    x, wanted = np.broadcast_arrays(x, wanted)
    x = np.ascontiguousarray(x)
    tiny, width = np.finfo(x.dtype).smallest_normal, x.dtype.itemsize * 8
    quiet = {16: 9, 32: 22, 64: 51}[width]
    bits = x.view(f"u{width // 8}")
    negative = np.signbit(x)
    magnitude = np.abs(x)
    kind = np.where(negative, 3, 8)
    kind = np.where(magnitude < tiny, np.where(negative, 4, 7), kind)
    kind = np.where(x == 0, np.where(negative, 5, 6), kind)
    kind = np.where(np.isinf(x), np.where(negative, 2, 9), kind)
    signalling = (bits >> bits.dtype.type(quiet) & bits.dtype.type(1)) == 0
    kind = np.where(np.isnan(x), np.where(signalling, 0, 1), kind)
    result: Array = (wanted >> kind.astype(np.uint32) & 1).astype(bool)
    return result


def _exponent(x: Array) -> Array:
    """The biased exponent field."""
    if x.dtype == np.float32:
        return (x.view(np.uint32) >> 23 & 0xFF).astype(np.int32)
    return (x.view(np.uint64) >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int32)


def div_scale(s0: Array, s1: Array, s2: Array) -> tuple[Array, Array]:
    """v_div_scale: the scaled operand s0 (which is s1, the denominator, or s2, the numerator), and
    whether the quotient has to be scaled back.

    Source: RDNA3 ISA, V_DIV_SCALE_F32 and V_DIV_SCALE_F64.
    """
    s0, s1, s2 = (np.ascontiguousarray(x) for x in np.broadcast_arrays(s0, s1, s2))
    double = s0.dtype == np.float64
    far, small, shift = (768, 53, 128) if double else (96, 23, 64)
    tiny = np.finfo(s0.dtype).smallest_normal
    e1, e2 = _exponent(s1), _exponent(s2)
    up, down = np.ldexp(s0, shift), np.ldexp(s0, -shift)
    quotient = s2 / s1
    low_quotient = (quotient != 0) & (np.abs(quotient) < tiny) | (quotient == 0)
    inverse = 1.0 / s1.astype(np.float64)
    low_inverse = (np.abs(inverse) < np.finfo(np.float64).smallest_normal) & np.isfinite(s1)
    subnormal = (np.abs(s1) < tiny) & (s1 != 0)
    is_1, is_2 = s0 == s1, s0 == s2
    zero = (s1 == 0) | (s2 == 0)
    cases = [
        zero,
        e2 - e1 >= far,
        subnormal,
        low_inverse & low_quotient,
        low_inverse,
        low_quotient,
        e2 <= small,
    ]
    nan = s0.dtype.type(np.nan)
    scaled = np.select(
        cases,
        [
            np.full_like(s0, nan),
            np.where(is_1, up, s0),
            up,
            np.where(is_1, up, s0),
            down,
            np.where(is_2, up, s0),
            up,
        ],
        s0,
    )
    flags = [np.full(s0.shape, f) for f in (False, True, False, True, False, True, False)]
    back = np.select(cases, flags, np.zeros(s0.shape, bool))
    return scaled, back


def div_fixup(q: Array, denominator: Array, numerator: Array) -> Array:
    """v_div_fixup: the quotient, or what IEEE wants where there is none.

    Source: RDNA3 ISA, V_DIV_FIXUP_F32.
    """
    d, n = denominator, numerator
    negative = np.signbit(d) ^ np.signbit(n)
    one = np.abs(q).dtype.type(1)
    signed = np.where(negative, -one, one)
    nan = one * np.nan
    result = np.copysign(np.abs(q), signed)
    if q.dtype != np.float16:
        far = _exponent(np.ascontiguousarray(n)) - _exponent(np.ascontiguousarray(d))
        result = np.where(far < (-1075 if q.dtype == np.float64 else -150), signed * 0, result)
    result = np.where(np.isinf(d) | (n == 0), signed * 0, result)
    result = np.where((d == 0) | np.isinf(n), signed * np.inf, result)
    result = np.where((d == 0) & (n == 0) | np.isinf(d) & np.isinf(n), nan, result)
    result = np.where(np.isnan(d), d, result)
    fixed: Array = np.where(np.isnan(n), n, result).astype(q.dtype)
    return fixed
