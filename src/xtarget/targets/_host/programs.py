"""Run a compiler of another maker as a process, with a limit of time."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..._children.limits import Patience
from ..._values.environment import jit_seconds
from ..._values.errors import CompileError

__all__ = ["run"]

_LOG_BYTES = 4000


def run(command: Sequence[str], folder: Path, what: str, advice: str) -> tuple[int, str]:
    """The status of a program that runs in a folder, and the end of what it prints.

    Args:
        what: is compiled, for messages.
        advice: a sentence for one that takes too long, before that of more time.

    Raises:
        CompileError: it cannot be started, or takes longer than `XTARGET_JIT_SECONDS`.
    """
    seconds = jit_seconds()
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        raise CompileError(f"{what}: {command[0]} cannot be started ({error}).") from error
    with process:
        said = _output(process, seconds)
    if said is None:
        name = Path(command[0]).name
        raise CompileError(
            f"{what}: {name} did not finish within {seconds:g} s of processor time. {advice}, or "
            "give it more time with XTARGET_JIT_SECONDS."
        )
    return process.returncode, said[-_LOG_BYTES:].decode(errors="replace").strip()


def _output(process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
    """Return what the process prints until it ends. Kill it after `seconds` and return None."""
    patience = Patience(seconds, process.pid)
    try:
        while not patience.over():
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=0.1)[0]
        return None
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
