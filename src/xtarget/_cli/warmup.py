"""`xtarget warmup`: compile what a program has recorded that it uses."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from .._compile.bars import progress_bar
from .._executors.opening import opened
from .._launch.warmup import warm
from .._values.errors import CompileError
from .base import compiling, echo
from .tables import echo_wrapped

__all__ = ["warm_up"]


def warm_up(path: str, jobs: int | None, executor: str, *, as_json: bool) -> None:
    """Compile, and say what was done.

    Raises:
        ArgumentError: the file is not a profile.
        CompileError: for all that could not be made ready.
    """
    bar = progress_bar("warmup", "binaries", "what there is to compile")
    with compiling(), opened(executor) as elsewhere, bar as show:
        done = warm(Path(path), jobs or len(os.sched_getaffinity(0)), show, elsewhere)
    if as_json:
        echo(json.dumps(asdict(done), indent=2))
    else:
        there = done.binaries - done.compiled - len(done.errors)
        echo_wrapped(
            f"{done.classes} classes of calls, {done.binaries} binaries: {done.compiled} compiled, "
            f"{max(there, 0)} were there. {done.loaded} can be loaded on the devices here."
        )
    if done.errors:
        raise CompileError("\n".join(done.errors))
