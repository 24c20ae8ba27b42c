"""The state that the waves of a batch of blocks share: LDS, private memory, races."""

from __future__ import annotations

from typing import Any

import numpy as np

from .memory import Arena, Array

__all__ = ["Group"]

#: How many loads of uninitialised memory a message names.
_TOLD = 3


class Group:
    """The state that the waves of a batch of blocks share.

    Attributes:
        lds: shared memory, blocks x bytes (a multiple of 8).
        lds_bytes: the part of it that a block may use.
        lds_blank: bytes that were never written, or None when there are none.
        blocks: block coordinates, blocks x 3.
        waves_per_block: waves of a whole block.
        scratch: private memory, waves x lanes x bytes.
        races: the race detector, or None.
        blank_loads: instructions that read what was never written, by address, and a place in
            the arena of each (none for LDS).
    """

    def __init__(
        self, arena: Arena, blocks: Array, waves_per_block: int, lds_bytes: int, scratch: Array
    ) -> None:
        self.arena = arena
        self.blocks = blocks
        self.waves_per_block = waves_per_block
        self.lds_bytes = lds_bytes
        self.room = -(-max(lds_bytes, 8) // 16) * 16
        self.lds = np.full((len(blocks), self.room), 0xA5, np.uint8)
        self.lds_views: dict[int, Array] = {
            1: self.lds.reshape(-1),
            2: self.lds.reshape(-1).view(np.uint16),
            4: self.lds.reshape(-1).view(np.uint32),
            8: self.lds.reshape(-1).view(np.uint64),
        }
        self.lds_blank: Array = np.ones(self.lds.size, bool)
        self.lds_blank_left = True
        self.scratch = scratch
        self.scratch_blank = np.ones(scratch.shape, bool)
        self.races: Any = None
        self.blank_loads: dict[int, tuple[Any, int | None]] = {}

    def told_blank_loads(self) -> str:
        """Name the instructions that read what was never written, as the end of a sentence."""
        if not self.blank_loads:
            return ""
        told = []
        for ins, offset in list(self.blank_loads.values())[:_TOLD]:
            what = "shared memory"
            if offset is not None:
                what = self.arena.describe(self.arena.block_of_offset(offset))
            told.append(f"{ins} of {what}")
        left = len(self.blank_loads) - len(told)
        more = f" and {left} more" if left else ""
        return f"; uninitialised memory was read before by {', by '.join(told)}{more}"
