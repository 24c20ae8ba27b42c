"""Processes that tests start or cause."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["gone", "run_in_checkout", "run_python"]

ROOT = Path(__file__).resolve().parents[1]


def run_python(
    *words: str | Path,
    path: str | Path | None = None,
    seconds: float = 120,
    check: bool = False,
    cwd: Path | None = None,
    **environment: str | None,
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in a process of its own.

    Args:
        path: its `PYTHONPATH`; by default it finds the modules that this process finds.
        environment: set on top of ours; None takes a variable away.
    """
    found = os.pathsep.join(p for p in sys.path if p) if path is None else str(path)
    variables = {**os.environ, "PYTHONPATH": found, **environment}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=check,
        cwd=cwd,
        env={name: value for name, value in variables.items() if value is not None},
    )


def run_in_checkout(
    *words: str, cwd: Path = ROOT, seconds: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in the checkout's folder (or `cwd`); Python finds the package in its `src`."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        words,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


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
