"""The fake device's memory: a range of addresses of its own, filled with garbage, never reused."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

_ALIGN = 256
_GARBAGE = 0xA5


class Memory:
    """Allocations by address. Using an address that is in none of them fails an assertion."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._next = 0x10_0000_0000
        self._blocks: dict[int, np.ndarray[Any, Any]] = {}
        self._lock = threading.Lock()

    def allocate(self, nbytes: int) -> int | None:
        """An address, or None when there is not enough left."""
        with self._lock:
            if sum(block.nbytes for block in self._blocks.values()) + nbytes > self.nbytes:
                return None
            address = self._next
            # at least one free page between two, so that running over is seen
            self._next += -(-nbytes // _ALIGN) * _ALIGN + 4096
            self._blocks[address] = np.full(max(nbytes, 1), _GARBAGE, np.uint8)
            return address

    def free(self, address: int) -> None:
        with self._lock:
            self._blocks.pop(address)

    def array(self, address: int, dtype: Any, count: int) -> np.ndarray[Any, Any]:
        """A view of `count` elements at an address."""
        size = count * np.dtype(dtype).itemsize
        with self._lock:
            for base, block in self._blocks.items():
                if base <= address and address + size <= base + block.nbytes:
                    return block[address - base : address - base + size].view(dtype)
        raise AssertionError(f"no memory of the fake device at {address:#x} + {size} bytes")
