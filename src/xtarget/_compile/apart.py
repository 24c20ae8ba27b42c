"""Compiling in child processes because others shall not wait: `run(..., compile="async")`, and the
warm-up, which compiles many kernels at the same time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["SECONDS", "apart", "is_apart"]

#: Of processor time that a compilation in a child may take where nothing else is set.
SECONDS = 3600.0

_here = threading.local()


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Within it, what this thread has to compile is compiled in a child process, and it does not
    wait for another process that compiles the same."""
    before: Any = is_apart()
    _here.apart = True
    try:
        yield
    finally:
        _here.apart = before


def is_apart() -> bool:
    return getattr(_here, "apart", False)
