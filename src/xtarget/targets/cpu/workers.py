"""Choose the CPUs on which the run time's threads run.

Intel's CPU run time (2026.2) has one worker less than there are CPUs; the caller's own thread works
as well while it waits. On machines where it binds its n-th worker to the n-th CPU, the caller may
run on a worker's, and the two take turns on it while another CPU is idle: 16 M floats were added in
18.8 ms instead of 4.9. So workers may run on every CPU.

Other libraries' threads keep CPUs busy without working: OpenBLAS's wait in a loop for about 0.1 s
after each product. On a machine of few CPUs a free worker then ends up on the caller's: on two,
after NumPy's product ours of 1024^3 took 18 ms, and 12.4 with the worker kept away from the caller,
which is what is left of two CPUs when half of one is lost (8.5 ms without the loop). So workers
make way for the caller.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path

from ..._system.locks import Lock

__all__ = ["Workers"]

#: The user's own word on where the run time's threads run.
_CHOSEN_BY = ("SYCL_CPU_CU_AFFINITY", "DPCPP_CPU_CU_AFFINITY")
_TASKS = Path("/proc/self/task")
#: Workers start with the work: how often the host has waited for some until all are known.
_LOOKS = 8
#: On more CPUs than these one worker's share is small, and the scheduler finds it another CPU.
_FEW_CPUS = 8


def _current_cpu() -> Callable[[], int] | None:
    """Return a function that returns the CPU of the calling thread; None if libc has none."""
    with contextlib.suppress(AttributeError, OSError):
        return ctypes.CDLL(None).sched_getcpu
    return None


class Workers:
    """Made before the run time is asked for a context; `look` once it has one.

    Whose a thread is, nobody says. Taken for a worker is one that came while the context was made
    or while the host first waited for work, and one bound to a single CPU that came a little later;
    never one that Python knows of.
    """

    def __init__(self) -> None:
        self._looks_left = 0
        self._workers: frozenset[int] = frozenset()
        self._avoided: int | None = None
        self._cpu: Callable[[], int] | None = None
        self._lock = Lock()
        if hasattr(os, "sched_setaffinity") and not any(os.environ.get(v) for v in _CHOSEN_BY):
            self._allowed = os.sched_getaffinity(0)
            if len(self._allowed) > 1:
                self._looks_left = _LOOKS
                self._others = self._threads()
                self._before: set[int] | None = self._others
            if 1 < len(self._allowed) <= _FEW_CPUS:
                self._cpu = _current_cpu()

    @staticmethod
    def _threads() -> set[int]:
        try:
            return {int(entry.name) for entry in _TASKS.iterdir()}
        except OSError:  # a sandbox without /proc
            return set()

    def look(self) -> None:
        """The run time has done something: find its threads, and let them run on every CPU. After
        some calls, nothing.
        """
        if self._looks_left > 0:
            with self._lock:
                if self._looks_left > 0:
                    self._looks_left -= 1
                    self._find()

    def _find(self) -> None:
        pythons = {thread.native_id for thread in threading.enumerate()}
        self._others = self._others | (self._threads() & pythons)
        self._workers -= pythons  # one that was just starting
        for thread in self._threads() - self._others - self._workers:
            try:
                if len(os.sched_getaffinity(thread)) == 1:
                    os.sched_setaffinity(thread, self._allowed)
                elif self._before is None or thread in self._before:
                    continue
            except OSError:  # it has ended, or a sandbox forbids it: slower, not wrong
                self._others = self._others | {thread}
            else:
                self._workers = self._workers | {thread}
                self._avoided = None
        self._before = None

    def make_way(self) -> None:
        """The calling thread is about to wait, and to work meanwhile: keep workers off its CPU."""
        if self._looks_left == _LOOKS - 1:  # the first wait
            with self._lock:
                self._before = self._threads()
        if not self._workers or self._cpu is None:
            return
        here = self._cpu()
        if here != self._avoided:
            with self._lock:
                self._avoid(here)

    def _avoid(self, here: int) -> None:
        self._workers &= self._threads()  # a forked child has none of them
        for thread in self._workers:
            # it has ended, or a sandbox forbids it: slower, not wrong
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, self._allowed - {here})
        self._avoided = here
