"""An executor of processes of this machine, of which one that dies costs what it works on only.

`concurrent.futures.ProcessPoolExecutor` takes no work any more after such a death.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from .._children.child import Child
from .._children.frames import pack

__all__ = ["Processes"]

_CHILD = "xtarget._executors.process"


class Processes(Executor):
    """Processes that call functions from bytes to bytes, of modules of this package.

    A function that raises ends its process; its error is the end of what that has printed. Leaving
    the `with` gives up what is in work.

    Args:
        count: processes at the same time.
    """

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count)
        self._mine = threading.local()
        self._children: list[Child] = []
        self._stopped = threading.Event()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have `function` called with one argument, bytes."""
        (data,) = args
        asked = pack({"module": function.__module__, "function": function.__name__}, [data])
        return self._threads.submit(self._answer, asked)

    def _answer(self, asked: bytes) -> bytes:
        if not hasattr(self._mine, "child"):
            self._mine.child = Child(_CHILD)
            self._children.append(self._mine.child)
        child: Child = self._mine.child
        _, (result,) = child.ask(asked, self._stopped.is_set)
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._stopped.set()
        self._threads.shutdown(wait, cancel_futures=True)
        for child in self._children:
            child.end(kill=True)
