"""Report slow steps in a line on the terminal of the command line."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["progress", "show"]

#: Seconds before the first line, and between two.
_FIRST, _NEXT = 2.0, 10.0
_shown = False


def show() -> None:
    """From now on, show progress if standard error is a terminal. A library prints nothing unless
    asked."""
    global _shown
    _shown = sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Report on the terminal that a step is under way, once it has taken a while."""
    if not _shown:
        yield
        return
    done = threading.Event()
    began = time.monotonic()

    def say() -> None:
        pause = _FIRST
        while not done.wait(pause):
            print(f"{doing}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            pause = _NEXT

    threading.Thread(target=say, daemon=True).start()
    try:
        yield
    finally:
        done.set()
