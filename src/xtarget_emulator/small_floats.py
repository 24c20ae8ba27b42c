"""Floats of 8, 6 and 4 bits: what their bits mean, and how a number is rounded to them.

Source: Open Compute Project, "OCP Microscaling Formats (MX) Specification" 1.0; AMD, "CDNA3" ISA,
"FP8 and BF8" (the forms without a negative zero).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from .memory import Array

__all__ = ["FORMATS", "Format", "decoded", "encoded", "format_of", "scale_of"]

#: An exponent of a scale (e8m0) that is not a number.
_NO_SCALE = 255


@dataclass(frozen=True, slots=True)
class Format:
    """A float of few bits.

    Attributes:
        special: what lies beyond the finite values: `ieee` (infinities and NaN in the last
            exponent), `nan` (one NaN, all bits set), `fnuz` (one NaN in place of negative zero) or
            `none`.
    """

    exponent: int
    mantissa: int
    bias: int
    special: str

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def largest(self) -> float:
        """The largest finite value."""
        table = values(self)
        return float(table[np.isfinite(table)].max())


#: By AMD's names; `_fnuz` are gfx942's.
FORMATS = {
    "fp8": Format(4, 3, 7, "nan"),
    "bf8": Format(5, 2, 15, "ieee"),
    "fp8_fnuz": Format(4, 3, 8, "fnuz"),
    "bf8_fnuz": Format(5, 2, 16, "fnuz"),
    "fp6": Format(2, 3, 1, "none"),
    "bf6": Format(3, 2, 3, "none"),
    "fp4": Format(2, 1, 1, "none"),
}


def format_of(name: str, arch: str) -> Format:
    """Return the format that an arch means by fp8, bf8, fp6, bf6 or fp4."""
    old = arch == "gfx942" and name in ("fp8", "bf8")
    return FORMATS[f"{name}_fnuz" if old else name]


@cache
def values(form: Format) -> Array:
    """The value of every code."""
    code = np.arange(1 << form.bits)
    fraction = (code & (1 << form.mantissa) - 1).astype(np.float64)
    exponent = code >> form.mantissa & (1 << form.exponent) - 1
    significand = np.where(exponent > 0, 2.0**form.mantissa, 0.0) + fraction
    value = np.ldexp(significand, np.maximum(exponent, 1) - form.bias - form.mantissa)
    last = exponent == (1 << form.exponent) - 1
    if form.special == "ieee":
        value = np.where(last, np.where(fraction == 0, np.inf, np.nan), value)
    elif form.special == "nan":
        value = np.where(last & (fraction == (1 << form.mantissa) - 1), np.nan, value)
    value = np.where(code >> form.bits - 1, -value, value)
    if form.special == "fnuz":
        value[1 << form.bits - 1] = np.nan
    return value


def decoded(codes: Array, form: Format) -> Array:
    """The values of codes, float64."""
    return values(form)[codes]


def encoded(x: Array, form: Format, saturates: bool) -> Array:
    """Codes (uint32) of the values that are nearest to float64 `x`, to even between two.

    Args:
        saturates: what is too large becomes the largest finite value, and an infinity too;
            otherwise an infinity, or NaN where there is none. Formats without either always do.
    """
    size = np.abs(x)
    lowest = 1 - form.bias
    known = np.where(np.isfinite(x) & (x != 0), size, form.largest)
    exponent = np.maximum(np.frexp(known)[1] - 1, lowest)
    exponent = np.where(x == 0, lowest, exponent)
    unit = np.ldexp(1.0, exponent - form.mantissa)
    count = np.rint(size / unit)  # of units: up to 2 ** (mantissa + 1), the next exponent's first
    code = np.where(
        np.isfinite(count), (exponent - lowest) * 2**form.mantissa + count, 0
    )  # a subnormal's exponent adds nothing, and a normal's leading bit one
    over = np.where(np.isfinite(size), count * unit, np.inf) > form.largest
    most = np.flatnonzero(values(form) == form.largest)[0]
    sign = np.uint32(1 << form.bits - 1)
    nan = {"ieee": sign - 1, "nan": sign - 1, "fnuz": sign, "none": most}[form.special]
    infinity = most + 1 if form.special == "ieee" else nan
    code = np.where(over, most if saturates or form.special == "none" else infinity, code)
    code = np.where(np.isnan(x), nan, code).astype(np.uint32)
    negative = np.signbit(x)
    if form.special == "fnuz":
        negative &= (code != 0) & (code != nan)
    return np.where(negative, code | sign, code)


def scale_of(exponent: Array) -> Array:
    """The factor that a biased exponent of 8 bits (e8m0) stands for, float64."""
    factor = np.ldexp(1.0, exponent.astype(np.int64) - 127)
    return np.where(exponent == _NO_SCALE, np.nan, factor)
