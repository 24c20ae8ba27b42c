"""Where `triton.compile` writes its stages: a folder of one compilation, read once and deleted.

Triton's own cache makes, renames within and removes a folder for each of the eight files, so that
other processes never see half of one: 16 changes to a file system's tree that take 5 ms each on a
busy disk. Nobody else looks into this folder, and it is in memory where that can be.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["folder", "manager", "no_key"]

#: Linux's file system in memory.
_MEMORY = "/dev/shm"
#: Free bytes that are enough for the stages of a large kernel; a container may have as little as 64
#: MiB in all.
_ENOUGH = 32 << 20


def folder() -> tempfile.TemporaryDirectory[str]:
    """A new one, which its context deletes."""
    return tempfile.TemporaryDirectory(prefix="xtarget-", dir=_memory())


def _memory() -> str | None:
    """A folder in memory, None where there is none, or too little of it."""
    try:
        state = os.statvfs(_MEMORY)
    except (OSError, AttributeError):  # no such folder; not a Unix
        return None
    roomy = state.f_bavail * state.f_frsize >= _ENOUGH
    return _MEMORY if roomy and os.access(_MEMORY, os.W_OK | os.X_OK) else None


@cache
def manager() -> Any:
    """Triton's cache manager with plain writes; the user's own dumps stay Triton's."""
    from triton.runtime.cache import FileCacheManager

    class PlainWrites(FileCacheManager):  # type: ignore[misc]
        def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
            super().__init__(key, override=override, dump=dump)
            self._shared = override or dump

        def put(self, data: Any, filename: str, binary: bool = True) -> str:
            if self._shared:
                return str(super().put(data, filename, binary))
            path = Path(self._make_path(filename))
            path.write_bytes(data if isinstance(data, bytes) else str(data).encode())
            return str(path)

    return PlainWrites


_here = threading.local()


@contextmanager
def no_key() -> Iterator[None]:
    """Within it, `triton.compile` in this thread takes no key of its compilation: nothing is looked
    up by it in a new folder, and for the first one of a process Triton reads and hashes all of
    itself, libtriton too, in 0.3 s.
    """
    _let_keys_be_left_out()
    _here.without = True
    try:
        yield
    finally:
        _here.without = False


@cache
def _let_keys_be_left_out() -> None:
    from triton.compiler import compiler

    of_triton = getattr(compiler, "get_cache_key", None)
    if of_triton is None:  # a Triton that calls it otherwise: only the time is lost
        return

    def get_cache_key(*args: Any, **options: Any) -> str:
        if getattr(_here, "without", False):
            return "xtarget"
        return str(of_triton(*args, **options))

    compiler.get_cache_key = get_cache_key
