"""Operands that come from other lanes: DPP.

Source: RDNA3 ISA, "Data Parallel Primitives"; CDNA3 ISA, the same (row_bcast).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from .decode import Instruction
from .memory import Array
from .operand import Source, unsupported
from .waves import Waves

__all__ = ["moved"]


@cache
def _table(control: int, eight: bool, lanes: int, cdna: bool) -> tuple[Array, Array] | None:
    """For each lane the one it reads, and whether there is such a lane."""
    lane = np.arange(lanes)
    row, place = lane & ~15, lane & 15
    there = np.ones(lanes, bool)
    if eight:
        selectors = np.array([control >> 3 * i & 7 for i in range(8)])
        return (lane & ~7) | selectors[lane & 7], there
    amount = control & 15
    if control < 0x100:
        selectors = np.array([control >> 2 * i & 3 for i in range(4)])
        return (lane & ~3) | selectors[lane & 3], there
    if 0x101 <= control <= 0x10F:
        return row | (place + amount & 15), place + amount < 16
    if 0x111 <= control <= 0x11F:
        return row | (place - amount & 15), place >= amount
    if 0x121 <= control <= 0x12F:
        return row | (place - amount & 15), there
    if control == 0x140:
        return row | 15 - place, there
    if control == 0x141:
        return (lane & ~7) | 7 - (lane & 7), there
    if cdna:
        if control == 0x130:
            return (lane + 1) % lanes, lane + 1 < lanes
        if control == 0x134:
            return (lane + 1) % lanes, there
        if control == 0x138:
            return (lane - 1) % lanes, lane > 0
        if control == 0x13C:
            return (lane - 1) % lanes, there
        if control == 0x142:  # lane 15 of each row to the whole next row
            return np.maximum(row - 1, 0), lane >= 16
        if control == 0x143:  # lane 31 to the upper half
            return np.full(lanes, 31), lane >= 32
    if 0x150 <= control <= 0x15F:  # row_share; gfx90a's row_newbcast
        return row | amount, there
    if 0x160 <= control <= 0x16F and not cdna:
        return row | (place ^ amount), there
    return None


def moved(ins: Instruction, found: Source) -> Source:
    """The source as DPP moves it."""
    dpp = ins.dpp
    assert dpp is not None
    lanes = 64 if ins.cdna else 32
    table = _table(dpp.control, dpp.eight, lanes, ins.cdna)
    if table is None:
        raise unsupported(ins, f"DPP control 0x{dpp.control:x}")
    origin, there = table
    lane = np.arange(lanes)
    chosen = (dpp.row_mask >> (lane >> 4) & 1 & (dpp.bank_mask >> (lane >> 2 & 3) & 1)).astype(bool)
    read, zero, inactive = found.get, dpp.zero or dpp.eight, dpp.inactive
    every = bool(there.all())

    def available(w: Waves) -> Array | None:
        """Lanes with a source; None for all."""
        if inactive or w.full:
            return None if every else there[None, :]
        return there & w.mask[:, origin]

    def get(w: Waves) -> Array:
        value = np.broadcast_to(read(w), (w.count, w.lanes))[:, origin]
        if zero:
            good = available(w)
            if good is not None:
                value = np.where(good, value, value.dtype.type(0))
        return value

    restricted = None
    if not zero or not chosen.all():

        def restricted(w: Waves) -> Array | None:
            allowed = w.mask & chosen
            if not zero:
                good = available(w)
                if good is not None:
                    allowed = allowed & good
            return allowed

    def blank(w: Waves) -> Array | None:
        result = None
        for register in found.reads:
            lanes_there = w.undefined.get(register)
            if lanes_there is not None:
                part = np.broadcast_to(lanes_there, w.mask.shape)[:, origin]
                good = available(w)
                if good is not None:
                    part = part & good
                result = part if result is None else result | part
        return result

    limit: Callable[[Waves], Array | None] | None = restricted
    return Source(get, found.reads, limit, blank)
