"""Compiling in child processes because others shall not wait: `run(..., compile="async")`, and the
warm-up, which compiles many kernels at the same time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["SECONDS", "apart", "executor_here", "is_apart", "is_asked"]

#: Of processor time that a compilation in a child may take where nothing else is set.
SECONDS = 3600.0

_here = threading.local()


@contextlib.contextmanager
def apart(executor: Executor | None = None, *, here: bool = False) -> Iterator[None]:
    """Within it, what this thread has to compile is compiled in a child process, and it does not
    wait for another process that compiles the same.

    Args:
        executor: its workers compile, not a child.
        here: this machine is asked by others, and asks no compile server itself.
    """
    before: Any = is_apart(), executor_here(), is_asked()
    _here.apart, _here.executor, _here.asked = True, executor, here
    try:
        yield
    finally:
        _here.apart, _here.executor, _here.asked = before


def executor_here() -> Executor | None:
    """The executor that compiles for this thread."""
    found: Executor | None = getattr(_here, "executor", None)
    return found


def is_asked() -> bool:
    """Whether this thread compiles for others."""
    return getattr(_here, "asked", False)


def is_apart() -> bool:
    return getattr(_here, "apart", False)
