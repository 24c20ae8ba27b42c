"""Global memory: USM device allocations, and the objects that stand for addresses in dpctl."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dpctl
import dpctl.memory

from ..._values.errors import LaunchError, OutOfMemoryError
from .._objects.deferred_free import Retired
from .._objects.queues import QueueBuffer
from ..base import Stream
from .status import ERRORS, check
from .stream import queue_of

__all__ = ["Addresses", "IntelBuffer", "allocate", "shared_bytes"]

_ALIGN = 256


class _Pointer:
    """An address in the form that dpctl reads (`__sycl_usm_array_interface__`, version 1)."""

    def __init__(self, address: int, nbytes: int, queue: dpctl.SyclQueue) -> None:
        self.__sycl_usm_array_interface__ = {
            "data": (address, False),
            "shape": (nbytes,),
            "strides": None,
            "typestr": "|u1",
            "offset": 0,
            "version": 1,
            "syclobj": queue,
        }


class Addresses:
    """From addresses to dpctl's memory objects.

    Attributes:
        null: what a kernel gets for a null pointer; dpctl has no way to pass one.
        own: memory objects of our allocations that are open, by address.
    """

    def __init__(self, queue: dpctl.SyclQueue, where: str) -> None:
        self._queue = queue
        self._where = where
        self.own: dict[int, Any] = {}
        with check(f"allocating on {where} failed", OutOfMemoryError):
            self.null = dpctl.memory.MemoryUSMDevice(_ALIGN, queue=queue)

    def add(self, memory: Any) -> Callable[[], None]:
        """Remember an allocation of ours; what forgets it drops the last reference."""
        address = int(memory._pointer)
        self.own[address] = memory
        return partial(self.own.pop, address, None)

    def find(self, address: int, nbytes: int = 1) -> Any:
        """The object for an address.

        Raises:
            LaunchError: the device's context does not know it; a kernel would fault on it.
        """
        if address == 0:
            return self.null
        known = self.own.get(address)
        if known is not None:
            return known
        try:
            return dpctl.memory.as_usm_memory(_Pointer(address, nbytes, self._queue))
        except ERRORS as error:
            raise LaunchError(
                f"the address {address:#x} is not memory of {self._where}: dpctl knows no USM "
                f"allocation there in the device's context ({type(error).__name__}). Host arrays "
                f"have to be copied to the device first."
            ) from error


class IntelBuffer(QueueBuffer):
    """A piece of device memory, behind one of dpctl's objects."""

    __slots__ = ("_memory",)

    def __init__(
        self,
        memory: Any,
        nbytes: int,
        where: str,
        retired: Retired,
        release: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(int(memory._pointer), nbytes, where, retired, release)
        self._memory = memory

    def _copy_in(self, address: int, source: memoryview, stream: Stream) -> None:
        self._copy(self._memory, source.cast("B"), source.nbytes, stream)

    def _copy_out(self, address: int, destination: memoryview, stream: Stream) -> None:
        self._copy(destination.cast("B"), self._memory, destination.nbytes, stream)

    def _copy(self, to: Any, source: Any, nbytes: int, stream: Stream) -> None:
        queue = queue_of(stream, self.where)
        with check(f"copying {nbytes} bytes on {self.where} failed"):
            queue.memcpy(to, source, nbytes)

    def _taken(self) -> Callable[[], None] | None:
        self._memory = None  # dpctl gives memory back with the last reference
        return super()._taken()


def allocate(
    queue: dpctl.SyclQueue, nbytes: int, where: str, retired: Retired, addresses: Addresses
) -> IntelBuffer:
    """A USM device allocation; dpctl refuses one of no bytes."""
    with check(f"allocating {nbytes} bytes on {where} failed", OutOfMemoryError):
        memory = dpctl.memory.MemoryUSMDevice(max(nbytes, 1), alignment=_ALIGN, queue=queue)
    return IntelBuffer(memory, nbytes, where, retired, addresses.add(memory))


def shared_bytes(
    queue: dpctl.SyclQueue, nbytes: int, where: str, addresses: Addresses
) -> tuple[memoryview, int]:
    """Zeroed USM shared memory, and its address; it lives as long as the device."""
    with check(f"allocating {nbytes} bytes of shared memory on {where} failed", OutOfMemoryError):
        memory = dpctl.memory.MemoryUSMShared(nbytes, queue=queue)
    addresses.add(memory)
    view = memoryview(memory).cast("B")
    view[:] = bytes(nbytes)
    return view, int(memory._pointer)
