"""Pinned host memory of CUDA, and the copies from and to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuda.bindings import driver

from ..._values.errors import OutOfMemoryError
from .._objects.handles import own
from .._objects.pinned import PinnedPool
from .._objects.statuses import CAPTURED
from ..base import Stream
from .status import check
from .stream import CudaStream

if TYPE_CHECKING:
    from .device import CudaDevice

__all__ = ["CudaPinned", "pool_of_pinned", "take_pinned"]


def pool_of_pinned(device: CudaDevice) -> PinnedPool:
    """The pool of a device; one that is opened again has another."""

    def pin(nbytes: int) -> int:
        with device.current():
            flags = driver.CU_MEMHOSTALLOC_PORTABLE
            return int(
                check(driver.cuMemHostAlloc(nbytes, flags), f"pinning memory for {device.where}")
            )

    def unpin(address: int) -> None:
        with device.entered():
            check(driver.cuMemFreeHost(address), f"freeing pinned memory of {device.where}")

    return PinnedPool(pin, unpin)


class CudaPinned:
    """A block of pinned memory.

    Attributes:
        address: of its first byte.
    """

    __slots__ = ("_device", "_pool", "_size", "address")

    def __init__(self, device: CudaDevice, pool: PinnedPool, address: int, size: int) -> None:
        self._device, self._pool, self.address, self._size = device, pool, address, size

    def send(self, address: int, nbytes: int, stream: Stream) -> None:
        where = self._device.where
        handle = own(stream, CudaStream, where).handle
        with self._device.current():
            copied = driver.cuMemcpyHtoDAsync(address, self.address, nbytes, handle)
            check(copied, f"copying {nbytes} bytes to {where}")

    def receive(self, at: int, address: int, nbytes: int, stream: Stream) -> None:
        where = self._device.where
        handle = own(stream, CudaStream, where).handle
        with self._device.current():
            copied = driver.cuMemcpyDtoHAsync(self.address + at, address, nbytes, handle)
            check(copied, f"copying {nbytes} bytes from {where}")

    def close(self) -> None:
        size, self._size = self._size, 0
        if size:
            self._pool.give_back(self.address, size)


def take_pinned(
    device: CudaDevice, pool: PinnedPool, nbytes: int, stream: Stream
) -> CudaPinned | None:
    """A block; None: so much is copied without one, or there is no memory to pin.

    Raises:
        LaunchError: the stream is captured, which a copy cannot be part of.
    """
    if stream is not device.default_stream and own(stream, CudaStream, device.where).capturing():
        doing = f"copying {nbytes} bytes to {device.where}"
        raise CAPTURED.error(f"{doing} failed", "the stream is captured")
    try:
        taken = pool.take(nbytes)
    except OutOfMemoryError:
        return None
    return None if taken is None else CudaPinned(device, pool, *taken)
