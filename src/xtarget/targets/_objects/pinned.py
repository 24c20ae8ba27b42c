"""Pinned memory of the host: what copies go through that the caller's thread does not wait for.

Pinning memory takes a run time longer than the copy of a small array, so blocks are kept. Whoever
gives a block back has seen its copies end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..._system.locks import Lock

__all__ = ["PinnedPool"]

#: Bytes of the smallest block, of the largest, and of all that are kept unused.
SMALLEST: Final = 1 << 16
LARGEST: Final = 1 << 24
KEPT: Final = 1 << 27


class PinnedPool:
    """Blocks of one device.

    Attributes:
        nbytes: of all blocks, used or not.

    Args:
        pin: gives the address of so many new bytes.
        unpin: takes an address back.
    """

    def __init__(self, pin: Callable[[int], int], unpin: Callable[[int], None]) -> None:
        self._pin, self._unpin = pin, unpin
        self._lock = Lock()
        self._unused: dict[int, list[int]] = {}
        self._unused_bytes = 0
        self.nbytes = 0

    def take(self, nbytes: int) -> tuple[int, int] | None:
        """Address and bytes of a block; None: so much is copied without one.

        Raises:
            OutOfMemoryError: the run time has no memory to pin.
        """
        if nbytes > LARGEST:
            return None
        size = max(SMALLEST, 1 << (nbytes - 1).bit_length())
        with self._lock:
            unused = self._unused.get(size)
            if unused:
                self._unused_bytes -= size
                return unused.pop(), size
        address = self._pin(size)
        with self._lock:
            self.nbytes += size
        return address, size

    def give_back(self, address: int, size: int) -> None:
        """The block's copies have ended."""
        with self._lock:
            kept = self._unused_bytes + size <= KEPT
            if kept:
                self._unused.setdefault(size, []).append(address)
                self._unused_bytes += size
            else:
                self.nbytes -= size
        if not kept:
            self._unpin(address)

    def trim(self) -> None:
        """Unpin what nobody uses."""
        with self._lock:
            unused, self._unused = self._unused, {}
            self.nbytes -= self._unused_bytes
            self._unused_bytes = 0
        for addresses in unused.values():
            for address in addresses:
                self._unpin(address)
