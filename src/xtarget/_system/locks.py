"""Locks for objects that all threads of a process share.

Python runs signal handlers, and the collector runs `__del__`, between any two steps of a thread,
also while it holds a lock. So the thread that holds one of these may take it again. In the child of
a fork they are free, unless the thread that forked holds them: no other thread is there.
Python's own locks of modules, at a fork and in handlers: `_system.importing`.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from .life import in_forked_child

__all__ = ["Lock"]

#: C code: a signal cannot come between taking and holding it.
_ReentrantLock: Any = type(threading.RLock())
_all: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock(_ReentrantLock):  # type: ignore[misc]  # the type has no public name
    """A lock of which its holder may take more."""

    def __init__(self) -> None:
        super().__init__()
        _all.add(self)

    __hash__ = object.__hash__

    @property
    def mine(self) -> bool:
        """True if this thread holds the lock; its caller is a signal handler or a finalizer."""
        return bool(self._is_owned())

    def renew(self) -> None:
        """Free it in a forked child, whose other threads are gone."""
        if not self.mine:
            self._at_fork_reinit()


def _in_forked_child() -> None:
    for lock in list(_all):
        lock.renew()


in_forked_child(_in_forked_child)
