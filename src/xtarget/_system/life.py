"""Actions at a fork of this process, and at its end.

Python keeps both lists, and calls each action even if another one raises. In a forked child the
actions run in the order in which they were given. At exit, and before a fork, the last one is
first.

A forked child has its parent's objects, but not its threads, devices and child processes. An action
in it must not wait for a lock: the holder may be a thread of the parent.

`import xtarget` imports this module first, so this module imports next to nothing.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

__all__ = ["around_fork", "at_exit", "in_forked_child", "process_start", "skip_finalizers"]

#: False on systems without processes of that kind.
_FORKS = hasattr(os, "register_at_fork")


@cache
def process_start() -> float | None:
    """Return when this process began, in seconds since the epoch; None where that is unknown. Of a
    forked child, whose modules its parent may have imported, it is when its parent began.
    """
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return time.time() - age


if _FORKS:
    os.register_at_fork(before=process_start)


def in_forked_child(action: Callable[[], object]) -> None:
    """Call `action` in each forked child, before the program goes on there."""
    if _FORKS:
        os.register_at_fork(after_in_child=action)


def around_fork(before: Callable[[], object], after: Callable[[], object]) -> None:
    """Call `before` before each fork, and `after` after it, in the parent and in the child."""
    if _FORKS:
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)


def at_exit(action: Callable[..., object], *args: Any) -> None:
    """Call `action` when the program ends; not if the process is killed."""
    atexit.register(action, *args)


def skip_finalizers() -> None:
    """Have this process end right after Python has ended, without the finalizers of the C libraries
    that are loaded by now: one of them would not return. The exit status stays, and what C's files
    hold is written. For an action at exit; glibc only, elsewhere the finalizers run.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    with suppress(AttributeError):
        # the last one that is given runs first; the other gets the status
        libc.on_exit(libc._exit, None)
        libc.__cxa_atexit(libc.fflush, None, None)
