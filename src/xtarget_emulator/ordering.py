"""The order of a launch's accesses to global memory: barriers make it, and atomic operations that
release and acquire. The race check asks it which accesses come before which.

Triton's `sem` shows in the instructions around an atomic operation, as LLVM's memory model places
them. A release waits until the wave's stores are done; GPUs with several L2 caches (gfx942,
gfx950) write these back before. An acquire invalidates the caches behind the operation. Without
them the operation is relaxed: it orders nothing but atomic operations on its own place. The
narrower scope of a block has no effect on the caches that blocks share, so it does not order two
blocks.

Source: LLVM, "User Guide for AMDGPU Backend", "Memory Model" of gfx90a, gfx942, gfx11 and gfx12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .decode import Instruction
from .memory import Array

if TYPE_CHECKING:
    from .waves import Waves

__all__ = ["Ordering", "bypasses", "cache_step", "wait_step"]

#: GPUs whose L2 caches do not see each other.
_SEVERAL_L2 = ("gfx942", "gfx950")
#: On gfx12, the scope from which on an access or a cache operation concerns the whole device.
_DEVICE = 2
#: Counters of `s_waitcnt`: the bits of vmcnt, which counts stores on gfx9.
_VMCNT = 0xC00F
_NOTHING_OPEN = np.iinfo(np.int32).max


def bypasses(load: Instruction) -> bool:
    """Does a load pass by the caches that blocks do not share, as an atomic or a volatile one?"""
    fields = load.fields
    if load.arch == "gfx90a":  # GLC and SLC, in the places of SC0 and NT; both: not used again
        return bool(fields.get("sc0") and not fields.get("nt"))
    return bool(fields.get("glc") or fields.get("sc1") or fields.get("scope", 0) >= _DEVICE)


def wait_step(ins: Instruction) -> Callable[[Waves], None] | None:
    """The step of an instruction that waits for all stores of a wave; None for any other."""
    name, count = ins.mnemonic, ins.fields.get("simm16", -1)
    stores = {
        "s_waitcnt": ins.cdna and not count & _VMCNT,
        "s_waitcnt_vscnt": count == 0,
        "s_wait_storecnt": count == 0,
        "s_wait_storecnt_dscnt": not count >> 8,
    }
    if not stores.get(name):
        return None

    def step(w: Waves) -> None:
        if w.group.races is not None:
            w.group.races.memory.order.wait(w)

    return step


def cache_step(ins: Instruction) -> Callable[[Waves], None]:
    """The step of an instruction that invalidates or writes back caches."""
    fields = ins.fields
    several = ins.arch in _SEVERAL_L2
    acquires = {
        "buffer_gl1_inv": True,
        "buffer_wbinvl1": True,
        "buffer_wbinvl1_vol": True,
        "buffer_inv": several and bool(fields.get("sc1")),
        "global_inv": fields.get("scope", 0) >= _DEVICE,
    }.get(ins.mnemonic, False)
    writes_back = ins.mnemonic == "buffer_wbl2" and several and bool(fields.get("sc1"))

    def step(w: Waves) -> None:
        if w.group.races is None:
            return
        order = w.group.races.memory.order
        if acquires:
            order.acquire(w)
        elif writes_back:
            order.write_back(w)

    return step


class Ordering:
    """The clocks of a launch's blocks, and what each block knows of the others.

    A block's clock goes on at its barriers and atomic operations, and where its stores were waited
    for. Blocks are counted over the whole grid; waves and blocks of the batch that is stepped over
    this batch.

    Attributes:
        time: the clock of each block of the batch.
        barrier_at: the clock at each one's last barrier.
    """

    def __init__(self, arch: str, waves_per_block: int) -> None:
        self._several_l2 = arch in _SEVERAL_L2
        self._waves = waves_per_block
        self._first = 0
        #: Map places to what atomic operations on them released of each block; blocks to what they
        #: have seen so and to what they have acquired of it. All that another block did up to that
        #: time comes before.
        self._left: dict[int, dict[int, int]] = {}
        self._seen: dict[int, dict[int, int]] = {}
        self._known: dict[int, dict[int, int]] = {}
        self.begin(0, 0)

    def begin(self, first: int, count: int) -> None:
        """The next blocks of the grid are stepped together."""
        self._first = first
        self.time: Array = np.zeros(count, np.int32)
        self.barrier_at: Array = np.zeros(count, np.int32)
        #: Of each wave: the time of its first store that it has not waited for, and of the last
        #: write-back.
        self._open: Array = np.full(count * self._waves, _NOTHING_OPEN, np.int32)
        self._writing_back: Array = np.full(count * self._waves, -1, np.int32)
        #: Of each block: the time of its last store, and up to when its stores were written back.
        self._stored: Array = np.full(count, -1, np.int32)
        self._written_back: Array = np.full(count, -1, np.int32)

    def barrier(self, blocks: Array) -> None:
        """These of the blocks that are stepped together have passed one."""
        self.time[blocks] += 1
        self.barrier_at[blocks] = self.time[blocks]

    # ---------------------------------------------------------------------- of whole instructions

    def store(self, w: Waves, lanes: Array) -> None:
        """Waves store.

        Args:
            lanes: which lanes do (flat indices).
        """
        rows = np.unique(lanes // w.lanes)
        waves, blocks = w.numbers[rows], w.block[rows]
        self._open[waves] = np.minimum(self._open[waves], self.time[blocks])
        self._stored[blocks] = self.time[blocks]

    def wait(self, w: Waves) -> None:
        """Waves have waited for their stores, and for a write-back before."""
        waves = w.numbers
        back = self._writing_back[waves]
        if (self._open[waves] == _NOTHING_OPEN).all() and (
            back <= self._written_back[w.block]
        ).all():
            return
        np.maximum.at(self._written_back, w.block, back)
        self._open[waves] = _NOTHING_OPEN
        self.time[np.unique(w.block)] += 1

    def write_back(self, w: Waves) -> None:
        """Waves write all that their block has stored back to what the whole GPU sees."""
        self._writing_back[w.numbers] = self.time[w.block]
        self.time[np.unique(w.block)] += 1

    def acquire(self, w: Waves) -> None:
        """Waves invalidate their caches: what they have seen released comes before."""
        for block in np.unique(w.block).tolist():
            seen = self._seen.pop(self._first + block, None)
            if seen:
                _merge(self._known.setdefault(self._first + block, {}), seen)

    def atomic(self, w: Waves, lanes: Array, places: Array) -> None:
        """Lanes (flat indices) do an atomic operation each, in this order."""
        row = lanes // w.lanes
        released = self._released(w)[row].tolist()
        blocks, where = w.block[row].tolist(), places.tolist()
        for block, at, until in dict.fromkeys(zip(blocks, where, released, strict=True)):
            me = self._first + block
            left = self._left.setdefault(at, {})
            if left:
                _merge(self._seen.setdefault(me, {}), left)
            known = self._known.get(me)
            if known:
                _merge(left, known)
            left[me] = max(until, left.get(me, -1))
        self.time[np.unique(w.block[row])] += 1

    def look(self, blocks: Array, places: Array) -> None:
        """Loads that pass by the caches (of these blocks of the batch), as relaxed atomic ones."""
        for block, at in set(zip(blocks.tolist(), places.tolist(), strict=True)):
            left = self._left.get(at)
            if left:
                _merge(self._seen.setdefault(self._first + block, {}), left)

    def _released(self, w: Waves) -> Array:
        """Until when on its block's clock the past is in order with an atomic operation of each
        wave; -1 for nothing of it."""
        released = np.minimum(self.time[w.block], self._open[w.numbers] - 1)
        if self._several_l2:
            back = self._written_back[w.block]
            released = np.where(self._stored[w.block] > back, np.minimum(released, back), released)
        return released

    # -------------------------------------------------------------------------------------- answers

    @property
    def informed(self) -> bool:
        """Has any block acquired something of another one?"""
        return bool(self._known)

    def known(self, block: int) -> dict[int, int]:
        """Map the blocks that a block has acquired something of to the time until which it has."""
        return self._known.get(block, {})

    def met(self, block: int, other: int) -> bool:
        """Has a block done an atomic operation where the other one had done one before?"""
        return other in self._seen.get(block, ()) or other in self._known.get(block, ())


def _merge(into: dict[int, int], more: dict[int, int]) -> None:
    for block, time in more.items():
        if time > into.get(block, -2):
            into[block] = time
