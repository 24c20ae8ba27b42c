"""Global memory of a CUDA device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver

from ..._values.types import DeviceInfo
from .._objects.handles import own
from .._objects.stream_order import OrderedBuffer
from ..base import Stream
from .status import check
from .stream import CudaStream

if TYPE_CHECKING:
    from .device import CudaDevice

__all__ = ["CudaBuffer", "allocate", "kept_bytes", "pool_of", "trim"]

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

    def fill(self, pattern: bytes, stream: Stream) -> None:
        what = f"filling {self.nbytes} bytes of {self.where}"
        handle, address = own(stream, CudaStream, self.where).handle, self.address
        count = self.nbytes // len(pattern)
        if not count:
            return
        words = [int.from_bytes(pattern[at : at + 4], "little") for at in range(0, len(pattern), 4)]
        with self._device.current():
            if len(pattern) == 1:
                check(driver.cuMemsetD8Async(address, words[0], count, handle), what)
            elif len(pattern) == 2:
                check(driver.cuMemsetD16Async(address, words[0], count, handle), what)
            elif len(set(words)) == 1:
                count *= len(words)
                check(driver.cuMemsetD32Async(address, words[0], count, handle), what)
            else:  # each word in a column of its own
                for at, word in enumerate(words):
                    column = (address + 4 * at, 4 * len(words), word, 1, count, handle)
                    check(driver.cuMemsetD2D32Async(*column), what)

    def _copy(self, copy: Callable[[int], Any], what: str, stream: Stream) -> None:
        handle = own(stream, CudaStream, self.where).handle
        with self._device.current():
            try:
                check(copy(handle), what)
                # from and to pinned memory the copy is still under way
                check(driver.cuStreamSynchronize(handle), what)
            except BaseException:
                driver.cuStreamSynchronize(handle)  # a signal's, between the two
                raise


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


#: Pools by the device's ordinal, for as long as the process lives.
_pools: dict[int, Any] = {}


def pool_of(info: DeviceInfo) -> Any:
    """The device's pool of our own: its default one gives freed memory back to the system at every
    synchronization (its threshold is 0), and other libraries use it too.

    A device that is opened again gets the same pool. Destroying a pool whose memory is freed later
    ends the process at a later cuStreamSynchronize (driver 580.159), although cuMemPoolDestroy
    allows it.
    """
    pool = _pools.get(info.ordinal)
    if pool is None:
        pool = _pools[info.ordinal] = _new_pool(info)
    return pool


def _new_pool(info: DeviceInfo) -> Any:
    properties = driver.CUmemPoolProps()
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = info.ordinal
    what = f"making a memory pool on {info.name}"
    pool = check(driver.cuMemPoolCreate(properties), what)
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    check(driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(_POOL_KEEPS)), what)
    return pool


def kept_bytes(pool: Any, info: DeviceInfo) -> int:
    """Bytes that the pool keeps and nobody uses."""
    what = f"asking the memory pool of {info.name} what it has"
    attribute = driver.CUmemPool_attribute
    reserved, used = (
        int(check(driver.cuMemPoolGetAttribute(pool, one), what))
        for one in (
            attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
            attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
        )
    )
    return reserved - used


def trim(pool: Any, info: DeviceInfo) -> None:
    """Give the memory back that the pool keeps and nobody uses."""
    check(driver.cuMemPoolTrimTo(pool, 0), f"trimming the memory pool of {info.name}")
