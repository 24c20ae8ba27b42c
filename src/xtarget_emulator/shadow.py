"""Undefined bits of the registers, where whole registers are not exact enough.

`Waves.undefined` has the lanes in which a register has such bits. Where these are not all 32 of
them, `Waves.unknown_of` has the bits. What moves or selects bits is executed a second time, on a
state whose registers hold these bits in place of values: a *shadow*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .access import load_part, store_part
from .memory import Array
from .operand import Source
from .waves import SCC, SGPR, Waves

__all__ = [
    "blank_of",
    "demand_part",
    "loaded",
    "loaded_part",
    "mark_part",
    "octets",
    "partial",
    "shadow",
    "stored_bits",
    "unknown_operand",
]

_ALL = np.uint32(0xFFFFFFFF)
_NONE = np.zeros((1, 1), np.uint32)


def partial(w: Waves, registers: Iterable[int]) -> bool:
    """Return whether one of the registers holds a value in some of its bits only."""
    return any(register in w.partly and w.is_partial(register) for register in registers)


def shadow(w: Waves, bits: Iterable[int], values: Iterable[int] = ()) -> Waves:
    """Return a state of the same waves and lanes, to read from and write to once.

    Args:
        bits: registers that shall hold which of their bits hold nothing.
        values: registers that shall hold their values.
    """
    copy = w.shadow
    if copy is None:
        copy = w.shadow = Waves(
            w.group, w.numbers, w.block, np.empty_like(w.v), np.zeros_like(w.s), w.scc
        )
    copy.mask, copy.full, copy.scc = w.mask, w.full, w.scc
    copy.undefined.clear()
    for register in bits:
        if register == SCC:
            continue
        unknown = w.unknown_of(register)
        if register >= SGPR:
            copy.su[register - SGPR][...] = 0 if unknown is None else unknown
        else:
            copy.vu[register][...] = 0 if unknown is None else unknown
    for register in values:
        if register >= SGPR:
            copy.su[register - SGPR][...] = w.su[register - SGPR]
        else:
            copy.vu[register][...] = w.vu[register]
    return copy


def unknown_operand(w: Waves, copy: Waves, found: Source) -> Array:
    """Return the bits of an operand, as the instruction reads it, that hold nothing; unsigned.

    Args:
        copy: a shadow with the operand's registers.
        found: the operand without changes of its sign.
    """
    if not found.reads:
        return _NONE
    if found.reads[0] == SCC:
        nothing = w.undefined.get(SCC)
        return _NONE if nothing is None else np.where(nothing, _ALL, np.uint32(0))
    value = found.get(copy)
    return value.view(f"u{value.itemsize}")


def blank_of(w: Waves, operands: Sequence[Source]) -> Array | None:
    """Return the lanes in which a bit that an instruction reads holds nothing; None for none.

    Args:
        operands: without changes of their signs.
    """
    registers = [r for found in operands for r in found.reads]
    if not any(r in w.undefined for r in registers):
        return None
    if partial(w, registers):
        copy = shadow(w, registers)
        bad: Array = np.zeros((1, 1), bool)
        for found in operands:
            bad = bad | (unknown_operand(w, copy, found) != 0)
        return np.broadcast_to(bad, w.mask.shape) if bad.any() else None
    result: Array | None = None
    for found in operands:
        here = found.blank(w) if found.blank is not None else w.blank(found.reads)
        if here is not None:
            result = here if result is None else result | here
    return result


def mark_part(
    w: Waves, bad: Array | None, register: int, bits: int, lanes: Array | None = None
) -> None:
    """Note that active lanes (or `lanes`) of some bits of a vector register hold nothing where
    `bad`, and something elsewhere. The other bits stay as they are."""
    old = w.unknown_of(register)
    if bad is None and old is None:
        return
    before = _NONE if old is None else old
    here = np.uint32(0) if bad is None else np.where(bad, np.uint32(bits), np.uint32(0))
    loaded(w, register, before & ~np.uint32(bits) | here, lanes)


def loaded(w: Waves, register: int, bits: Array, lanes: Array | None = None) -> None:
    """Note which bits of a vector register's active lanes (or of `lanes`) hold nothing."""
    if lanes is not None or not w.full:
        old = w.unknown_of(register)
        mask = w.mask if lanes is None else lanes
        bits = np.where(mask, bits, np.uint32(0) if old is None else old)
    w.note_unknown(register, np.broadcast_to(bits, w.mask.shape))


def loaded_part(
    w: Waves, register: int, octets_: Array | None, dtype: type, d16: bool, high: bool
) -> None:
    """Note a load of less than a register, which extends what it reads or leaves a half alone.

    Args:
        octets_: of each byte, whether it holds nothing: waves x lanes x bytes. None if all hold
            something.
        dtype: of the part.
    """
    if octets_ is not None and not octets_.any():
        octets_ = None
    old = w.unknown_of(register)
    if octets_ is None and (old is None or not d16):
        if old is not None:
            w.mark(None, (register,))
        return
    if octets_ is None:
        part: Array = np.zeros((1, 1), dtype)
    else:
        raw = np.ascontiguousarray(octets_).view(np.uint8) * np.uint8(0xFF)
        part = raw.view(dtype)[..., 0]
    row = np.zeros(w.mask.shape, np.uint32) if old is None else old
    loaded(w, register, load_part(part, row, d16, high))


def octets(w: Waves, register: int) -> Array | None:
    """Of each byte of a vector register, whether it holds nothing in a part: waves x lanes x 4;
    None if no byte does."""
    bits = w.unknown_of(register)
    if bits is None:
        return None
    whole = np.ascontiguousarray(np.broadcast_to(bits, w.mask.shape))
    return whole.view(np.uint8).reshape(*w.mask.shape, 4) != 0


def stored_bits(w: Waves, register: int, high: bool, nbytes: int) -> Array | None:
    """Return the lanes in which a part of a register, that a store writes, holds nothing."""
    bits = w.unknown_of(register)
    if bits is None:
        return None
    bad = (bits if nbytes >= 4 else store_part(bits, high, nbytes)) != 0
    return np.broadcast_to(bad, w.mask.shape) if bad.any() else None


def demand_part(
    w: Waves, register: int, high: bool, nbytes: int, doing: str, those: Array | None
) -> None:
    """`Waves.demand` of what a store of less than a register writes."""
    bad = stored_bits(w, register, high, nbytes)
    if bad is None:
        return
    bad = bad & (w.mask if those is None else those)
    if bad.any():
        raise w.unknown(register, doing, *divmod(int(np.argmax(bad)), w.lanes))
