"""Streams and events of HIP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._errors import ArgumentError
from .. import base
from ._status import call

if TYPE_CHECKING:
    from ._device import HipDevice

__all__ = ["HipEvent", "HipStream", "handle_of"]

_HIP_EVENT_DEFAULT = 0


class HipEvent:
    """A hipEvent_t with timing."""

    def __init__(self, device: HipDevice, handle: Any) -> None:
        self._device = device
        self.handle: Any = handle

    def synchronize(self) -> None:
        hip = self._device.hip
        doing = f"waiting for an event of {self._device.info.name}"
        call(hip, "hipEventSynchronize", self.handle, doing=doing)

    def elapsed_ms(self, since: base.Event) -> float:
        doing = f"reading the time between two events of {self._device.info.name}"
        start = _own(since)
        hip = self._device.hip
        return float(call(hip, "hipEventElapsedTime", start.handle, self.handle, doing=doing))

    def close(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            doing = f"giving back an event of {self._device.info.name}"
            call(self._device.hip, "hipEventDestroy", handle, doing=doing)


class HipStream:
    """A hipStream_t; 0 is the device's null stream."""

    def __init__(self, device: HipDevice, handle: int, owned: bool) -> None:
        self._device = device
        self._handle = handle
        self._owned = owned
        self.closed = False

    @property
    def handle(self) -> int:
        return self._handle

    def record(self) -> HipEvent:
        device, doing = self._device, f"recording an event on {self._device.info.name}"
        with device.current():
            event = call(device.hip, "hipEventCreateWithFlags", _HIP_EVENT_DEFAULT, doing=doing)
            result = HipEvent(device, event)
            try:
                call(device.hip, "hipEventRecord", event, self._handle, doing=doing)
            except BaseException:
                result.close()
                raise
        return result

    def wait(self, event: base.Event) -> None:
        device, doing = self._device, f"making a stream of {self._device.info.name} wait"
        with device.current():
            args = (self._handle, _own(event).handle, 0)
            call(device.hip, "hipStreamWaitEvent", *args, doing=doing)

    def synchronize(self) -> None:
        device = self._device
        doing = f"running the work of a stream of {device.info.name}"
        with device.current():
            call(device.hip, "hipStreamSynchronize", self._handle, doing=doing)

    def close(self) -> None:
        if self._owned and not self.closed:
            self.closed = True
            doing = f"giving back a stream of {self._device.info.name}"
            call(self._device.hip, "hipStreamDestroy", self._handle, doing=doing)


def _own(event: base.Event) -> HipEvent:
    if not isinstance(event, HipEvent):
        raise ArgumentError(
            f"an AMD stream cannot use an event of the type {type(event).__name__}. Wait for it on "
            "the host instead (event.synchronize())."
        )
    return event


def handle_of(stream: Any) -> int:
    """The handle of a foreign stream: an integer, or an object of torch, cuda.core, CuPy or hip.

    Raises:
        ArgumentError: it is none of these.
    """
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:  # cuda.core: (version, handle)
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr"):  # torch; CuPy
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    try:
        return int(stream)  # hip-python's ihipStream_t
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{stream!r} is not a HIP stream. Give an integer handle, or an object with "
            "cuda_stream, such as torch.cuda.Stream."
        ) from None
