"""Values of AMD's pseudocode: bits, integers without width, and NumPy's floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


class Unknown(Exception):
    """Something that this does not read."""


@dataclass(frozen=True, slots=True)
class Bits:
    """A register or a field: bits of unknown meaning."""

    value: int
    width: int


FLOATS: dict[int, Any] = {16: np.float16, 32: np.float32, 64: np.float64}


def typed(value: Any, kind: str) -> Any:
    """The bits as what `kind` says (`f32`, `u16`, `b8`); a number converted to that."""
    if kind == "bf16":
        bits = value.value if isinstance(value, Bits) else raw(np.float32(value)) >> 16
        return np.uint32((bits & 0xFFFF) << 16).view(np.float32)
    letter, width = kind[0], int(kind[1:])
    if letter == "f":
        if isinstance(value, Bits):
            whole = value.value & (1 << width) - 1
            return np.array(whole, f"u{width // 8}").view(FLOATS[width])[()]
        return FLOATS[width](value)
    whole = raw(value) if letter == "b" else integer(value)
    whole &= (1 << width) - 1
    if letter == "i":
        return whole - (whole >> width - 1 << width)
    return Bits(whole, width) if letter == "b" else whole


def raw(value: Any) -> int:
    """The bits of a value."""
    if isinstance(value, Bits):
        return value.value
    if isinstance(value, np.floating):
        return int(np.asarray(value).view(f"u{value.dtype.itemsize}"))
    return int(value)


def integer(value: Any) -> int:
    return value.value if isinstance(value, Bits) else int(value)


def plain(value: Any) -> Any:
    return value.value if isinstance(value, Bits) else value
