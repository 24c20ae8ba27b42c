"""Floating-point operations that NumPy does not have: fused multiply-add, conversions that
saturate, rounding toward zero.

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
    "flushing",
    "fma16",
    "fma32",
    "fma64",
    "greatest",
    "least",
    "mad32",
    "maximum",
    "minimum",
    "rtz16",
    "scaled_fma32",
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
        total = np.where(close, _to_odd(product, c, total), total)
    result: Array = total.astype(np.float32)
    return result


def scaled_fma32(a: Array, b: Array, c: Array, shift: Array) -> Array:
    """(a * b + c) * 2**shift in float32, rounded once."""
    product = a.astype(np.float64) * b
    result: Array = np.ldexp(_to_odd(product, c, product + c), shift).astype(np.float32)
    return result


def _to_odd(product: Array, c: Array, total: Array) -> Array:
    """Return product + c in float64, where `total` is the nearest value. The last bit of the result
    says that something was lost, so that the result can be rounded again to fewer bits."""
    c64 = np.broadcast_to(np.asarray(c, np.float64), total.shape)
    again = total - product
    lost = (product - (total - again)) + (c64 - again)
    bits = np.ascontiguousarray(total).view(np.int64)
    up = (lost > 0) == (total > 0)
    stepped = np.where(up, bits + 1, bits - 1).view(np.float64)
    fix = (lost != 0) & ((bits & 1) == 0) & np.isfinite(total)
    return np.where(fix, stepped, total)


def mad32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in float32, rounded twice, subnormals flushed (v_mad_f32)."""
    return _flush(_flush(_flush(a) * _flush(b)) + _flush(c))


def fma16(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in float16, rounded once: the product is exact in float64."""
    product = a.astype(np.float64) * b.astype(np.float64)
    result: Array = _to_odd(product, c, product + c).astype(np.float16)
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


def least(a: Array, b: Array) -> Array:
    """The smaller one, of a NaN and a number the number; -0 is below 0 (v_min, v_min_num)."""
    return np.where(_zeros(a, b), np.where(np.signbit(a), a, b), np.fmin(a, b))


def greatest(a: Array, b: Array) -> Array:
    """The larger one, likewise (v_max, v_max_num)."""
    return np.where(_zeros(a, b), np.where(np.signbit(a), b, a), np.fmax(a, b))


def minimum(a: Array, b: Array) -> Array:
    """`least`, but NaN if one is NaN (v_minimum)."""
    return np.where(_zeros(a, b), np.where(np.signbit(a), a, b), np.minimum(a, b))


def maximum(a: Array, b: Array) -> Array:
    """`greatest`, but NaN if one is NaN (v_maximum)."""
    return np.where(_zeros(a, b), np.where(np.signbit(a), b, a), np.maximum(a, b))


def _zeros(a: Array, b: Array) -> Array:
    result: Array = (a == 0) & (b == 0)
    return result


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
    """float16 results with the largest number in place of infinities that were not an operand's,
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
