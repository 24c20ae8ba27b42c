"""Rarer scalar instructions: bits of 64-bit values, single bits set and cleared.

Source: AMD, "CDNA3" and "RDNA3" ISA, chapters on SOP1 and SOP2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .memory import Array

__all__ = ["RULES"]

#: Instruction to kind of the result, kinds of the sources, function, and what SCC becomes
#: ("nonzero", or None where it stays).
RULES: dict[str, tuple[str, tuple[str, ...], Callable[..., Array], Any]] = {}


def _reversed_bits(a: Array) -> Array:
    octets = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, 8)[..., ::-1]
    turned = np.packbits(np.unpackbits(octets, axis=-1, bitorder="little"), axis=-1)
    return np.ascontiguousarray(turned).view(np.uint64)[..., 0]


def _mask(width: Array, offset: Array) -> Array:
    one = np.uint64(1)
    size, place = ((x & np.uint32(63)).astype(np.uint64) for x in (width, offset))
    return ((one << size) - one) << place


def _zeros(bits: int) -> Callable[[Array], Array]:
    return lambda a: np.uint32(bits) - np.bitwise_count(a).astype(np.uint32)


def _first_zero(a: Array) -> Array:
    inverse = ~a
    low = inverse & (~inverse + a.dtype.type(1))
    exponent = np.frexp(low.astype(np.float64))[1]  # exact: it is a power of two
    return np.where(inverse == 0, -1, exponent - 1).astype(np.uint32)


def _bit(value: int) -> Callable[[Array, Array], Array]:
    def run(old: Array, place: Array) -> Array:
        kind = old.dtype.type
        mask = kind(1) << (place & np.uint32(old.dtype.itemsize * 8 - 1)).astype(old.dtype)
        return old | mask if value else old & ~mask

    return run


def _twice(a: Array) -> Array:
    """Every bit two times."""
    result = np.zeros(a.shape, np.uint64)
    for i in range(32):
        bit = (a >> np.uint32(i) & np.uint32(1)).astype(np.uint64)
        result |= bit * np.uint64(3) << np.uint64(2 * i)
    return result


def _quads(whole: bool) -> Callable[[Array], Array]:
    """A bit for each four of which one is set; or all four of them (whole)."""

    def run(a: Array) -> Array:
        kind = a.dtype.type
        result = np.zeros(a.shape, a.dtype)
        for i in range(a.dtype.itemsize * 2):
            some = (a >> kind(4 * i) & kind(15)) != 0
            bits = kind(15 << 4 * i) if whole else kind(1 << i)
            result |= np.where(some, bits, kind(0))
        return result

    return run


RULES["s_brev_b64"] = ("u64", ("u64",), _reversed_bits, None)
RULES["s_bfm_b64"] = ("u64", ("u32", "u32"), _mask, None)
RULES["s_bitreplicate_b64_b32"] = ("u64", ("u32",), _twice, None)
for _bits in (32, 64):
    _u = f"u{_bits}"
    RULES[f"s_bcnt0_i32_b{_bits}"] = ("u32", (_u,), _zeros(_bits), "nonzero")
    RULES[f"s_ff0_i32_b{_bits}"] = ("u32", (_u,), _first_zero, None)
    RULES[f"s_quadmask_b{_bits}"] = (_u, (_u,), _quads(False), "nonzero")
    RULES[f"s_wqm_b{_bits}"] = (_u, (_u,), _quads(True), "nonzero")
    for _value in (0, 1):
        RULES[f"s_bitset{_value}_b{_bits}"] = (_u, (_u, "u32"), _bit(_value), None)
