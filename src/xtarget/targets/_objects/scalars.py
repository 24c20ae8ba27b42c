"""Scalar launch arguments as the bytes that a kernel reads, by Triton's type text."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

__all__ = ["NEAREST", "PACK", "ctypes_maker"]


def _integer(nbytes: int) -> Callable[[int | float], bytes]:
    mask = (1 << 8 * nbytes) - 1

    def pack(value: int | float) -> bytes:
        return (int(value) & mask).to_bytes(nbytes, "little")

    return pack


def _float(code: str) -> Callable[[int | float], bytes]:
    """IEEE binary16, 32 or 64; a value that is too large becomes infinite, as in NumPy."""
    packer = struct.Struct("<" + code)

    def pack(value: int | float) -> bytes:
        try:
            return packer.pack(value)
        except (OverflowError, struct.error):  # the latter where it is an integer
            return packer.pack(math.inf if value > 0 else -math.inf)

    return pack


def _bfloat16() -> Callable[[int | float], bytes]:
    """The upper half of a float32 that is one exactly."""
    single = _float("f")

    def pack(value: int | float) -> bytes:
        if value != value:
            return b"\xc0\x7f"
        return single(_nearest_bfloat16(value))[2:]

    return pack


def _nearest_float16(value: int | float) -> float:
    nearest: float = _HALF.unpack(PACK["fp16"](value))[0]
    return nearest


def _nearest_bfloat16(value: int | float) -> float:
    try:
        value = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if not math.isfinite(value) or not value:
        return value
    unit = max(math.frexp(value)[1], -125) - 8  # 8 binary digits; fewer of a subnormal
    nearest = math.ldexp(round(math.ldexp(value, -unit)), unit)
    return math.copysign(nearest if abs(nearest) < 2.0**128 else math.inf, value)


_HALF = struct.Struct("<e")

#: From a dtype of 16 bits to the function that rounds a number to it, once: a number that travels
#: as float32 has been rounded before it gets there.
NEAREST: Final[Mapping[str, Callable[[int | float], float]]] = {
    "float16": _nearest_float16,
    "bfloat16": _nearest_bfloat16,
}

#: From a parameter's type to the function that makes its bytes. `i1` travels in a whole byte.
PACK: Final[Mapping[str, Callable[[int | float], bytes]]] = {
    "i1": lambda value: b"\1" if value else b"\0",
    "u1": lambda value: b"\1" if value else b"\0",
    **{f"{sign}{bits}": _integer(bits // 8) for sign in "iu" for bits in (8, 16, 32, 64)},
    "fp16": _float("e"),
    "bf16": _bfloat16(),
    "fp32": _float("f"),
    "fp64": _float("d"),
}

_UNSIGNED = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}


@cache
def ctypes_maker(type_: str) -> Callable[[int | float], Any]:
    """Return a function that converts a value to a ctypes type with the bytes that a kernel reads.

    It is for bindings that take such arguments, and uses sizes and kinds that all of them know.
    """
    if type_ == "fp32":
        return ctypes.c_float
    if type_ == "fp64":
        return ctypes.c_double
    pack = PACK[type_]
    unsigned = _UNSIGNED[len(pack(0))]
    return lambda value: unsigned.from_buffer_copy(pack(value))
