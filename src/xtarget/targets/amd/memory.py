"""Global memory of an AMD device."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ..._values.errors import OutOfMemoryError
from .. import base
from .._objects.handles import own
from .._objects.stream_order import OrderedBuffer
from .patience import apart, until_done
from .pool import LARGE
from .status import call
from .stream import HipStream

if TYPE_CHECKING:
    from .device import HipDevice

__all__ = ["FilledBuffer", "HipBuffer", "allocate"]


def allocate(device: HipDevice, nbytes: int, stream: HipStream) -> HipBuffer:
    """Memory from the device's pool in the order of `stream`, or from hipMalloc without a pool.

    Raises:
        OutOfMemoryError: there is none left; the message says what was wanted and what is free.
    """
    doing = f"allocating {nbytes} bytes on {device.info.name} ({device.info.product})"
    handle = stream.handle
    pooled = device.pooled
    with device.current():
        if not handle:
            device.captures.check_null_stream(doing)
        if device.pool is not None and nbytes >= LARGE and not device.captures.anywhere():
            pooled = device.pool.fits(nbytes)
        try:
            if pooled:
                pointer = call(device.hip, "hipMallocAsync", nbytes, handle, doing=doing)
            else:
                pointer = call(device.hip, "hipMalloc", nbytes, doing=doing)
        except OutOfMemoryError as error:
            query = "asking for the free memory"
            free, total = call(device.hip, "hipMemGetInfo", doing=query)
            raise OutOfMemoryError(f"{error} Free now: {free} of {total} bytes.") from error
        pool = device.pool if pooled else None
        # a graph's memory is of another pool
        if pool is not None and not pool.settled and not device.captures.anywhere():
            pool.settle()
    address = int(pointer)
    return HipBuffer(device, address, nbytes, partial(_free, device, address, stream, pooled))


def _free(device: HipDevice, address: int, stream: HipStream, pooled: bool) -> None:
    """Also after the stream or the device was closed, and while a stream is captured: then later,
    unless it is this one, whose graph then frees the memory."""
    doing = f"freeing memory of {device.info.name}"

    def free() -> None:
        with device.entered():
            if pooled and stream.raw is not None:
                call(device.hip, "hipFreeAsync", address, stream.raw, doing=doing)
            else:
                call(device.hip, "hipFree", address, doing=doing)  # waits for the whole device

    if stream.raw is None or not pooled:
        device.captures.later(free)
    elif stream.raw and stream.is_captured():
        free()
    else:
        device.captures.later(free, null_stream=True)


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

        def copy() -> None:
            with device.current():
                call(device.hip, "hipMemcpyWithStream", *args, handle, doing=doing)

        with device.current():
            until_done(device, "hipStreamQuery", handle, doing)
        apart(device, copy, doing)


class FilledBuffer(HipBuffer):
    """Memory that HIP sets by itself; the emulator's library has no call for that."""

    __slots__ = ()

    def fill(self, pattern: bytes, stream: base.Stream) -> None:
        device, doing = self._device, f"filling {self.nbytes} bytes of {self.where}"
        handle, address = own(stream, HipStream, self.where).handle, self.address
        if not self.nbytes:
            return
        while len(pattern) > 1 and pattern[: len(pattern) // 2] * 2 == pattern:
            pattern = pattern[: len(pattern) // 2]
        if len(pattern) == 8:  # HIP sets at most four bytes at once
            self.write(memoryview(pattern * (self.nbytes // 8)), stream)
            return
        name = f"hipMemsetD{8 * len(pattern)}Async"
        value, count = int.from_bytes(pattern, "little"), self.nbytes // len(pattern)
        if len(pattern) == 4 and value >= 1 << 31:
            value -= 1 << 32  # an int of C
        with device.current():
            call(device.hip, name, address, value, count, handle, doing=doing)
