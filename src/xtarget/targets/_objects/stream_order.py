"""Devices whose streams are integers and whose memory is freed in the order of a stream: CUDA and
HIP. Their run times know a current device for each thread.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

from ..._values.types import DeviceInfo
from ..base import Stream
from .buffer import BufferBase
from .device import DeviceBase, StreamT
from .handles import own, stream_number
from .loaded_code import Staying
from .statuses import CAPTURED

__all__ = ["OrderedBuffer", "OrderedDevice"]

DeviceT = TypeVar("DeviceT", bound="OrderedDevice[Any, Any]")
BufferT = TypeVar("BufferT", bound="OrderedBuffer[Any]")


class OrderedBuffer(BufferBase, Generic[DeviceT]):
    """A piece of device memory."""

    __slots__ = ("_device",)

    def __init__(
        self,
        device: DeviceT,
        address: int,
        nbytes: int,
        release: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(address, nbytes, device.where, release)
        self._device = device

    def write(self, source: memoryview, stream: Stream) -> None:
        self._outside_captures(f"copying {source.nbytes} bytes to {self.where}", stream)
        super().write(source, stream)

    def read(self, destination: memoryview, stream: Stream) -> None:
        self._outside_captures(f"copying {destination.nbytes} bytes from {self.where}", stream)
        super().read(destination, stream)

    def _outside_captures(self, doing: str, stream: Stream) -> None:
        """Refuse a copy that would become part of a graph: it is done when it returns, and in a
        graph it would use host memory that may be gone. CUDA and HIP 7 make the capture invalid at
        it; HIP 6.4.3 takes it into the graph and says nothing.

        Raises:
            LaunchError: the stream is captured.
        """
        default = self._device.default_stream
        if stream is not default and own(stream, type(default), self.where).capturing():
            raise CAPTURED.error(f"{doing} failed", "the stream is captured")


class OrderedDevice(DeviceBase[StreamT], Generic[StreamT, BufferT]):
    """One opened device.

    Attributes:
        staying: the loaded code that graphs may hold.
    """

    def __init__(self, raw: Any, info: DeviceInfo) -> None:
        super().__init__(raw, info)
        self.staying = Staying()

    def _end(self) -> None:
        self.staying.outlive()

    @abstractmethod
    def entered(self) -> AbstractContextManager[None]:
        """A scope in which this is the thread's current device; the caller's comes back after it.
        For giving things back, also when the device is closed.
        """

    def current(self) -> AbstractContextManager[None]:
        """The same for every other use."""
        self.live()
        return self.entered()

    @abstractmethod
    def _new_stream(self) -> StreamT: ...

    @abstractmethod
    def _borrowed_stream(self, number: int, keep: Any) -> StreamT:
        """The stream of that handle; `keep` is what the caller gave for it."""

    @abstractmethod
    def _allocate(self, nbytes: int, stream: StreamT) -> BufferT:
        """At least one byte, in the order of the stream."""

    @abstractmethod
    def capturing(self) -> bool:
        """A stream is captured, as far as this device knows."""

    def _may_wait(self) -> bool:
        return not self.capturing()

    @abstractmethod
    def borrow(self, address: int, nbytes: int) -> BufferT: ...

    def stream(self, handle: Any = None) -> StreamT:
        self.live()
        if handle is None:
            return self._new_stream()
        number = stream_number(handle, self.where)
        if number in (0, self._default.handle):
            return self._default
        return self._borrowed_stream(number, handle)

    def alloc(self, nbytes: int, stream: Stream | None = None) -> BufferT:
        on = self.default_stream
        if not nbytes:
            return self.borrow(0, 0)
        if stream is not None:
            on = own(stream, type(on), self.where)
        return self._counted(lambda: self._allocate(nbytes, on))
