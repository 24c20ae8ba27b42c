"""Threads of tests that do the same work side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["in_threads"]

_T = TypeVar("_T")


def in_threads(work: Callable[[_T], object], arguments: Iterable[_T]) -> None:
    """Call `work` with each of these in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=work, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
