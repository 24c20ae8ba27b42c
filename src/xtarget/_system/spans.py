"""The slow steps of a call (bind, compile, load), told to who listens. Nobody does, as a rule."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

from .._values.value_classes import value_class
from .locks import Lock

__all__ = ["Span", "end", "listen", "span", "tell"]


@value_class(frozen=True, slots=True)
class Span:
    """A step that has ended.

    Attributes:
        step: `bind`, `compile`, `load`, or a stage of a compilation.
        name: of the kernel.
        start: in seconds of `time.perf_counter`.
        seconds: how long it took.
        thread: the id of its thread, as `threading.get_native_id` gives it.
        details: what else is known: the target, the device.
    """

    step: str
    name: str
    start: float
    seconds: float
    thread: int
    details: Mapping[str, Any]


_Listener = Callable[[Span], None]
#: Who is told; replaced as a whole.
_listeners: tuple[_Listener, ...] = ()
_lock = Lock()
#: A step that nobody is told of.
_UNTOLD: Final = nullcontext()


def listen(listener: _Listener) -> None:
    """Tell a function of each step. It does not raise."""
    global _listeners
    with _lock:
        _listeners = (*_listeners, listener)


def end(listener: _Listener) -> None:
    """Tell it no more."""
    global _listeners
    with _lock:
        _listeners = tuple(one for one in _listeners if one != listener)


def span(step: str, name: str, **details: Any) -> AbstractContextManager[None]:
    """A step; it is told when it ends, also by an exception."""
    return _told(step, name, details) if _listeners else _UNTOLD


@contextmanager
def _told(step: str, name: str, details: dict[str, Any]) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    except BaseException as error:
        details["error"] = f"{type(error).__name__}: {error}"[:500]
        raise
    finally:
        tell(step, name, start, time.perf_counter() - start, **details)


def tell(step: str, name: str, start: float, seconds: float, **details: Any) -> None:
    """Tell of a step that the caller has timed."""
    if _listeners:
        told = Span(step, name, start, seconds, threading.get_native_id(), details)
        for listener in _listeners:
            listener(told)
