"""Streams and events of HIP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import base
from .._objects.handles import DriverStream, EventBase, Owned, own
from .patience import until_done
from .status import call

if TYPE_CHECKING:
    from .device import HipDevice

__all__ = ["HipEvent", "HipStream"]

_HIP_EVENT_DEFAULT = 0


class HipEvent(Owned, EventBase):
    """A hipEvent_t with timing."""

    __slots__ = ("_device",)

    def __init__(self, device: HipDevice, handle: Any) -> None:
        super().__init__(handle, device.info.name)
        self._device = device

    def synchronize(self) -> None:
        doing = f"waiting for an event of {self.where}"
        until_done(self._device, "hipEventQuery", self.live(), doing)
        call(self._device.hip, "hipEventSynchronize", self.live(), doing=doing)

    def elapsed_ms(self, since: base.Event) -> float:
        doing = f"reading the time between two events of {self.where}"
        args = (own(since, HipEvent, self.where).live(), self.live())
        return float(call(self._device.hip, "hipEventElapsedTime", *args, doing=doing))

    def close(self) -> None:
        handle, self.raw = self.raw, None
        if handle is not None:
            doing = f"giving back an event of {self.where}"
            call(self._device.hip, "hipEventDestroy", handle, doing=doing)


class HipStream(Owned, DriverStream):
    """A hipStream_t as an integer; 0 is the device's null stream."""

    __slots__ = ("_lent",)

    _device: HipDevice

    def __init__(self, device: HipDevice, handle: int, *, owned: bool, **how: Any) -> None:
        super().__init__(device, handle, owned=owned, **how)
        self._lent = False

    def capturing(self) -> bool:
        self.live()
        self._device.live()
        return self.is_captured()

    def is_captured(self) -> bool:
        """The same, also after the device was closed."""
        if self.is_default:
            return False  # HIP cannot capture the null stream
        device, doing = self._device, f"asking whether a stream of {self.where} is captured"
        with device.entered():
            return bool(call(device.hip, "hipStreamIsCapturing", self.raw, doing=doing))

    def record(self) -> HipEvent:
        device, doing, handle = self._device, f"recording an event on {self.where}", self.live()
        with device.current():
            event = call(device.hip, "hipEventCreateWithFlags", _HIP_EVENT_DEFAULT, doing=doing)
            result = HipEvent(device, event)
            try:
                call(device.hip, "hipEventRecord", event, handle, doing=doing)
            except BaseException:
                result.close()
                raise
        return result

    def wait(self, event: base.Event) -> None:
        device, doing = self._device, f"making a stream of {self.where} wait"
        args = (self.live(), own(event, HipEvent, self.where).live(), 0)
        with device.current():
            call(device.hip, "hipStreamWaitEvent", *args, doing=doing)

    def synchronize(self) -> None:
        device, doing = self._device, f"running the work of a stream of {self.where}"
        handle = self.live()
        with device.current():
            until_done(device, "hipStreamQuery", handle, doing)
            call(device.hip, "hipStreamSynchronize", handle, doing=doing)

    def lend(self) -> None:
        self._lent = True

    def end(self) -> None:
        handle, self.raw = self.raw, None
        self._keep = None
        if handle is None or not self._owned:
            return
        if self._lent:
            self._device.idle_streams.append(handle)
            return
        device, doing = self._device, f"giving back a stream of {self.where}"
        with device.current():
            try:
                # its work might not be finished otherwise (HIP, hipStreamDestroy)
                until_done(device, "hipStreamQuery", handle, doing)
                call(device.hip, "hipStreamSynchronize", handle, doing=doing)
            finally:
                call(device.hip, "hipStreamDestroy", handle, doing=doing)
