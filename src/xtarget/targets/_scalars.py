"""Scalar launch arguments as the bytes that a kernel reads, by Triton's type text."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

__all__ = ["PACK", "ctypes_maker"]


def _integer(nbytes: int) -> Callable[[int | float], bytes]:
    mask = (1 << 8 * nbytes) - 1

    def pack(value: int | float) -> bytes:
        return (int(value) & mask).to_bytes(nbytes, "little")

    return pack


def _float(code: str) -> Callable[[int | float], bytes]:
    """IEEE binary16, 32 or 64; what is too large becomes infinite, as in NumPy."""
    packer = struct.Struct("<" + code)

    def pack(value: int | float) -> bytes:
        try:
            return packer.pack(value)
        except OverflowError:
            return packer.pack(math.copysign(math.inf, value))

    return pack


def _bfloat16() -> Callable[[int | float], bytes]:
    """The upper half of the float32, rounded to nearest even."""
    single = _float("f")

    def pack(value: int | float) -> bytes:
        if value != value:
            return b"\xc0\x7f"  # rounding could carry a NaN into infinity
        bits = int.from_bytes(single(value), "little")
        bits += 0x7FFF + (bits >> 16 & 1)
        return (bits >> 16).to_bytes(2, "little")

    return pack


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
    """What makes a value one of ctypes' types, with the bytes that a kernel reads. For bindings
    that take such arguments, of the sizes and kinds which all of them know.
    """
    if type_ == "fp32":
        return ctypes.c_float
    if type_ == "fp64":
        return ctypes.c_double
    pack = PACK[type_]
    unsigned = _UNSIGNED[len(pack(0))]
    return lambda value: unsigned.from_buffer_copy(pack(value))
