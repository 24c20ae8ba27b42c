"""How much memory a device has given."""

from __future__ import annotations

from ..._system.locks import Lock

__all__ = ["MemoryCount"]


class MemoryCount:
    """Bytes of allocations that were not given back yet, and the most that they ever were."""

    def __init__(self) -> None:
        self._lock = Lock()  # memory is given back by finalizers too, in any thread
        self.in_use = self.peak = 0

    def add(self, nbytes: int) -> None:
        with self._lock:
            self.in_use += nbytes
            self.peak = max(self.peak, self.in_use)

    def remove(self, nbytes: int) -> None:
        with self._lock:
            self.in_use -= nbytes
