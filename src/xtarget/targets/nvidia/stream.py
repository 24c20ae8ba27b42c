"""Streams and events of CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cuda.core as core
from cuda.bindings import driver

from .._objects.handles import DriverStream, EventBase, own
from ..base import Event
from .status import check, checked

if TYPE_CHECKING:
    from .device import CudaDevice

__all__ = ["CudaEvent", "CudaStream"]

#: Streams that other libraries remember, by handle: cuda.core destroys one that nobody holds.
_lent: dict[int, core.Stream] = {}


class CudaEvent(EventBase):
    """A point in a CUDA stream."""

    __slots__ = ()

    def synchronize(self) -> None:
        event = self.live()
        with checked(f"waiting for an event of {self.where}"):
            event.sync()

    def done(self) -> bool:
        """True when the point was reached, without waiting; also while something is captured."""
        event = self.live()
        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        what = f"asking for an event of {self.where}"
        before = check(driver.cuThreadExchangeStreamCaptureMode(relaxed), what)
        try:
            with checked(what):
                return bool(event.is_done)
        finally:
            check(driver.cuThreadExchangeStreamCaptureMode(before), what)

    def elapsed_ms(self, since: Event) -> float:
        start, end = own(since, CudaEvent, self.where).live(), self.live()
        with checked(f"reading the time between two events of {self.where}"):
            return float(end - start)

    def close(self) -> None:
        event, self.raw = self.raw, None
        if event is not None:
            event.close()


class CudaStream(DriverStream):
    """A CUDA stream; `raw` is what cuda.core launches on."""

    __slots__ = ("_number",)

    _device: CudaDevice

    def __init__(self, device: CudaDevice, stream: Any, *, owned: bool, **how: Any) -> None:
        super().__init__(device, stream, owned=owned, **how)
        self._number = int(stream.handle)

    @property
    def handle(self) -> int:
        self.live()
        return self._number

    def capturing(self) -> bool:
        handle = self.handle
        if self.is_default:
            return False  # CUDA cannot capture the legacy stream
        with self._device.current():
            what = f"asking whether a stream of {self.where} is captured"
            return bool(int(check(driver.cuStreamIsCapturing(handle), what)))

    def record(self) -> CudaEvent:
        stream = self.live()
        with self._device.current(), checked(f"recording an event on {self.where}"):
            event = stream.record(options=core.EventOptions(timing_enabled=True))
        return CudaEvent(event, self.where)

    def wait(self, event: Event) -> None:
        stream, point = self.live(), own(event, CudaEvent, self.where).live()
        with self._device.current(), checked(f"making a stream of {self.where} wait"):
            stream.wait(point)

    def synchronize(self) -> None:
        handle = self.handle
        with self._device.current():
            check(driver.cuStreamSynchronize(handle), f"running the work of {self.where}")

    def lend(self) -> None:
        if self._owned:
            _lent[self._number] = self.live()

    def end(self) -> None:
        stream, self.raw = self.raw, None
        self._keep = None
        if stream is None or not self._owned:
            return
        if self._number in _lent:
            self._device.idle_streams.append(stream)
        else:
            stream.close()  # CUDA destroys it when its work is done
