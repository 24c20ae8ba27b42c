"""The run time's threads, free to run on every CPU that the process may use.

Intel's CPU run time (2026.2) binds its n-th worker to the n-th CPU, and the caller's own thread,
which works as well, to none. Where the caller happens to run on a worker's CPU, the two take turns
on it while another CPU is idle: 16 M floats were added in 18.8 ms instead of 4.9.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["Workers"]

#: The user's own word on where the run time's threads run.
_CHOSEN_BY = ("SYCL_CPU_CU_AFFINITY", "DPCPP_CPU_CU_AFFINITY")
_TASKS = Path("/proc/self/task")
#: Workers start with the work: how often the host has waited for some until all are known.
_LOOKS = 8


class Workers:
    """Made before the run time is asked for a context; `look` finds the threads that came since."""

    def __init__(self) -> None:
        self._looks_left = 0
        if hasattr(os, "sched_setaffinity") and not any(os.environ.get(v) for v in _CHOSEN_BY):
            self._looks_left = _LOOKS
            self._allowed = os.sched_getaffinity(0)
            self._others = self._threads()

    @staticmethod
    def _threads() -> set[int]:
        try:
            return {int(entry.name) for entry in _TASKS.iterdir()}
        except OSError:  # a sandbox without /proc
            return set()

    def look(self) -> None:
        """Free those that are bound to one CPU; after some calls, nothing."""
        if not self._looks_left:
            return
        self._looks_left -= 1
        for thread in self._threads() - self._others:
            try:
                if len(os.sched_getaffinity(thread)) == 1 < len(self._allowed):
                    os.sched_setaffinity(thread, self._allowed)
            except OSError:  # it has ended, or a sandbox forbids it: slower, not wrong
                self._others.add(thread)
