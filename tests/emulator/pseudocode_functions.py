"""Functions that AMD's pseudocode calls, by name."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from pseudocode_values import FLOATS, Bits, integer, plain, raw, typed


def _fma(a: Any, b: Any, c: Any) -> Any:
    kind = type(a)
    if not all(map(np.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    return a * b + c if not exact else _rounded(exact, kind)


def _rounded(exact: Fraction, kind: Any) -> Any:
    """The nearest value, to even between two."""
    info = np.finfo(kind)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, int(info.minexp)) - int(info.nmant))
    whole = round(size / unit) * unit
    value = kind(np.inf) if whole > Fraction(float(info.max)) else kind(float(whole))
    return -value if exact < 0 else value


def _exponent(x: Any) -> int:
    bits, width = raw(x), 8 * x.dtype.itemsize
    mantissa = np.finfo(x.dtype).nmant
    return bits >> mantissa & (1 << width - 1 - mantissa) - 1


def _mantissa(x: Any) -> Any:
    return type(x)(np.frexp(x)[0])


def _signalling(x: Any) -> bool:
    quiet = np.finfo(x.dtype).nmant - 1
    return bool(np.isnan(x)) and not raw(x) >> int(quiet) & 1


def _saturated(low: int, high: int) -> Callable[[Any], int]:
    def run(x: Any) -> int:
        if np.isnan(x):
            return 0
        return int(max(low, min(high, np.trunc(np.float64(x)))))

    return run


def _to_float(kind: Any) -> Callable[[Any], Any]:
    return lambda x: kind(plain(x))


def _signext_from_bit(value: Any, width: Any) -> int:
    count, whole = integer(width), integer(value)
    if not count:
        return 0
    whole &= (1 << count) - 1
    return whole - (whole >> count - 1 << count)


def _norm(most: int, least: float) -> Callable[[Any], int]:
    def run(x: Any) -> int:
        inside = 0.0 if np.isnan(x) else max(least, min(1.0, float(x)))
        return round(inside * most)

    return run


def _bf16(x: Any) -> int:
    bits = raw(np.float32(x))
    if np.isnan(x):
        return bits >> 16 | 0x40
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16


def _apart(a: Any, b: Any) -> int:
    return abs(integer(a) - integer(b))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "isNAN": lambda x: int(np.isnan(x)),
    "isQuietNAN": lambda x: int(np.isnan(x)),
    "isSignalNAN": lambda x: 0,
    "cvtToQuietNAN": lambda x: x,
    "abs": lambda x: abs(plain(x)),
    "sign": lambda x: int(np.signbit(x)),
    "exponent": _exponent,
    "mantissa": _mantissa,
    "fma": _fma,
    "floor": np.floor,
    "trunc": np.trunc,
    "ceil": np.ceil,
    "fract": lambda x: x - np.floor(x),
    "isEven": lambda x: int(np.isfinite(x) and x % 2 == 0),
    "sqrt": np.sqrt,
    "log2": np.log2,
    "pow": lambda a, b: type(b)(np.exp2(np.float64(b))),
    "ldexp": lambda x, n: np.ldexp(x, int(n)),
    "signext": lambda x: x,
    "signext_from_bit": _signext_from_bit,
    "ABSDIFF": _apart,
    "f16_to_snorm": _norm(32767, -1.0), "f32_to_snorm": _norm(32767, -1.0),
    "f16_to_unorm": _norm(65535, 0.0), "f32_to_unorm": _norm(65535, 0.0),
    "SAT8": lambda x: max(0, min(255, integer(x))),
    "f32_to_bf16": lambda x: Bits(_bf16(x), 16),
    "v_cvt_i16_f32": lambda x: _saturated(-32768, 32767)(x),
    "v_cvt_u16_f32": lambda x: _saturated(0, 65535)(x),
    "bf16_to_f32": lambda x: typed(Bits(raw(x), 16), "bf16") if isinstance(x, Bits) else x,
    "cos": np.cos, "sin": np.sin,
    "i32_to_i16": lambda x: max(-32768, min(32767, integer(x))),
    "u32_to_u16": lambda x: min(65535, integer(x)),
    "f32_to_u8": lambda x: _saturated(0, 255)(np.rint(x)),
}  # fmt: skip
for _bits in (4, 8, 16, 24, 32, 64):
    for _sign in "iu":
        _low = -(1 << _bits - 1) if _sign == "i" else 0
        _high = (1 << _bits - (_sign == "i")) - 1
        for _width, _kind in FLOATS.items():
            FUNCTIONS.setdefault(f"f{_width}_to_{_sign}{_bits}", _saturated(_low, _high))
            FUNCTIONS[f"{_sign}{_bits}_to_f{_width}"] = _to_float(_kind)
        for _other in (16, 32, 64):
            FUNCTIONS.setdefault(
                f"{_sign}{_bits}_to_{_sign}{_other}",
                lambda x, k=f"{_sign}{_bits}": typed(x, k),
            )
for _width in FLOATS:
    for _other, _kind in FLOATS.items():
        FUNCTIONS[f"f{_width}_to_f{_other}"] = _to_float(_kind)
