"""Global memory of an AMD device."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ..._errors import OutOfMemoryError
from .. import base
from .._opened import own
from .._stream_order import OrderedBuffer
from ._status import call
from ._stream import HipStream

if TYPE_CHECKING:
    from ._device import HipDevice

__all__ = ["HipBuffer", "allocate"]


def allocate(device: HipDevice, nbytes: int, stream: HipStream) -> HipBuffer:
    """Memory from the device's pool in the order of `stream`, or from hipMalloc without a pool.

    Raises:
        OutOfMemoryError: there is none left; the message says what was wanted and what is free.
    """
    doing = f"allocating {nbytes} bytes on {device.info.name} ({device.info.product})"
    handle = stream.handle
    with device.current():
        try:
            if device.pooled:
                pointer = call(device.hip, "hipMallocAsync", nbytes, handle, doing=doing)
            else:
                pointer = call(device.hip, "hipMalloc", nbytes, doing=doing)
        except OutOfMemoryError as error:
            query = "asking for the free memory"
            free, total = call(device.hip, "hipMemGetInfo", doing=query)
            raise OutOfMemoryError(f"{error} Free now: {free} of {total} bytes.") from error
    address = int(pointer)
    return HipBuffer(device, address, nbytes, partial(_free, device, address, stream))


def _free(device: HipDevice, address: int, stream: HipStream) -> None:
    """Also after the stream or the device was closed."""
    doing = f"freeing memory of {device.info.name}"
    with device.entered():
        if device.pooled and stream.raw is not None:
            call(device.hip, "hipFreeAsync", address, stream.raw, doing=doing)
        else:
            call(device.hip, "hipFree", address, doing=doing)  # waits for the whole device


class HipBuffer(OrderedBuffer["HipDevice"]):
    """A piece of device memory. hip-python's own array object frees nothing when it goes."""

    __slots__ = ()

    def _copy_in(self, address: int, source: memoryview, stream: base.Stream) -> None:
        kind = self._device.hip.hipMemcpyKind.hipMemcpyHostToDevice
        self._copy((address, source, source.nbytes, kind), "to", stream)

    def _copy_out(self, address: int, destination: memoryview, stream: base.Stream) -> None:
        kind = self._device.hip.hipMemcpyKind.hipMemcpyDeviceToHost
        self._copy((destination, address, destination.nbytes, kind), "from", stream)

    def _copy(self, args: tuple[Any, ...], way: str, stream: base.Stream) -> None:
        """hipMemcpyWithStream: in order on the stream, and done when it returns, so the host memory
        is free again. (hipMemcpyAsync promises that for no kind of pageable memory.)
        """
        device, doing = self._device, f"copying {args[2]} bytes {way} {self.where}"
        handle = own(stream, HipStream, self.where).handle
        with device.current():
            call(device.hip, "hipMemcpyWithStream", *args, handle, doing=doing)
