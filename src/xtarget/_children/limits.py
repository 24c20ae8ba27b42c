"""Limits of time and memory, for children and for threads.

`Patience` and `deadline` are for the process that waits, the others for the one that works.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .._values.errors import NoDeviceError

__all__ = [
    "CLOCK_TIMES",
    "Patience",
    "deadline",
    "end_after",
    "limit_memory",
    "memory_hint",
    "memory_text",
]

_STATM = Path("/proc/self/statm")

#: A limit of processor time is this many times as long on the clock: other work may have the
#: processors meanwhile, and a compiler that hangs may use none.
CLOCK_TIMES = 5


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


#: Bytes that run times' compilers want for the simplest kernel.
_LITTLE = 256 << 20


def memory_hint(nbytes: int | None, error: BaseException | None = None) -> str:
    """A sentence for the message of a failed build that may have run out of memory; empty if there
    was enough. Compilers rarely report this.

    Args:
        nbytes: the limit that `limit_memory` set.
        error: what the build raised.
    """
    if isinstance(error, NoDeviceError):  # it knows its reason
        return ""
    if nbytes is None:
        return " The machine's memory is used up." if isinstance(error, MemoryError) else ""
    import resource

    used = 0
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        peak = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmPeak:"))
        used = nbytes - (resource.getrlimit(resource.RLIMIT_AS)[0] - peak)
    if isinstance(error, MemoryError) or nbytes < _LITTLE or used > nbytes // 2:
        return (
            f" It may have run out of memory: it had {nbytes >> 20} MiB and no more "
            "(XTARGET_BUILD_MEMORY). Give it more."
        )
    return ""


def memory_text(nbytes: int | None) -> str:
    """The limit in words, for the message about a child that died."""
    if nbytes is None:
        return "the machine's memory is used up"
    return f"it needs more than {nbytes >> 20} MiB (XTARGET_BUILD_MEMORY)"


def end_after(seconds: float) -> None:
    """Let the kernel end this process by a signal after so much processor time, or `CLOCK_TIMES` as
    much on the clock, even if its threads are blocked. 0 cancels this."""
    for number, timer, limit in (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, CLOCK_TIMES * seconds),
    ):
        if seconds:
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(timer, limit)


# ---------------------------------------------------------------------------- time that others take


def deadline(seconds: float) -> Callable[[], bool]:
    """Return a function that says whether so many seconds on the clock are over."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


class _Used(NamedTuple):
    """Seconds for which a process worked, and for which it could have and had no processor."""

    busy: float
    ready: float


#: The most on the clock in any case.
_MOST_TIMES = 40


class Patience:
    """A time limit for a process and the processes that it started, or for one thread.

    The limit is `seconds` of processor time, and also `seconds` in which it neither works nor waits
    for a processor. So load on the machine does not use up the limit.

    Args:
        process: id of the process.
        thread: id of one of its threads; None means all of them.
    """

    def __init__(self, seconds: float, process: int, thread: int | None = None) -> None:
        self.seconds = seconds
        self._place = Path(f"/proc/{process}")
        self._thread = thread
        self._began = time.monotonic()
        #: Nanoseconds without a processor, by thread; those that have ended count on.
        self._ready: dict[str, int] = {}
        self._first = self._used()
        self.busy = 0.0

    def over(self) -> bool:
        """Check whether the time is up."""
        clock = time.monotonic() - self._began
        now = self._used()
        if now is None or self._first is None:
            return clock >= CLOCK_TIMES * self.seconds
        self.busy = max(self.busy, now.busy - self._first.busy)
        idle = clock - self.busy - (now.ready - self._first.ready)
        return (
            self.busy >= self.seconds or idle >= self.seconds or clock >= _MOST_TIMES * self.seconds
        )

    def _used(self) -> _Used | None:
        """None where the system does not tell."""
        try:
            if self._thread is not None:
                place = self._place / "task" / str(self._thread)
                self._wait_of(place)
                busy = _busy(place)
            else:
                busy = self._busy_family(self._place)
        except (OSError, ValueError, IndexError):  # another system, a sandbox, or it ended
            return None
        return _Used(busy, sum(self._ready.values()) / 1e9)

    def _busy_family(self, place: Path) -> float:
        """Processor time of a process and all its descendants, in whatever session they are."""
        busy = _busy(place)
        for task in (place / "task").iterdir():
            try:
                self._wait_of(task)
                children = (task / "children").read_text(encoding="ascii").split()
            except FileNotFoundError:  # the thread has ended, or the system does not tell
                continue
            for child in children:
                with contextlib.suppress(OSError, IndexError):  # it has ended: in its parent's time
                    busy += self._busy_family(Path("/proc") / child)
        return busy

    def _wait_of(self, task: Path) -> None:
        ready = int((task / "schedstat").read_text(encoding="ascii").split()[1])
        self._ready[task.name] = max(ready, self._ready.get(task.name, 0))


def _busy(place: Path) -> float:
    """Seconds for which a process worked, and its children that have ended."""
    fields = (place / "stat").read_text(encoding="ascii", errors="replace")
    times = fields.rpartition(")")[2].split()[11:15]  # user, system, and of its children
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
