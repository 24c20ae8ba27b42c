"""Identify this CPU, for machine code that is kept."""

from __future__ import annotations

import os
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

__all__ = ["cpu_identity"]


def cpu_identity(
    switches: tuple[str, ...], without: Collection[str] = (), compilers: str = ""
) -> str:
    """The instruction sets of this machine, and what the environment says of a run time: machine
    code for one CPU may not run on another that the run time calls by the same name.

    Args:
        switches: how names of the run time's environment variables begin.
        without: those of them that do not change machine code.
        compilers: what makes the machine code.
    """
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = ""
    given = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(switches) and name not in without
    ]
    return sha256("\n".join([flags, compilers, *given]).encode()).hexdigest()[:16]
