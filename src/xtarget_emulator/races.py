"""Data races: two accesses without a barrier between them, one of which writes. This module finds
races between the waves of a block in LDS; global memory is in `global_races`.

As there, it is not a race if warps of a block write the same value to one place, or if such a warp
reads the value back. Atomic operations are ordered with each other, and with nothing else. Floats
that are nearly the same count as one value here: only Triton stores to shared memory, and lanes
that have the same sum may each have added it up in a different order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from .memory import Array, Fault

if TYPE_CHECKING:
    from .global_races import GlobalRaces
    from .group import Group
    from .waves import Waves

__all__ = ["Races"]

#: Types of floats, how far roundings may part two of them, and whether that distance is relative
#: to the largest value of the instruction.
_NEAR = (
    (np.dtype(np.float64), 1e-12, True),
    (np.dtype(np.float32), 1e-5, True),
    (np.dtype(np.float16), 4e-3, False),
    (np.dtype(ml_dtypes.bfloat16), 3e-2, False),
)


class Races:
    """The waves that accessed each byte of LDS since the last barrier: a bit for each wave of the
    block.

    Attributes:
        memory: the launch's record of global memory.
    """

    def __init__(self, group: Group, memory: GlobalRaces) -> None:
        self.memory, self._room = memory, group.room
        #: Waves that read it, that wrote the value which is there, that changed it by an atomic
        #: operation; and whether it was written at all.
        self._readers, self._writers, self._changers = (
            np.zeros(group.lds.size, np.uint32) for _ in range(3)
        )

    def barrier(self, blocks: Array) -> None:
        """For these blocks of the group, what came before is in order with what comes after."""
        for record in (self._readers, self._writers, self._changers):
            record.reshape(-1, self._room)[blocks] = 0
        self.memory.order.barrier(blocks)

    def lds_read(self, w: Waves, place: Array, nbytes: int) -> None:
        """A read of `nbytes` at each active lane's place."""
        a = _Access(w, place, nbytes)
        a.refuse(self._others(self._writers, a, alone=False), "reads", "wrote")
        a.refuse(self._others(self._changers, a), "reads", "changed")
        np.bitwise_or.at(self._readers, a.where, a.bits)

    def lds_write(
        self, w: Waves, place: Array, nbytes: int, values: Array, blank: Array | None = None
    ) -> None:
        """A write, before it is done: here it is as well.

        Args:
            values: bytes of each lane.
            blank: lanes (waves x lanes) whose values hold nothing: which one is there afterwards
                makes no difference.
        """
        a = _Access(w, place, nbytes)
        content: Array = w.group.lds_views[1]
        data = values.reshape(-1, nbytes)[a.lanes]
        none = np.zeros(len(a.lanes), bool)
        if blank is not None:
            none = np.broadcast_to(blank, w.mask.shape).reshape(-1)[a.lanes]
        same = _alike(content[a.where], data) | (none[:, None] & w.group.lds_blank[a.where])
        writers = self._writers[a.where]
        a.refuse(np.where(same, 0, writers & ~a.bits), "writes", "wrote")
        a.refuse(self._others(self._readers, a), "writes", "read")
        a.refuse(self._others(self._changers, a), "writes", "changed")
        self._writers[a.where[~same]] = 0
        np.bitwise_or.at(self._writers, a.where, a.bits)
        content[a.where] = data
        late = ~_alike(content[a.where], data) & ~none[:, None]
        own = self._writers[a.where] == a.bits
        a.refuse(np.where(late & ~own, self._writers[a.where] & ~a.bits, 0), "writes", "wrote")
        if late.any():
            index, byte = np.argwhere(late)[0]
            raise Fault(
                f"writes LDS at {a.offset(index, byte)}, to which another lane of this warp writes "
                "another value at the same time (a data race)",
                int(a.lanes[index]),
            )

    def lds_atomic(self, w: Waves, place: Array, nbytes: int) -> None:
        """A read and write that no other atomic operation can come between."""
        a = _Access(w, place, nbytes)
        a.refuse(self._others(self._writers, a), "changes", "wrote")
        a.refuse(self._others(self._readers, a), "changes", "read")
        np.bitwise_or.at(self._changers, a.where, a.bits)

    @staticmethod
    def _others(record: Array, a: _Access, alone: bool = True) -> Array:
        """The waves on record that are not the own one.

        Args:
            alone: others count although the own wave is on record too.
        """
        found = record[a.where]
        return found & ~a.bits if alone else np.where(found & a.bits, 0, found)


def _alike(before: Array, data: Array) -> Array:
    """Return which bytes are the same, or belong to floats that are nearly the same: an element
    that several lanes have may be a sum, and each lane may have added it up in another order.

    Args:
        before, data: lanes x bytes.
    """
    same: Array = before == data
    nbytes = data.shape[1]
    if np.all(same):
        return same
    for dtype, near, cancels in _NEAR:
        if nbytes % dtype.itemsize:
            continue
        x, y = (np.ascontiguousarray(v).view(dtype).astype(np.float64) for v in (before, data))
        scale = np.maximum(np.abs(x), np.abs(y))
        if cancels:  # what is nearly 0 may be left of large terms
            scale = np.maximum(scale, np.abs(y, where=np.isfinite(y), out=np.zeros(y.shape)).max())
        equal: Array = np.abs(x - y) <= near * scale
        same = same | equal.all(axis=1, keepdims=True)
    return same


class _Access:
    """The active lanes of one instruction.

    Attributes:
        lanes: flat indices (wave * lanes + lane).
        where: offsets in the group's LDS, lanes x bytes.
        bits: of the wave within its block, lanes x bytes.
    """

    def __init__(self, w: Waves, place: Array, nbytes: int) -> None:
        self._room = w.group.room
        self.lanes = np.flatnonzero(w.mask)
        flat = np.broadcast_to(place, w.mask.shape).reshape(-1)[self.lanes]
        self.where = flat[:, None] + np.arange(nbytes)
        wave = (w.numbers % w.group.waves_per_block)[self.lanes // w.lanes].astype(np.uint32)
        self.bits: Array = np.broadcast_to(np.uint32(1) << wave[:, None], self.where.shape)

    def offset(self, index: int, byte: int) -> int:
        """Of a byte in its block's LDS."""
        return int(self.where[index, byte]) % self._room

    def refuse(self, others: Array, verb: str, did: str) -> None:
        """Raise Fault where there are others."""
        if not others.any():
            return
        index, byte = np.argwhere(others)[0]
        waves = int(others[index, byte])
        number = waves.bit_length() - 1
        who = f"warp {number}" if waves == 1 << number else "several warps"
        raise Fault(
            f"{verb} LDS at {self.offset(index, byte)}, which {who} {did} without a barrier since "
            "(a data race)",
            int(self.lanes[index]),
        )
