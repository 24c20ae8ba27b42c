"""Sizes of memory accesses, and accesses of less than a register."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .memory import Array

__all__ = ["NAME", "SIZES", "load_part", "store_part"]

#: Access by suffix: bytes, and how a part of a register extends to the whole one.
SIZES: dict[str, tuple[int, Any]] = {
    **{f"{sign}8": (1, np.uint8) for sign in "ub"},
    **{f"{sign}16": (2, np.uint16) for sign in "ub"},
    **{f"i{bits}": (bits // 8, np.dtype(f"i{bits // 8}").type) for bits in (8, 16)},
    **{f"b{bits}": (bits // 8, np.uint32) for bits in (32, 64, 96, 128, 256, 512)},
}
NAME = re.compile(r"^(?:global|flat|buffer|scratch)_(load|store)_(lds_)?(d16_)?(hi_)?([uib]\d+)$")


def load_part(values: Array, row: Array, d16: bool, high: bool) -> Array:
    """A byte or half word as a register's new value."""
    if not d16:
        return values.astype(np.int32).view(np.uint32)
    half = values.astype(np.int16).view(np.uint16).astype(np.uint32)
    if high:
        return half << 16 | row & np.uint32(0xFFFF)
    return half | row & np.uint32(0xFFFF0000)


def store_part(row: Array, high: bool, nbytes: int) -> Array:
    """The byte or half word of a register that is stored."""
    value = row >> 16 if high else row
    return value.astype(np.uint8 if nbytes == 1 else np.uint16)
