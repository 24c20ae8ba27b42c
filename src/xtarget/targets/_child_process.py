"""The child's side of `_child`: what a process does that exists to answer its parent."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from pathlib import Path
from typing import BinaryIO

__all__ = [
    "CLOCK_TIMES",
    "end_after",
    "end_with_parent",
    "limit_memory",
    "memory_text",
    "take_standard_output",
]

_STATM = Path("/proc/self/statm")

#: A limit of processor time is this many times as long on the clock: other work may have the
#: processors meanwhile, and a compiler that hangs may use none.
CLOCK_TIMES = 5


def take_standard_output() -> BinaryIO:
    """The pipe to the parent; what libraries print goes to the standard error from now on, and an
    interrupt of the terminal is the parent's to handle.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return answers


def limit_memory(nbytes: int | None) -> None:
    """Let this process map at most `nbytes` more than it has now. A limit that is lower already
    stays.
    """
    import resource

    if nbytes is None:
        return
    try:
        mapped = int(_STATM.read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no Linux: what is mapped counts too
        mapped = 0
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    given = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    with contextlib.suppress(ValueError, OSError):  # macOS refuses any
        resource.setrlimit(resource.RLIMIT_AS, (min([mapped + nbytes, *given]), hard))


def memory_text(nbytes: int | None) -> str:
    """The limit in words, for the message about a child that died."""
    if nbytes is None:
        return "the machine's memory is used up"
    return f"it needs more than {nbytes >> 20} MiB (XTARGET_BUILD_MEMORY)"


def end_with_parent() -> None:
    """Exit as soon as the parent is gone, also in the middle of a library's call."""

    def watch() -> None:
        poll = select.poll()
        poll.register(0, 0)  # asks for nothing but the end of the pipe, which is always told
        poll.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def end_after(seconds: float) -> None:
    """Let the kernel end this process by a signal, whatever holds its threads, after so much
    processor time, or `CLOCK_TIMES` as much on the clock; 0 calls it off.
    """
    for number, timer, limit in (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, CLOCK_TIMES * seconds),
    ):
        if seconds:
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(timer, limit)
