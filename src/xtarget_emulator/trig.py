"""v_trig_preop_f64: digits of 2/pi, by which sines of large numbers find their place in the circle.

Source: AMD, "RDNA3" ISA, V_TRIG_PREOP_F64.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from .memory import Array

__all__ = ["segment"]

#: Digits of 2/pi that the hardware has, and those of one segment.
_DIGITS, _SEGMENT = 1201, 53
_GUARD = 64


@cache
def _two_over_pi() -> int:
    """floor(2/pi * 2**_DIGITS), by Machin's formula for pi."""
    one = 1 << (_DIGITS + _GUARD)

    def arctangent(inverse: int) -> int:
        term = total = one // inverse
        odd, sign = 3, -1
        while term:
            term //= inverse * inverse
            total += sign * (term // odd)
            odd, sign = odd + 2, -sign
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    return (2 * one * one // pi) >> _GUARD


@cache
def _digits(shift: int) -> float:
    """53 binary digits of 2/pi from the one after `shift` on, at their own size."""
    below = _DIGITS - _SEGMENT - shift
    whole = _two_over_pi()
    part = (whole >> below if below >= 0 else whole << -below) & ((1 << _SEGMENT) - 1)
    return float(np.ldexp(float(part), -_SEGMENT - shift))


def segment(x: Array, number: Array) -> Array:
    """Segment `number` of 2/pi for an argument of the size of `x`: none of its digits matters that
    only turns the circle around."""
    x, number = np.broadcast_arrays(x, number)
    exponent = (np.ascontiguousarray(x).view(np.uint64) >> np.uint64(52)).astype(np.int64) & 0x7FF
    shift = (number.astype(np.int64) & 31) * _SEGMENT + np.maximum(exponent - 1077, 0)
    result = np.empty(x.shape)
    for each in np.unique(shift):
        result[shift == each] = _digits(int(each))
    return np.where(exponent >= 1968, result * 2.0**128, result)
