"""Global memory: an address is the same for host and kernels."""

from __future__ import annotations

import ctypes

import numpy as np
import pyopencl as cl

from ..._values.errors import OutOfMemoryError
from .._objects import host_memory as _host_memory
from .._objects.deferred_free import Retired
from .._objects.queues import QueueBuffer
from .._objects.statuses import OUT_OF_MEMORY
from ..base import Stream
from .status import check
from .stream import queue_of

__all__ = ["ALLOCATIONS", "CpuBuffer", "allocate", "pointer"]

_ALIGN = 256
_Byte = ctypes.c_char * 1


class _Allocations:
    """The allocations of the run time in this process.

    An argument of a kernel refers to the allocation that its address lay in when it was set: when
    another one gets the same address, it has to be set again, or the run time reads what is gone.

    Attributes:
        freed: another object after each allocation that was given back.
    """

    __slots__ = ("freed",)

    def __init__(self) -> None:
        self.freed = object()


ALLOCATIONS = _Allocations()


def pointer(address: int) -> cl.SVM:
    """An address as pyopencl takes it for a kernel's argument; a null pointer is 0.

    Nothing keeps it, though making one takes 0.2 µs longer than finding it: the C library puts what
    is kept behind the newest result, so that the memory of this one, once freed, stays apart from
    the rest and is too small for the next (glibc's aligned blocks). 4 MB a call were lost to new
    pages.
    """
    return cl.SVM(_Byte.from_address(address))


def _range(address: int, nbytes: int) -> cl.SVM:
    """A piece of memory as pyopencl takes it for a copy."""
    return cl.SVM((ctypes.c_char * nbytes).from_address(address))


def _address(view: memoryview) -> int:
    """Return the address of a view's bytes. The view may be read-only."""
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])


class CpuBuffer(QueueBuffer):
    """A piece of memory."""

    __slots__ = ()

    def _copy_in(self, address: int, source: memoryview, stream: Stream) -> None:
        self._copy(address, _address(source), source.nbytes, stream)

    def _copy_out(self, address: int, destination: memoryview, stream: Stream) -> None:
        self._copy(_address(destination), address, destination.nbytes, stream)

    def fill(self, pattern: bytes, stream: Stream) -> None:
        queue, address = queue_of(stream, self.where), self.address
        if self.nbytes:
            with check(f"filling {self.nbytes} bytes on {self.where} failed"):
                cl.enqueue_svm_memfill(
                    queue, _range(address, self.nbytes), np.frombuffer(pattern, np.uint8)
                )

    def _copy(self, to: int, source: int, nbytes: int, stream: Stream) -> None:
        queue = queue_of(stream, self.where)
        with check(f"copying {nbytes} bytes on {self.where} failed"):
            cl.enqueue_copy(queue, _range(to, nbytes), _range(source, nbytes), is_blocking=True)


def allocate(
    context: cl.Context, nbytes: int, where: str, retired: Retired, *, host_memory: bool
) -> CpuBuffer:
    """Memory for kernels.

    Args:
        host_memory: the run time's kernels use any memory of the process (`DeviceInfo`), so it
            need not be asked for some.
    """
    if host_memory:
        return _of_host(nbytes, where, retired)
    return _of_run_time(context, nbytes, where, retired)


def _of_host(nbytes: int, where: str, retired: Retired) -> CpuBuffer:
    """The process's memory, which the next call gets again without the system clearing it."""
    try:
        held = [_host_memory.allocate(max(nbytes, 1), _ALIGN)]
    except (MemoryError, OSError, OverflowError, ValueError) as error:
        what = f"allocating {nbytes} bytes on {where} failed"
        raise OUT_OF_MEMORY.error(what, str(error) or "no memory") from error
    address = int(held[0].__array_interface__["data"][0])
    return CpuBuffer(address, nbytes, where, retired, held.clear)


def _of_run_time(context: cl.Context, nbytes: int, where: str, retired: Retired) -> CpuBuffer:
    """Memory of `clSVMAlloc`, aligned by hand: it grants at most 128 bytes."""
    with check(f"allocating {nbytes} bytes on {where} failed", OutOfMemoryError):
        allocation = cl.SVMAllocation(
            context, max(nbytes, 1) + _ALIGN, 0, cl.svm_mem_flags.READ_WRITE
        )
    address = -(-int(allocation.svm_ptr) // _ALIGN) * _ALIGN

    def release() -> None:
        ALLOCATIONS.freed = object()  # before the address can be anybody's again
        allocation.release()

    return CpuBuffer(address, nbytes, where, retired, release)
