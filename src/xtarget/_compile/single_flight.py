"""A thing that several threads want is made by one of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .._system.importing import INTERRUPTED
from .._system.life import in_forked_child
from .._system.locks import Lock
from .._values.errors import CompileError

__all__ = ["single_flight"]

#: A lock for each key that is being made, and how many threads want it.
_locks: dict[object, tuple[Lock, int]] = {}
_guard = Lock()

# threads that make something are the parent's
in_forked_child(_locks.clear)


@contextlib.contextmanager
def single_flight(key: object, name: str) -> Iterator[None]:
    """One thread at a time for each key.

    Raises:
        CompileError: this thread has it already, so that who asks was called from in there.
    """
    with _guard:
        lock, wanted = _locks.get(key) or (Lock(), 0)
        _locks[key] = lock, wanted + 1
    try:
        if lock.mine:
            raise CompileError(
                f"the kernel {name} is needed while this thread is compiling or loading it: "
                f"{INTERRUPTED}"
            )
        with lock:
            yield
    finally:
        with _guard:
            lock, wanted = _locks.pop(key, (lock, 1))
            if wanted > 1:
                _locks[key] = lock, wanted - 1
