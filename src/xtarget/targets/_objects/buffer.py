"""Global memory: its sum, the checks before a copy, and the release of memory, once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from ..._system.locks import Lock
from ..._values.errors import ArgumentError
from ..base import Stream
from .handles import Owned

__all__ = ["BufferBase", "MemoryCount"]


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


class BufferBase(Owned, ABC):
    """A piece of memory: an allocation of ours, or what somebody else owns. `raw` is its address.

    Args:
        release: gives the memory back; None where that is somebody else's to do.
    """

    __slots__ = ("_release", "nbytes")

    CLOSED = "this buffer of {where} is closed. Allocate a new one."

    def __init__(
        self, address: int, nbytes: int, where: str, release: Callable[[], None] | None = None
    ) -> None:
        super().__init__(address, where)
        self.nbytes = nbytes
        self._release = release

    def count_in(self, count: MemoryCount) -> None:
        """Count it until its memory is given back."""
        release, nbytes = self._release, self.nbytes
        if release is None:
            return

        def given_back() -> None:
            try:
                release()
            finally:
                count.remove(nbytes)

        count.add(nbytes)
        self._release = given_back

    @property
    def address(self) -> int:
        address: int = self.live()
        return address

    def write(self, source: memoryview, stream: Stream) -> None:
        address = self._checked(source)
        if source.nbytes:
            self._copy_in(address, source, stream)

    def read(self, destination: memoryview, stream: Stream) -> None:
        address = self._checked(destination)
        if destination.readonly:  # a run time would write into it all the same
            raise ArgumentError(
                f"the host memory to read {self.where} into is read-only. Give writable memory, "
                "such as a bytearray or a new array."
            )
        if destination.nbytes:
            self._copy_out(address, destination, stream)

    def _checked(self, host: memoryview) -> int:
        address = self.address
        if host.nbytes > self.nbytes:
            raise ArgumentError(
                f"{host.nbytes} bytes do not fit a buffer of {self.nbytes} bytes on {self.where}. "
                "Copy fewer bytes, or allocate a larger buffer."
            )
        return address

    @abstractmethod
    def _copy_in(self, address: int, source: memoryview, stream: Stream) -> None:
        """Copy at least one byte; the source may be reused when this returns."""

    @abstractmethod
    def _copy_out(self, address: int, destination: memoryview, stream: Stream) -> None:
        """Copy at least one byte; complete when this returns."""

    def _taken(self) -> Callable[[], None] | None:
        """Mark the buffer closed and return its release action; None after the first call."""
        release, self._release = self._release, None
        self.raw = None
        return release

    def close(self) -> None:
        release = self._taken()
        if release is not None:
            release()
