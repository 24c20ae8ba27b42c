"""The instructions of a division that rounds once: v_div_scale, v_div_fmas and v_div_fixup.

Source: AMD, "RDNA3", "RDNA4", "CDNA3" and "CDNA4" ISA, V_DIV_SCALE_F32 to V_DIV_FIXUP_F64. In three
places their pseudocode cannot be what the hardware does, as LLVM's sequence for a division would
then be wrong:

- V_DIV_FMAS scales by 2**32 (2**64) there, but V_DIV_SCALE by 2**64 (2**128), up or down. What is
  scaled back is a quotient of known size: one that was too large is above 1 and goes up, one that
  was too small is below 1 and goes down.
- V_DIV_SCALE multiplies a denominator above 2**126 by 2**64 where the quotient is subnormal. That
  gives infinity; divided by 2**64 the quotient becomes normal.
- A quotient that overflows before it is scaled back reaches V_DIV_FIXUP as NaN, and is infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from . import floats
from .memory import Array

__all__ = ["div_fixup", "div_fmas", "div_scale"]


@dataclass(frozen=True, slots=True)
class _Format:
    """The parameters of a float format that division needs.

    Attributes:
        bits: width of the mantissa field.
        exponents: mask of the exponent field.
        far: at this difference of the exponents or above, the quotient may overflow.
        small: at this exponent of the numerator or below, a remainder may be subnormal.
        shift: shift of the scale.
        lost: below this difference of the exponents, the quotient is 0.
    """

    bits: int
    exponents: int
    far: int
    small: int
    shift: int
    lost: int


_SINGLE = _Format(23, 0xFF, 96, 23, 64, -150)
_DOUBLE = _Format(52, 0x7FF, 768, 53, 128, -1075)


def _format(x: Array) -> _Format:
    return _DOUBLE if x.dtype == np.float64 else _SINGLE


def _exponent(x: Array, form: _Format) -> Array:
    """The biased exponent field."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}").type
    bits = x.view(unsigned)
    return (bits >> unsigned(form.bits) & unsigned(form.exponents)).astype(np.int32)


def div_scale(s0: Array, s1: Array, s2: Array) -> tuple[Array, Array]:
    """v_div_scale: the scaled operand s0 (which is s1, the denominator, or s2, the numerator), and
    whether the quotient has to be scaled back."""
    s0, s1, s2 = (np.ascontiguousarray(x) for x in np.broadcast_arrays(s0, s1, s2))
    form = _format(s0)
    tiny = np.finfo(s0.dtype).smallest_normal
    one = s0.dtype.type(1)
    e1, e2 = _exponent(s1, form), _exponent(s2, form)
    up, down = np.ldexp(s0, form.shift), np.ldexp(s0, -form.shift)
    low_quotient = np.abs(s2 / s1) < tiny
    low_inverse = (np.abs(one / s1) < tiny) & np.isfinite(s1)
    subnormal = (np.abs(s1) < tiny) & (s1 != 0)
    is_1, is_2 = s0 == s1, s0 == s2
    cases = [
        (s1 == 0) | (s2 == 0),
        e2 - e1 >= form.far,
        subnormal,
        low_inverse & low_quotient,
        low_inverse,
        low_quotient,
        e2 <= form.small,
    ]
    values = [
        np.full_like(s0, np.nan),
        np.where(is_1, up, s0),
        up,
        np.where(is_1, down, s0),
        down,
        np.where(is_2, up, s0),
        up,
    ]
    flags = (False, True, False, True, False, True, False)
    scaled = np.select(cases, values, s0)
    back = np.select(cases, [np.full(s0.shape, f) for f in flags], np.zeros(s0.shape, bool))
    return scaled, back


def div_fmas(a: Array, b: Array, c: Array, back: Array) -> Array:
    """v_div_fmas: a * b + c, and where `back` is set, times the power of two that undoes
    `div_scale`, rounded once."""
    a, b, c, back = np.broadcast_arrays(a, b, c, back)
    a, b, c = (np.ascontiguousarray(x) for x in (a, b, c))
    form = _format(c)
    above = _exponent(c, form) > form.exponents >> 1
    shift = np.where(back, np.where(above, form.shift, -form.shift), 0)
    if c.dtype == np.float32:
        return floats.scaled_fma32(a, b, c, shift)
    plain = floats.fma64(a, b, c)
    result = np.ldexp(plain, shift)
    # a subnormal result has been rounded twice
    again = (shift < 0) & (np.abs(result) < np.finfo(np.float64).smallest_normal)
    again &= np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    for place in zip(*np.nonzero(again), strict=True):
        exact = Fraction(float(a[place])) * Fraction(float(b[place])) + Fraction(float(c[place]))
        if exact:
            result[place] = float(exact * Fraction(2) ** int(shift[place]))
    return result


def div_fixup(q: Array, denominator: Array, numerator: Array) -> Array:
    """v_div_fixup: the quotient, or the result that IEEE requires where there is none."""
    d, n = denominator, numerator
    q, d, n = (np.ascontiguousarray(x) for x in np.broadcast_arrays(q, d, n))
    kind: Any = q.dtype.type
    signed = np.where(np.signbit(d) ^ np.signbit(n), kind(-1), kind(1))
    size = np.abs(q)
    if q.dtype != np.float16:
        form = _format(q)
        size = np.where(np.isnan(size), kind(np.inf), size)
        size = np.where(_exponent(n, form) - _exponent(d, form) < form.lost, kind(0), size)
    size = np.where(np.isinf(d) | (n == 0), kind(0), size)
    size = np.where((d == 0) | np.isinf(n), kind(np.inf), size)
    result = np.copysign(size, signed)
    nothing = (d == 0) & (n == 0) | np.isinf(d) & np.isinf(n)
    result = np.where(nothing, kind(-np.nan), result)
    result = np.where(np.isnan(d), d, result)
    fixed: Array = np.where(np.isnan(n), n, result)
    return fixed
