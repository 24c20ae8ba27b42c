"""An opened device: waiting for it and closing it, the same way for every vendor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..._values.errors import OutOfMemoryError
from ..._values.types import DeviceInfo, MemoryUse
from .buffer import BufferBase, MemoryCount
from .handles import Opened, StreamBase

__all__ = ["DeviceBase", "on_full"]

#: Called with the name of a device that has no memory left, before what is kept is given back.
on_full: list[Callable[[str], None]] = []

StreamT = TypeVar("StreamT", bound=StreamBase)
BufferT = TypeVar("BufferT", bound=BufferBase)


class DeviceBase(Opened, ABC, Generic[StreamT]):
    """One opened device. `raw` is what its parts are made with.

    Attributes:
        native_key: see `targets.base.Device`.
    """

    native_key: str | None = None  # loading never compiles

    #: Set by the vendor when it is opened.
    _default: StreamT
    _on_close: Callable[[], None] | None = None

    def __init__(self, raw: Any, info: DeviceInfo) -> None:
        super().__init__(raw, info.name)
        self.info = info
        self._count = MemoryCount()
        #: What the driver has of closed streams that other libraries remember (`Stream.lend`).
        self.idle_streams: list[Any] = []

    @property
    def default_stream(self) -> StreamT:
        self.live()
        return self._default

    @abstractmethod
    def _wait(self) -> None:
        """Wait on the host for all work."""

    def _idle_stream(self) -> Any:
        """Return what the driver has of a lent stream that is closed; None: there is none."""
        try:
            return self.idle_streams.pop()
        except IndexError:  # not asked first: another thread may take the last one
            return None

    def _end(self) -> None:
        """Give back what belongs to the device; buffers that are still open stay valid."""

    def _cached(self) -> int:
        """Bytes that are kept for later allocations."""
        return 0

    def _pinned_bytes(self) -> int:
        """Bytes of the host that are pinned for copies."""
        return 0

    def _trim(self) -> None:
        """Give the system what is kept."""

    def memory_use(self) -> MemoryUse:
        self.live()
        count = self._count
        return MemoryUse(count.in_use, count.peak, self._cached(), pinned=self._pinned_bytes())

    def trim_memory(self) -> None:
        self.live()
        self._trim()

    def _may_wait(self) -> bool:
        """No capture forbids it now."""
        return True

    def make_room(self) -> None:
        if self._may_wait():
            for unload in on_full:
                unload(self.info.name)
            self._wait()  # memory comes back after work that uses it
            self._trim()

    def _counted(self, allocate: Callable[[], BufferT]) -> BufferT:
        """Memory; where there is none left, once more after what is kept was given back.

        Raises:
            OutOfMemoryError: there is none; the message says what holds it.
        """
        try:
            buffer = allocate()
        except OutOfMemoryError:
            self.make_room()
            try:
                buffer = allocate()
            except OutOfMemoryError as error:
                raise OutOfMemoryError(
                    f"{error} Arrays and graphs of xtarget have {self._count.in_use} bytes of "
                    f"{self.info.memory_bytes} on {self.info.name}; xtarget.memory_stats() and the "
                    "other libraries' figures say more."
                ) from error
        buffer.count_in(self._count)
        return buffer

    def synchronize(self) -> None:
        self.live()
        self._wait()

    def when_closed(self, action: Callable[[], None]) -> None:
        """Have `action` called when that happens."""
        self._on_close = action

    def close(self) -> None:
        if self.raw is None:
            return
        try:
            self._wait()
        finally:  # failed work is told, and the device is closed all the same
            self.raw = None
            if self._on_close is not None:
                self._on_close()
            self._end()
