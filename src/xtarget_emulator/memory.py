"""The emulated device's global memory: one arena, in which every buffer knows its bounds.

Between buffers lies a gap that belongs to nobody, so an access beyond a buffer's end is noticed,
whatever lies behind it. A second arena of the same size says which bytes were ever written.
"""

from __future__ import annotations

import bisect
import mmap
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

__all__ = ["HOST_CALLS", "Access", "Arena", "Array", "Block", "Fault", "Unknown"]

Array = Any

#: Where the first device's arena begins: an address that no process uses, so that a host access
#: fails at once. Each device has its own.
_BASE, _APART = 0x7E00_0000_0000, 1 << 36
#: Below the arenas: what a kernel finds as the place of the host's ear, where nothing is.
HOST_CALLS, _CALLS_ROOM = 0x7D00_0000_0000, 1 << 32
_ALIGN = 4096
_GAP = 65536
#: Free pieces of memory, before neighbours become one.
_MOST_PIECES = 4096


class Fault(Exception):
    """An error that an instruction made: `text`, and the flat index of the lane (wave * lanes +
    lane) if a lane made it."""

    def __init__(self, text: str, lane: int | None = None) -> None:
        super().__init__(text)
        self.text, self.lane = text, lane


class Unknown(Fault):
    """An instruction's effect would depend on a value that was never written."""


@dataclass(slots=True)
class Block:
    """One buffer: `start` to `end` (addresses), its name for messages, whether a kernel may write
    to it, and whether all of it is known to be initialised."""

    start: int
    end: int
    what: str
    writable: bool = True
    full: bool = False


class Access(NamedTuple):
    """An instruction reads or writes so many bytes at each address, which lie at a multiple of
    `align`. `words`: a buffer reaches to the end of the word that its last byte is in.
    """

    nbytes: int
    writing: bool
    align: int
    words: bool = False


def _whole(end: int) -> int:
    """The end of the last word that begins before `end`."""
    return -(-end // 4) * 4


class Arena:
    """Global memory of `capacity` bytes; pages are taken from the host when first touched.

    Args:
        ordinal: the device's, which its addresses tell.
    """

    def __init__(self, capacity: int, ordinal: int = 0) -> None:
        self.capacity = capacity
        self._base = _BASE + ordinal * _APART
        self._room = 2 * capacity
        self._pages = mmap.mmap(-1, self._room)
        self._seen = mmap.mmap(-1, self._room)
        self.bytes: Array = np.frombuffer(self._pages, np.uint8)
        self.written: Array = np.frombuffer(self._seen, np.uint8)
        self.views: dict[int, Array] = {
            1: self.bytes,
            2: self.bytes.view(np.uint16),
            4: self.bytes.view(np.uint32),
            8: self.bytes.view(np.uint64),
        }
        self._starts: list[int] = []
        self._blocks: dict[int, Block] = {}
        self._free: list[tuple[int, int]] = [(self._base + _GAP, self._base + self._room)]
        self._last = Block(0, 0, "nothing")
        self.used = 0
        #: What a launch calls its buffers, by their start: "argument 2 of the kernel".
        self.labels: dict[int, str] = {}

    def allocate(self, nbytes: int, what: str) -> Block | None:
        """Return a new buffer, or None if there is no room."""
        if self.used + nbytes > self.capacity:
            return None
        need = -(-nbytes // _ALIGN) * _ALIGN + _GAP
        if len(self._free) > _MOST_PIECES or all(end - start < need for start, end in self._free):
            self._join()
        for index, (start, end) in enumerate(self._free):
            if end - start >= need:
                if end - start == need:
                    del self._free[index]
                else:
                    self._free[index] = (start + need, end)
                block = Block(start, start + nbytes, what)
                bisect.insort(self._starts, start)
                self._blocks[start] = block
                self.used += nbytes
                # 16-bit atomics are of whole words, the last one of which is never out of reach
                self.written[block.end - self._base : _whole(block.end) - self._base] = 1
                return block
        return None

    def free(self, address: int) -> bool:
        """Give a buffer back; False when none starts there."""
        block = self._blocks.pop(address, None)
        if block is None:
            return False
        self._starts.remove(address)
        nbytes = block.end - block.start
        self.used -= nbytes
        first = block.start - self._base
        whole = -(-max(nbytes, 1) // _ALIGN) * _ALIGN
        for pages in (self._pages, self._seen):  # they go back to the host, and come again as zeros
            pages.madvise(mmap.MADV_REMOVE, first, whole)
        # at the back of the list: a stale address is noticed for as long as possible
        self._free.append((address, address + -(-nbytes // _ALIGN) * _ALIGN + _GAP))
        if self._last is block:
            self._last = Block(0, 0, "nothing")
        return True

    def _join(self) -> None:
        """Make neighbours that are free one piece; each buffer leaves one of its own size."""
        joined: list[tuple[int, int]] = []
        for start, end in sorted(self._free):
            if joined and joined[-1][1] == start:
                joined[-1] = joined[-1][0], end
            else:
                joined.append((start, end))
        self._free = joined

    def block_at(self, address: int) -> Block | None:
        """The buffer that an address lies in."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        block = self._blocks[self._starts[index]]
        return block if address < block.end else None

    def offset(self, block: Block) -> int:
        """Return a buffer's start in the arena's views, in bytes."""
        return block.start - self._base

    def block_of_offset(self, offset: int) -> Block:
        """The buffer that holds a place which `locate` gave."""
        block = self.block_at(offset + self._base)
        assert block is not None
        return block

    def near(self, address: int) -> str:
        """Describe the place of an address that does not lie in any buffer."""
        if 0 <= address - HOST_CALLS < _CALLS_ROOM:
            return (
                "which is where a kernel calls the host, for tl.device_print or a tl.device_assert "
                "that fails, and the emulator takes no such calls: store the values in an array"
            )
        index = bisect.bisect_right(self._starts, address) - 1
        if index >= 0:
            block = self._blocks[self._starts[index]]
            return f"{address - block.end:,} bytes behind the end of {self.describe(block)}"
        if self._starts and address > self._base:
            block = self._blocks[self._starts[0]]
            return f"{block.start - address:,} bytes before {self.describe(block)}"
        return "which is not an address of this device"

    def describe(self, block: Block) -> str:
        label = self.labels.get(block.start)
        who = f", {label}" if label else ""
        return f"{block.what} ({block.end - block.start:,} bytes at 0x{block.start:x}{who})"

    # ------------------------------------------------------------------------------ host's access

    def span(self, address: int, nbytes: int) -> Array | None:
        """The bytes of a range, or None where it is not within one buffer."""
        block = self.block_at(address)
        if block is None or address + nbytes > block.end:
            return None
        return self.bytes[address - self._base : address - self._base + nbytes]

    def mark(self, address: int, nbytes: int) -> None:
        """The host wrote this range."""
        block = self.block_at(address)
        self.written[address - self._base : address - self._base + nbytes] = 1
        if block is not None and nbytes == block.end - block.start:
            block.full = True

    def blank(self, address: int, nbytes: int) -> None:
        """This range holds nothing after all."""
        block = self.block_at(address)
        self.written[address - self._base : address - self._base + nbytes] = 0
        if block is not None:
            block.full = False

    # ---------------------------------------------------------------------------- kernel's access

    def locate(self, addresses: Array, access: Access, active: Array | None) -> tuple[Array, bool]:
        """Offsets in the arena of what is accessed at each address, and whether all of it is
        initialised.

        Args:
            addresses: uint64.
            active: which of them count (all when None); the others' offsets are meaningless but
                within the arena.

        Raises:
            Fault: outside of every buffer, read-only, or misaligned.
        """
        if active is not None:
            counted = addresses[active]
            if not counted.size:
                return np.zeros(addresses.shape, np.int64), True
        else:
            counted = addresses
        nbytes, writing, align, _ = access
        low, high = int(counted.min()), int(counted.max())
        block = self._last
        if low < block.start or high + nbytes > block.end:
            found = self.block_at(low)
            if found is not None and high + nbytes <= found.end:
                block = self._last = found
            else:
                return self._scattered(addresses, access, active)
        if writing and not block.writable:
            self._refuse(addresses, active, addresses >= block.start, "writes to", block)
        offsets = (addresses - np.uint64(self._base)).view(np.int64)
        if align > 1:
            self._check_alignment(addresses, active, align)
        if active is not None:
            offsets = np.where(active, offsets, block.start - self._base)
        return offsets, block.full

    def _scattered(
        self, addresses: Array, access: Access, active: Array | None
    ) -> tuple[Array, bool]:
        """`locate` for accesses to several buffers, or to none."""
        nbytes, writing, align, words = access
        starts = np.array(self._starts or [0], np.uint64)
        blocks = [self._blocks[s] for s in self._starts]
        ends = np.array([_whole(b.end) if words else b.end for b in blocks] or [0], np.uint64)
        index = np.searchsorted(starts, addresses, side="right") - 1
        inside = (index >= 0) & (addresses + np.uint64(nbytes) <= ends[index])
        wrong = ~inside if active is None else ~inside & active
        if wrong.any():
            lane = int(np.argmax(wrong))
            address = int(addresses.reshape(-1)[lane])
            block = self.block_at(address)
            where = (
                f"and reaches {address + nbytes - block.end} bytes beyond the end of "
                f"{self.describe(block)}"
                if block
                else self.near(address)
            )
            verb = "writes" if writing else "reads"
            raise Fault(f"{verb} {nbytes} bytes at 0x{address:x}, {where}", lane)
        if writing:
            for number, block in enumerate(blocks):
                if not block.writable:
                    self._refuse(addresses, active, index == number, "writes to", block)
        if align > 1:
            self._check_alignment(addresses, active, align)
        offsets = (addresses - np.uint64(self._base)).view(np.int64)
        if active is not None:
            offsets = np.where(active, offsets, 0)
        return offsets, False

    def _refuse(
        self, addresses: Array, active: Array | None, those: Array, verb: str, block: Block
    ) -> None:
        wrong = those if active is None else those & active
        if wrong.any():
            lane = int(np.argmax(wrong))
            address = int(addresses.reshape(-1)[lane])
            text = f"{verb} 0x{address:x} in {self.describe(block)}, which it may only read"
            raise Fault(text, lane)

    @staticmethod
    def _check_alignment(addresses: Array, active: Array | None, align: int) -> None:
        wrong = (addresses & np.uint64(align - 1)) != 0
        if active is not None:
            wrong = wrong & active
        if wrong.any():
            lane = int(np.argmax(wrong))
            address = int(addresses.reshape(-1)[lane])
            raise Fault(
                f"accesses 0x{address:x}, which is not a multiple of {align} as it has to be", lane
            )
