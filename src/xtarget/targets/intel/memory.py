"""Global memory: USM device allocations, and the objects that stand for addresses in dpctl."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import dpctl
import dpctl.memory

from ..._errors import ArgumentError, DriverError, LaunchError, OutOfMemoryError
from .._retire import Retired
from ..base import Stream
from .errors import ERRORS, check
from .stream import queue_of

__all__ = ["Addresses", "IntelBuffer", "allocate"]

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

    def add(self, memory: Any) -> None:
        """Remember an allocation of ours."""
        self.own[memory._pointer] = memory

    def remove(self, address: int) -> None:
        self.own.pop(address, None)

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


class IntelBuffer:
    """A piece of device memory: an allocation of ours, or what somebody else owns."""

    def __init__(
        self,
        memory: Any,
        nbytes: int,
        where: str,
        retired: Retired,
        addresses: Addresses | None = None,
    ) -> None:
        self._memory: Any | None = memory
        self._address = int(memory._pointer)
        self._nbytes = nbytes
        self._where = where
        self._retired = retired
        self._addresses = addresses  # None: borrowed

    def _live(self) -> Any:
        if self._memory is None:
            raise DriverError(f"this buffer of {self._where} is closed. Allocate a new one.")
        return self._memory

    @property
    def address(self) -> int:
        self._live()
        return self._address

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def write(self, source: memoryview, stream: Stream) -> None:
        self._copy(source, stream, to_device=True)

    def read(self, destination: memoryview, stream: Stream) -> None:
        self._copy(destination, stream, to_device=False)

    def _copy(self, host: memoryview, stream: Stream, *, to_device: bool) -> None:
        memory, queue = self._live(), queue_of(stream, self._where)
        if host.nbytes > self._nbytes:
            raise ArgumentError(
                f"{host.nbytes} bytes do not fit a buffer of {self._nbytes} bytes on {self._where}."
            )
        if host.nbytes == 0:
            return
        bytes_ = host.cast("B")
        to, from_ = (memory, bytes_) if to_device else (bytes_, memory)
        with check(f"copying {host.nbytes} bytes on {self._where} failed"):
            queue.memcpy(to, from_, host.nbytes)

    def close(self) -> None:
        memory, self._memory = self._memory, None
        if memory is not None and self._addresses is not None:
            self._addresses.remove(self._address)
            # the release is the end of the last reference
            self._retired.add([memory].clear)

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # the default keeps the function: at exit this module's names may be gone
        memory, addresses = getattr(self, "_memory", None), getattr(self, "_addresses", None)
        if memory is not None and addresses is not None and not _ending():
            addresses.remove(self._address)
            self._retired.dropped(partial(self._retired.add, [memory].clear))


def allocate(
    queue: dpctl.SyclQueue, nbytes: int, where: str, retired: Retired, addresses: Addresses
) -> IntelBuffer:
    """A USM device allocation; dpctl refuses one of no bytes."""
    with check(f"allocating {nbytes} bytes on {where} failed", OutOfMemoryError):
        memory = dpctl.memory.MemoryUSMDevice(max(nbytes, 1), alignment=_ALIGN, queue=queue)
    addresses.add(memory)
    return IntelBuffer(memory, nbytes, where, retired, addresses)
