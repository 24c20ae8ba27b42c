"""The end of a process."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import ctypes, sys
from xtarget._system.life import at_exit, skip_finalizers

libc = ctypes.CDLL(None)
libc.strdup.restype = ctypes.c_void_p
text = libc.strdup(b"a finalizer of C")  # which outlives Python
libc.__cxa_atexit(libc.puts, ctypes.c_void_p(text), None)
libc.puts(b"written by C")
at_exit(print, "an action of Python")
if sys.argv[1] == "skip":
    at_exit(skip_finalizers)
sys.exit(3)
"""


def _run(how: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=False
    )
    return done.returncode, sorted(done.stdout.splitlines())


def test_finalizers_of_libraries_are_skipped() -> None:
    """And nothing else: Python's own actions run, output is written, the exit code stays."""
    assert _run("all") == (3, ["a finalizer of C", "an action of Python", "written by C"])
    assert _run("skip") == (3, ["an action of Python", "written by C"])
