"""Processes that tests start or cause."""

from __future__ import annotations

import time
from pathlib import Path

__all__ = ["gone"]


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether a process, which need not be our child, ends within the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)  # nothing tells of the end of a process that is not our child
    return False
