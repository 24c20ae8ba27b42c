"""Data races in global memory within one launch: two accesses of which one writes, and nothing that
puts them in an order.

A barrier orders the waves of a block. Two blocks are ordered by atomic operations alone: what a
block did before an atomic operation comes before what another one does after a later atomic
operation on the same place. Atomic operations themselves are in order. That Triton can ask for
relaxed ones, which order nothing else, is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from .memory import Arena, Array, Block, Fault

if TYPE_CHECKING:
    from .waves import Waves

__all__ = ["GlobalRaces"]

#: In a buffer's record of readers; further down, -3 - n is several waves of block n.
_NOBODY, _SEVERAL_BLOCKS = -1, -2


class _Record:
    """Who touched each byte of a buffer, and when on that block's own clock."""

    __slots__ = ("read_at", "reader", "writer", "written_at")

    def __init__(self, nbytes: int) -> None:
        self.writer: Array = np.full(nbytes, _NOBODY, np.int32)
        self.reader: Array = np.full(nbytes, _NOBODY, np.int32)
        self.written_at: Array = np.zeros(nbytes, np.int32)
        self.read_at: Array = np.zeros(nbytes, np.int32)


class GlobalRaces:
    """The record of one launch.

    Waves are counted over the whole grid. A block's clock goes on at its barriers and its atomic
    operations.

    Args:
        grid: for messages, which name a block by its place.
    """

    def __init__(self, arena: Arena, waves_per_block: int, grid: tuple[int, int, int]) -> None:
        self._arena, self._waves, self._grid = arena, waves_per_block, grid
        self._records: dict[int, _Record] = {}
        self._first = 0
        self._time: Array = np.zeros(0, np.int32)
        self._barrier_at: Array = self._time
        #: Place to what is known there of each block, and block to what it knows of each other one:
        #: all that the other one did up to that time comes before.
        self._left: dict[int, dict[int, int]] = {}
        self._known: dict[int, dict[int, int]] = {}

    def begin(self, first: int, count: int) -> None:
        """The next blocks of the grid are stepped together."""
        self._first = first
        self._time = np.zeros(count, np.int32)
        self._barrier_at = self._time.copy()

    def barrier(self, blocks: Array) -> None:
        """These of the blocks that are stepped together have passed one."""
        self._time[blocks] += 1
        self._barrier_at[blocks] = self._time[blocks]

    def load(self, w: Waves, place: Array, active: Array | None, nbytes: int) -> None:
        """A read of `nbytes` at each place (an offset in the arena)."""
        self._each_buffer(w, place, active, nbytes, self._load)

    def store(self, w: Waves, place: Array, active: Array | None, nbytes: int) -> None:
        """A write."""
        self._each_buffer(w, place, active, nbytes, self._store)

    def atomic(self, w: Waves, place: Array, active: Array | None, nbytes: int) -> None:
        """A read and write that no other atomic operation can come between."""
        self._each_buffer(w, place, active, nbytes, self._atomic)
        lanes = np.arange(place.size) if active is None else np.flatnonzero(active)
        blocks = np.broadcast_to(w.block[:, None], w.mask.shape).reshape(-1)[lanes]
        pairs = zip(blocks.tolist(), place.reshape(-1)[lanes].tolist(), strict=True)
        for block, at in dict.fromkeys(pairs):  # in the order of the operations themselves
            me = self._first + block
            known = self._known.setdefault(me, {})
            left = self._left.setdefault(at, {})
            for other, time in left.items():
                known[other] = max(known.get(other, -1), time)
            left.update(known)
            left[me] = int(self._time[block])
        self._time[np.unique(blocks)] += 1

    # ------------------------------------------------------------------------------------- accesses

    def _each_buffer(
        self, w: Waves, place: Array, active: Array | None, nbytes: int, note: _Note
    ) -> None:
        place = np.broadcast_to(place, w.mask.shape)
        lanes = np.arange(place.size) if active is None else np.flatnonzero(active)
        flat = place.reshape(-1)[lanes]
        while len(flat):
            block = self._arena.block_of_offset(int(flat[0]))
            start = self._arena.offset(block)
            here = (flat >= start) & (flat < start + block.end - block.start)
            if block.writable:
                record = self._records.get(block.start)
                if record is None:
                    record = self._records[block.start] = _Record(block.end - block.start)
                bytes_ = flat[here][:, None] - start + np.arange(nbytes)
                note(_Access(w, lanes[here], bytes_, self._first, self._waves), record, block)
            flat, lanes = flat[~here], lanes[~here]

    def _load(self, a: _Access, record: _Record, block: Block) -> None:
        self._check(a, record.writer, record.written_at, "reads", "wrote", block)
        before = record.reader[a.where]
        # those of which the record is kept: this wave, several of this block, or several blocks
        own = a.wave[:, None]
        ours = (before == _NOBODY) | (before == own)
        near = (before // self._waves == a.block[:, None]) | (before == -3 - a.block[:, None])
        near &= before != _SEVERAL_BLOCKS
        record.reader[a.where] = np.where(
            ours, own, np.where(near, -3 - a.block[:, None], _SEVERAL_BLOCKS)
        )
        record.read_at[a.where] = self._time[a.block - self._first][:, None]
        late = record.reader[a.where]  # several waves of this very access
        other = (late >= 0) & (late != own)
        if other.any():
            record.reader[a.where[other]] = np.where(
                late // self._waves == a.block[:, None], -3 - a.block[:, None], _SEVERAL_BLOCKS
            )[other]

    def _store(self, a: _Access, record: _Record, block: Block) -> None:
        self._check(a, record.writer, record.written_at, "writes", "wrote", block)
        self._check(a, record.reader, record.read_at, "writes", "read", block)
        record.writer[a.where] = a.wave[:, None]
        record.written_at[a.where] = self._time[a.block - self._first][:, None]
        late = record.writer[a.where]
        self._refuse(a, late != a.wave[:, None], late, "writes", "wrote", block)

    def _atomic(self, a: _Access, record: _Record, block: Block) -> None:
        self._check(a, record.writer, record.written_at, "changes", "wrote", block)

    def _check(
        self, a: _Access, who: Array, when: Array, verb: str, did: str, block: Block
    ) -> None:
        """Refuse what is in no order with the accesses on record."""
        other = who[a.where]
        if (other == _NOBODY).all():
            return
        own, mine = a.wave[:, None], a.block[:, None]
        at = when[a.where]
        place = np.where(other >= 0, other // self._waves, np.where(other <= -3, -3 - other, -1))
        same = place == mine
        recent = at >= self._barrier_at[a.block - self._first][:, None]
        wrong = np.where(same, (other != own) & recent, other != _NOBODY)
        for i, j in np.argwhere(wrong & ~same) if self._known else ():
            known = self._known.get(int(a.block[i]), {})
            if int(other[i, j]) == _SEVERAL_BLOCKS:
                wrong[i, j] = not known  # which blocks it was is not on record
            else:
                wrong[i, j] = known.get(int(place[i, j]), -1) < int(at[i, j])
        self._refuse(a, wrong, other, verb, did, block)

    def _refuse(
        self, a: _Access, wrong: Array, other: Array, verb: str, did: str, block: Block
    ) -> None:
        if not wrong.any():
            return
        index, byte = np.argwhere(wrong)[0]
        number = int(other[index, byte])
        owner = number // self._waves if number >= 0 else -3 - number
        if number == _SEVERAL_BLOCKS:
            who, why = "several blocks", "nothing orders the blocks of a launch"
        elif owner != int(a.block[index]):
            x, y = self._grid[0], self._grid[1]
            where = (owner % x, owner // x % y, owner // (x * y))
            who, why = f"block {where}", "nothing orders these two blocks"
        else:
            who = f"warp {number % self._waves}" if number >= 0 else "several warps"
            why = "there was no barrier since"
        raise Fault(
            f"{verb} byte {int(a.where[index, byte]):,} of {self._arena.describe(block)}, which "
            f"{who} of this launch {did}, and {why} (a data race)",
            int(a.lanes[index]),
        )


class _Access:
    """The lanes of one instruction that touch one buffer.

    Attributes:
        lanes: flat indices (wave * lanes + lane).
        where: offsets in the buffer, lanes x bytes.
        wave, block: of each lane, counted over the grid.
    """

    def __init__(self, w: Waves, lanes: Array, where: Array, first: int, waves: int) -> None:
        self.lanes, self.where = lanes, where
        row = lanes // w.lanes
        self.wave: Array = (w.numbers[row] + first * waves).astype(np.int32)
        self.block: Array = (w.block[row] + first).astype(np.int32)


_Note: TypeAlias = Callable[[_Access, _Record, Block], None]
