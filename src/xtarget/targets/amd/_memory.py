"""Global memory of an AMD device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._errors import ArgumentError, OutOfMemoryError
from .. import base
from ._status import call
from ._stream import HipStream

if TYPE_CHECKING:
    from ._device import HipDevice

__all__ = ["HipBuffer", "allocate"]


def allocate(device: HipDevice, nbytes: int, stream: base.Stream) -> HipBuffer:
    """Memory from the device's pool in the order of `stream`, or from hipMalloc without a pool.

    Raises:
        OutOfMemoryError: there is none left; the message says what was wanted and what is free.
    """
    if nbytes == 0:
        return HipBuffer(device, 0, 0, None)
    doing = f"allocating {nbytes:,} bytes on {device.info.name} ({device.info.product})"
    with device.current():
        try:
            if device.pooled:
                pointer = call(device.hip, "hipMallocAsync", nbytes, stream.handle, doing=doing)
            else:
                pointer = call(device.hip, "hipMalloc", nbytes, doing=doing)
        except OutOfMemoryError as error:
            query = "asking for the free memory"
            free, total = call(device.hip, "hipMemGetInfo", doing=query)
            raise OutOfMemoryError(f"{error} Free now: {free:,} of {total:,} bytes.") from error
    return HipBuffer(device, int(pointer), nbytes, stream)


class HipBuffer:
    """A piece of device memory. hip-python's own array object frees nothing when it goes.

    Args:
        stream: in whose order the memory is freed; None for memory that somebody else owns.
    """

    def __init__(
        self, device: HipDevice, address: int, nbytes: int, stream: base.Stream | None
    ) -> None:
        self._device = device
        self._address = address
        self._nbytes = nbytes
        self._stream = stream

    @property
    def address(self) -> int:
        return self._address

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def write(self, source: memoryview, stream: base.Stream) -> None:
        kind = self._device.hip.hipMemcpyKind.hipMemcpyHostToDevice
        self._copy(self._address, source, source, kind, stream, "to")

    def read(self, destination: memoryview, stream: base.Stream) -> None:
        if destination.readonly:  # HIP would write into it all the same
            raise ArgumentError(
                f"the host memory to read {self._device.info.name} into is read-only. Give "
                "writable memory, such as a bytearray or a new array."
            )
        kind = self._device.hip.hipMemcpyKind.hipMemcpyDeviceToHost
        self._copy(destination, self._address, destination, kind, stream, "from")

    def _copy(
        self, to: Any, source: Any, host: memoryview, kind: Any, stream: base.Stream, way: str
    ) -> None:
        """hipMemcpyWithStream: in order on the stream, and done when it returns, so the host memory
        is free again. (hipMemcpyAsync promises that for no kind of pageable memory.)
        """
        device = self._device
        if host.nbytes > self._nbytes:
            raise ArgumentError(
                f"cannot copy {host.nbytes:,} bytes {way} a buffer of {self._nbytes:,} bytes on "
                f"{device.info.name}."
            )
        if host.nbytes == 0:
            return
        doing = f"copying {host.nbytes:,} bytes {way} {device.info.name}"
        args = (to, source, host.nbytes, kind, stream.handle)
        with device.current():
            call(device.hip, "hipMemcpyWithStream", *args, doing=doing)

    def close(self) -> None:
        address, self._address = self._address, 0
        stream, self._stream = self._stream, None
        self._nbytes = 0
        if not address or stream is None:
            return
        device, doing = self._device, f"freeing memory of {self._device.info.name}"
        with device.current():
            if device.pooled and not (isinstance(stream, HipStream) and stream.closed):
                call(device.hip, "hipFreeAsync", address, stream.handle, doing=doing)
            else:
                call(device.hip, "hipFree", address, doing=doing)  # waits for the whole device
