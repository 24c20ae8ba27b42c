"""Memory of the host: NumPy results, and the memory that a CPU's kernels need for themselves.

The system clears each page of fresh memory when it is first written, which takes longer than adding
two arrays of that size. So a large block whose last array died is kept, up to a limit, for the next
of about its size. The system is told that it may take kept blocks when memory runs short.

A block comes back in `__del__`, which may run in any thread at any moment, also within a call of
this module. So there is no lock here: every step is one operation on a deque.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..._values import environment

__all__ = ["SMALLEST", "allocate", "give_back", "kept_bytes"]

#: Bytes from which keeping a block pays; below that, the C library keeps freed memory.
SMALLEST: Final = 1 << 22
_HUGE_PAGE: Final = 1 << 21

#: Blocks that no array uses, longest unused first.
_kept: deque[mmap.mmap] = deque()
_most_bytes = 0


def _keep(memory: mmap.mmap) -> None:
    _advise(memory, "MADV_FREE")
    _kept.append(memory)
    _trim(_most_bytes)


def _trim(most: int) -> None:
    while kept_bytes() > most:
        try:
            _kept.popleft()
        except IndexError:
            return  # another thread was faster


def kept_bytes() -> int:
    """Bytes of blocks that no array uses."""
    return sum(map(len, list(_kept)))


def give_back() -> None:
    """Give the system all blocks that no array uses."""
    _trim(0)


def _advise(memory: mmap.mmap, name: str) -> None:
    # a system without it: slower, or kept until the limit
    with contextlib.suppress(AttributeError, OSError):
        memory.madvise(getattr(mmap, name))


class _Block:
    """The object that the arrays on a block keep alive."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: mmap.mmap, nbytes: int) -> None:
        self._memory = memory
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (nbytes,),
            "data": (ctypes.addressof(ctypes.c_char.from_buffer(memory)), False),
        }

    def __del__(self, keep: Callable[[mmap.mmap], None] = _keep) -> None:
        keep(self._memory)


def allocate(nbytes: int, alignment: int) -> np.ndarray[Any, Any]:
    """Uninitialised bytes.

    Args:
        alignment: of their address, in bytes; at most a page.

    Raises:
        MemoryError, OSError, OverflowError, ValueError: there is no memory.
        XTargetError: `XTARGET_HOST_MEMORY` is not a size.
    """
    if nbytes >= SMALLEST:
        return _block(nbytes)
    raw = np.empty(nbytes + alignment, np.uint8)
    start = -raw.__array_interface__["data"][0] % alignment
    return raw[start : start + nbytes]


def _block(nbytes: int) -> np.ndarray[Any, Any]:
    """Bytes on a page's boundary, on a block that is kept when they are gone."""
    global _most_bytes
    _most_bytes = environment.host_memory()
    size = -(-nbytes // _HUGE_PAGE) * _HUGE_PAGE
    memory = _unused(size)
    if memory is None:
        try:
            memory = _fresh(size)
        except OSError:
            _trim(0)
            memory = _fresh(size)
    return np.asarray(_Block(memory, nbytes))


def _unused(size: int) -> mmap.mmap | None:
    """A kept block of this size or a little more, the one that was used last."""
    for memory in reversed(list(_kept)):
        if size <= len(memory) <= size + size // 8:
            try:
                _kept.remove(memory)
            except ValueError:
                continue  # another thread was faster
            return memory
    return None


def _fresh(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _advise(memory, "MADV_HUGEPAGE")
    return memory
