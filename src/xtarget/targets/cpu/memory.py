"""Global memory: shared virtual memory, so that an address is the same for host and kernels."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pyopencl as cl

from ..._errors import ArgumentError, DriverError, OutOfMemoryError
from .._retire import Retired
from ..base import Stream
from .errors import check
from .stream import queue_of

__all__ = ["CpuBuffer", "allocate", "pointer"]

_ALIGN = 256
_Byte = ctypes.c_char * 1


def pointer(address: int) -> cl.SVM:
    """An address as pyopencl takes it for a kernel's argument; a null pointer is 0."""
    return cl.SVM(_Byte.from_address(address))


def _range(address: int, nbytes: int) -> cl.SVM:
    """A piece of memory as pyopencl takes it for a copy."""
    return cl.SVM((ctypes.c_char * nbytes).from_address(address))


def _address(view: memoryview) -> int:
    """Where a view's bytes lie, also of a read-only one."""
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])


class CpuBuffer:
    """A piece of memory: an allocation of ours, or what somebody else owns."""

    def __init__(
        self,
        address: int,
        nbytes: int,
        where: str,
        retired: Retired,
        allocation: cl.SVMAllocation | None = None,
    ) -> None:
        self._address: int | None = address
        self._nbytes = nbytes
        self._where = where
        self._retired = retired
        self._allocation = allocation

    @property
    def address(self) -> int:
        if self._address is None:
            raise DriverError(f"this buffer of {self._where} is closed. Allocate a new one.")
        return self._address

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def write(self, source: memoryview, stream: Stream) -> None:
        self._copy(source, stream, to_device=True)

    def read(self, destination: memoryview, stream: Stream) -> None:
        self._copy(destination, stream, to_device=False)

    def _copy(self, host: memoryview, stream: Stream, *, to_device: bool) -> None:
        here, queue = self.address, queue_of(stream, self._where)
        if host.nbytes > self._nbytes:
            raise ArgumentError(
                f"{host.nbytes} bytes do not fit a buffer of {self._nbytes} bytes on {self._where}."
            )
        if host.nbytes == 0:
            return
        there = _address(host)
        to, from_ = (here, there) if to_device else (there, here)
        with check(f"copying {host.nbytes} bytes on {self._where} failed"):
            cl.enqueue_copy(
                queue, _range(to, host.nbytes), _range(from_, host.nbytes), is_blocking=True
            )

    def close(self) -> None:
        self._address = None
        allocation, self._allocation = self._allocation, None
        if allocation is not None:
            self._retired.add(allocation.release)

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # the default keeps the function: at exit this module's names may be gone
        allocation = getattr(self, "_allocation", None)
        if allocation is not None and not _ending():
            self._retired.dropped(partial(self._retired.add, allocation.release))


def allocate(context: cl.Context, nbytes: int, where: str, retired: Retired) -> CpuBuffer:
    """Memory of `clSVMAlloc`, aligned by hand: it grants at most 128 bytes."""
    with check(f"allocating {nbytes} bytes on {where} failed", OutOfMemoryError):
        allocation = cl.SVMAllocation(
            context, max(nbytes, 1) + _ALIGN, 0, cl.svm_mem_flags.READ_WRITE
        )
    address = -(-int(allocation.svm_ptr) // _ALIGN) * _ALIGN
    return CpuBuffer(address, nbytes, where, retired, allocation)
