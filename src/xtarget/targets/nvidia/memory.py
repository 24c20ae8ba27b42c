"""Global memory of a CUDA device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver

from ..._types import DeviceInfo
from .._opened import own
from .._stream_order import OrderedBuffer
from ..base import Stream
from ._status import check
from .stream import CudaStream

if TYPE_CHECKING:
    from .device import CudaDevice

__all__ = ["CudaBuffer", "allocate", "new_pool"]

#: Bytes that the pool keeps for the next allocation when all work is done.
_POOL_KEEPS = 256 << 20


class CudaBuffer(OrderedBuffer["CudaDevice"]):
    """A piece of device memory."""

    __slots__ = ()

    def _copy_in(self, address: int, source: memoryview, stream: Stream) -> None:
        copy = partial(driver.cuMemcpyHtoDAsync, address, source, source.nbytes)
        self._copy(copy, f"copying {source.nbytes} bytes to {self.where}", stream)

    def _copy_out(self, address: int, destination: memoryview, stream: Stream) -> None:
        copy = partial(driver.cuMemcpyDtoHAsync, destination, address, destination.nbytes)
        self._copy(copy, f"copying {destination.nbytes} bytes from {self.where}", stream)

    def _copy(self, copy: Callable[[int], Any], what: str, stream: Stream) -> None:
        handle = own(stream, CudaStream, self.where).handle
        with self._device.current():
            check(copy(handle), what)
            # from and to pinned memory the copy is still under way
            check(driver.cuStreamSynchronize(handle), what)


def allocate(device: CudaDevice, pool: Any, nbytes: int, stream: CudaStream) -> CudaBuffer:
    """Memory of the pool, in the order of the stream."""
    what = f"allocating {nbytes} bytes on {device.info.name}"
    handle = stream.handle
    with device.current():
        address = int(check(driver.cuMemAllocFromPoolAsync(nbytes, pool, handle), what))
    return CudaBuffer(device, address, nbytes, partial(_free, device, address, stream))


def _free(device: CudaDevice, address: int, stream: CudaStream) -> None:
    """Also after the stream or the device was closed."""
    what = f"freeing memory of {device.info.name}"
    with device.entered():
        if stream.raw is not None:
            check(driver.cuMemFreeAsync(address, stream.handle), what)
            return
        # work of the closed stream may still use it, and cuMemFree does not wait for such memory
        check(driver.cuCtxSynchronize(), what)
        check(driver.cuMemFree(address), what)


def new_pool(info: DeviceInfo) -> Any:
    """A pool of our own: the device's default one gives freed memory back to the system at every
    synchronization (its threshold is 0), and other libraries use it too."""
    properties = driver.CUmemPoolProps()
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = info.ordinal
    what = f"making a memory pool on {info.name}"
    pool = check(driver.cuMemPoolCreate(properties), what)
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    check(driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(_POOL_KEEPS)), what)
    return pool
