"""Data races in global memory within one launch: two accesses, one of which writes, and nothing
that orders them.

A barrier orders the waves of a block. Only atomic operations order two blocks: the accesses of a
block before an atomic operation that releases come before those of another block after a later
atomic operation on the same place that acquires (`ordering`). Atomic operations themselves are in
order; a plain access of what another wave changes by one is a race. A load that passes by the
caches counts as a relaxed atomic one.

It is not a race if warps of a block write the same value to one place: where a layout has fewer
elements than the block has threads, each element is in several warps, and each warp stores it. It
is not a race either if one of these warps changes in place what all of them read, element by
element with one instruction, while the others store nothing: Triton lets one of them store what
all have.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from .memory import Arena, Array, Block, Fault
from .ordering import Ordering

if TYPE_CHECKING:
    from .waves import Waves

__all__ = ["GlobalRaces"]

#: In a buffer's record of readers; further down, -3 - n is several waves of block n.
_NOBODY, _SEVERAL_BLOCKS = -1, -2
_UNLIKE = -1


class _Record:
    """Records which waves accessed each byte of a buffer, and when on their block's own clock."""

    __slots__ = ("changed_at", "changer", "read_at", "read_by", "reader", "readers", "watched_at",
                 "watcher", "writer", "writers", "written_at")  # fmt: skip

    def __init__(self, nbytes: int) -> None:
        self.writer: Array = np.full(nbytes, _NOBODY, np.int32)
        self.reader: Array = np.full(nbytes, _NOBODY, np.int32)
        self.written_at: Array = np.zeros(nbytes, np.int32)
        self.read_at: Array = np.zeros(nbytes, np.int32)
        #: The waves of the writer's block that have written the value that is there, as bits.
        self.writers: Array = np.zeros(nbytes, np.uint32)
        #: The waves of a reading block since its last barrier, as bits; and the address of the load
        #: that they share: _UNLIKE where they do not, or where a whole wave reads one place.
        self.readers: Array = np.zeros(nbytes, np.uint32)
        self.read_by: Array = np.zeros(nbytes, np.int64)
        #: Of atomic operations, and of loads that pass by the caches; None before the first.
        self.changer: Array | None = None
        self.changed_at: Array = self.read_at
        self.watcher: Array | None = None
        self.watched_at: Array = self.read_at


class GlobalRaces:
    """The record of one launch.

    Waves are counted over the whole grid.

    Args:
        grid: for messages, which name a block by its place.

    Attributes:
        order: what comes before what.
    """

    def __init__(
        self, arena: Arena, waves_per_block: int, grid: tuple[int, int, int], arch: str
    ) -> None:
        self._arena, self._waves, self._grid = arena, waves_per_block, grid
        self.order = Ordering(arch, waves_per_block)
        self._records: dict[int, _Record] = {}
        self._first = 0
        #: Words of the arena that several waves changed by atomic operations, to when each did.
        self._changes: dict[int, dict[int, int]] = {}

    def begin(self, first: int, count: int) -> None:
        """The next blocks of the grid are stepped together."""
        self._first = first
        self.order.begin(first, count)

    def load(
        self,
        w: Waves,
        place: Array,
        active: Array | None,
        nbytes: int,
        by: int,
        atomic: bool = False,
    ) -> None:
        """A read of `nbytes` at each place (an offset in the arena).

        Args:
            by: the instruction's address.
            atomic: it passes by the caches, as an atomic one.
        """
        if atomic:
            self._each_buffer(w, place, active, nbytes, self._watch)
            return
        where = np.broadcast_to(place, w.mask.shape)
        low, high = where, where
        if active is not None:
            low = np.where(active, where, np.iinfo(np.int64).max)
            high = np.where(active, where, -1)
        one = low.min(axis=1, keepdims=True) >= high.max(axis=1, keepdims=True)
        loads = np.broadcast_to(np.where(one, _UNLIKE, by), w.mask.shape).reshape(-1)
        self._each_buffer(w, place, active, nbytes, partial(self._load, loads))

    def store(
        self, w: Waves, place: Array, active: Array | None, nbytes: int, values: Array
    ) -> None:
        """A write, before it is done: here it is as well.

        Args:
            values: bytes of each lane.
        """
        self._each_buffer(w, place, active, nbytes, partial(self._store, values))

    def atomic(self, w: Waves, place: Array, active: Array | None, nbytes: int) -> None:
        """A read and write that no other atomic operation can come between."""
        self._each_buffer(w, place, active, nbytes, self._atomic)
        lanes = np.arange(place.size) if active is None else np.flatnonzero(active)
        self.order.atomic(w, lanes, place.reshape(-1)[lanes])

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

    def _load(self, loads: Array, a: _Access, record: _Record, block: Block) -> None:
        clash = record.writers[a.where] & a.bit == 0
        self._check(a, record.writer, record.written_at, "reads", "wrote", block, clash)
        self._check_changes(a, record, "reads", block)
        self._note_readers(loads[a.lanes][:, None], a, record, record.reader[a.where])
        self._note(a, record.reader, record.read_at)

    def _watch(self, a: _Access, record: _Record, block: Block) -> None:
        clash = record.writers[a.where] & a.bit == 0
        self._check(a, record.writer, record.written_at, "reads", "wrote", block, clash)
        if record.watcher is None:
            record.watcher = np.full(len(record.reader), _NOBODY, np.int32)
            record.watched_at = np.zeros(len(record.reader), np.int32)
        self._note(a, record.watcher, record.watched_at)
        if record.changer is not None:
            self.order.look(a.block - self._first, self._arena.offset(block) + a.where[:, 0])

    def _note(self, a: _Access, who: Array, when: Array) -> None:
        """Add waves to those that are on record: this wave, several of this block, or several
        blocks."""
        before = who[a.where]
        own, mine = a.wave[:, None], a.block[:, None]
        ours = (before == _NOBODY) | (before == own)
        near = (before // self._waves == mine) | (before == -3 - mine)
        near &= before != _SEVERAL_BLOCKS
        who[a.where] = np.where(ours, own, np.where(near, -3 - mine, _SEVERAL_BLOCKS))
        when[a.where] = self.order.time[a.block - self._first][:, None]
        late = who[a.where]  # several waves of this very access
        other = (late >= 0) & (late != own)
        if other.any():
            several = np.where(late // self._waves == mine, -3 - mine, _SEVERAL_BLOCKS)
            who[a.where[other]] = several[other]

    def _note_readers(self, load: Array, a: _Access, record: _Record, before: Array) -> None:
        mine = a.block[:, None]
        kept = (before >= 0) & (before // self._waves == mine) | (before == -3 - mine)
        kept &= record.read_at[a.where] >= self.order.barrier_at[a.block - self._first][:, None]
        record.readers[a.where[~kept]] = 0
        np.bitwise_or.at(record.readers, a.where, np.broadcast_to(a.bit, a.where.shape))
        alike = np.where(kept & (record.read_by[a.where] != load), _UNLIKE, load)
        record.read_by[a.where] = alike
        np.minimum.at(record.read_by, a.where, alike)

    def _changed_in_place(self, a: _Access, record: _Record) -> Array:
        """Mark where one of several warps that read the same elements changes what all of them
        read."""
        storing = np.zeros(len(self.order.time), np.uint32)
        np.bitwise_or.at(storing, a.block - self._first, a.bit[:, 0])
        readers = record.readers[a.where]
        others = readers & ~a.bit
        idle = others & storing[a.block - self._first][:, None] == 0
        return (record.read_by[a.where] != _UNLIKE) & (readers & a.bit != 0) & idle

    def _store(self, values: Array, a: _Access, record: _Record, block: Block) -> None:
        content, at = self._arena.bytes, self._arena.offset(block) + a.where
        data = values.reshape(-1, at.shape[1])[a.lanes]
        same = content[at] == data
        before = record.writer[a.where]
        clash = ~same & (record.writers[a.where] & ~a.bit != 0)
        self._check(a, record.writer, record.written_at, "writes", "wrote", block, clash)
        harm = (record.reader[a.where] != a.wave[:, None]) & ~self._changed_in_place(a, record)
        self._check(a, record.reader, record.read_at, "writes", "read", block, harm)
        if record.watcher is not None:
            alone = np.zeros(
                a.where.shape, bool
            )  # a block's own loads may be of replicated elements
            self._check(a, record.watcher, record.watched_at, "writes", "read", block, alone)
        self._check_changes(a, record, "writes", block)
        self.order.store(a.waves, a.lanes)
        own, mine = a.wave[:, None], a.block[:, None]
        recent = record.written_at[a.where] >= self.order.barrier_at[a.block - self._first][:, None]
        shared = same & recent & (before >= 0) & (before // self._waves == mine)
        record.writers[a.where[~shared]] = 0
        record.writer[a.where] = own
        record.written_at[a.where] = self.order.time[a.block - self._first][:, None]
        np.bitwise_or.at(record.writers, a.where, np.broadcast_to(a.bit, a.where.shape))
        content[at] = data
        late = record.writer[a.where]  # several lanes of this very access
        other = content[at] != data
        self._refuse(
            a,
            (other & (late != own)) | (late // self._waves != mine),
            late,
            "writes",
            "wrote",
            block,
        )
        if other.any():
            index, byte = np.argwhere(other)[0]
            raise Fault(
                f"writes byte {int(a.where[index, byte]):,} of {self._arena.describe(block)}, to "
                "which another lane of this warp writes another value at the same time (a data "
                "race)",
                int(a.lanes[index]),
            )

    def _atomic(self, a: _Access, record: _Record, block: Block) -> None:
        others = record.writers[a.where] & ~a.bit != 0
        self._check(a, record.writer, record.written_at, "changes", "wrote", block, others)
        harm = (record.reader[a.where] != a.wave[:, None]) & ~self._changed_in_place(a, record)
        self._check(a, record.reader, record.read_at, "changes", "read", block, harm)
        if record.changer is None:
            record.changer = np.full(len(record.reader), _NOBODY, np.int32)
            record.changed_at = np.zeros(len(record.reader), np.int32)
        start, times = self._arena.offset(block), self.order.time[a.block - self._first].tolist()
        done: dict[tuple[int, int], int] = {}
        for wave, time, words in zip(a.wave.tolist(), times, a.where[:, ::4].tolist(), strict=True):
            done.update(((at, wave), time) for at in words)
        for (at, wave), time in done.items():
            before = int(record.changer[at])
            if before not in (_NOBODY, wave):
                known = {before: int(record.changed_at[at])}
                self._changes.setdefault(start + at, known)[wave] = time
                wave = _SEVERAL_BLOCKS
            record.changer[at : at + 4] = wave
            record.changed_at[at : at + 4] = time

    def _check_changes(self, a: _Access, record: _Record, verb: str, block: Block) -> None:
        """Refuse plain accesses that are not ordered with atomic operations on record."""
        if record.changer is None:
            return
        other = record.changer[a.where]
        several = np.argwhere(other == _SEVERAL_BLOCKS)
        did = "changed by an atomic operation"
        self._check(a, record.changer, record.changed_at, verb, did, block, several=False)
        if not len(several):
            return
        start = self._arena.offset(block)
        for i in dict.fromkeys(several[:, 0].tolist()):
            own, mine = int(a.wave[i]), int(a.block[i])
            known = self.order.known(mine)
            barrier = int(self.order.barrier_at[mine - self._first])
            first = start + int(a.where[i, 0])
            for word in range(first & ~3, first + a.where.shape[1], 4):
                for wave, time in self._changes.get(word, {}).items():
                    from_ = wave // self._waves
                    near = from_ == mine
                    if wave != own and (time >= barrier if near else known.get(from_, -1) < time):
                        wrong = np.zeros(other.shape, bool)
                        wrong[i] = other[i] == _SEVERAL_BLOCKS
                        self._refuse(a, wrong, np.where(wrong, wave, other), verb, did, block)

    def _check(
        self,
        a: _Access,
        who: Array,
        when: Array,
        verb: str,
        did: str,
        block: Block,
        clash: Array | None = None,
        several: bool = True,
    ) -> None:
        """Refuse accesses that are not ordered with those on record.

        Args:
            clash: what another access of the own block does harm to; by default, what another
                wave's does.
            several: places that several blocks are on record for count too.
        """
        other = who[a.where]
        if (other == _NOBODY).all():
            return
        own, mine = a.wave[:, None], a.block[:, None]
        at = when[a.where]
        place = np.where(other >= 0, other // self._waves, np.where(other <= -3, -3 - other, -1))
        same = place == mine
        recent = at >= self.order.barrier_at[a.block - self._first][:, None]
        harmed = other != own if clash is None else clash
        wrong = np.where(same, harmed & recent, other != _NOBODY)
        if not several:
            wrong &= other != _SEVERAL_BLOCKS
        for i, j in np.argwhere(wrong & ~same) if self.order.informed else ():
            known = self.order.known(int(a.block[i]))
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
            if self.order.met(int(a.block[index]), owner):
                why = (
                    "the atomic operations between these two blocks do not order this: it was not "
                    "released there, or not acquired here (are they relaxed?)"
                )
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
        waves: which these are of.
        lanes: flat indices (wave * lanes + lane).
        where: offsets in the buffer, lanes x bytes.
        wave, block: of each lane, counted over the grid.
        bit: of the wave within its block.
    """

    def __init__(self, w: Waves, lanes: Array, where: Array, first: int, waves: int) -> None:
        self.waves, self.lanes, self.where = w, lanes, where
        row = lanes // w.lanes
        self.wave: Array = (w.numbers[row] + first * waves).astype(np.int32)
        self.block: Array = (w.block[row] + first).astype(np.int32)
        self.bit: Array = np.left_shift(np.uint32(1), (self.wave % waves).astype(np.uint32))[
            :, None
        ]


_Note: TypeAlias = Callable[[_Access, _Record, Block], None]
