"""Signals of the user's program: exceptions of its handlers, which may come up anywhere and are
nobody's error, and a handler that libraries with an LLVM in them take away.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from types import CodeType
from typing import Any

from .locks import Lock

__all__ = ["handler_kept", "raised_by_handler"]


def raised_by_handler(error: BaseException) -> BaseException | None:
    """Return the exception of a Python signal handler that caused `error`.

    This is `error` itself, or an exception that `error` wraps. Return None if there is none.
    """
    handlers = set(_handlers())
    found: BaseException | None = error
    seen: set[int] = set()
    while handlers and found is not None and id(found) not in seen:
        seen.add(id(found))
        trace = found.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code in handlers:
                return found
            trace = trace.tb_next
        found = found.__cause__ or found.__context__
    return None


#: More than a `struct sigaction` has in any C library of Linux.
_ROOM = 512
_lock = Lock()
#: How many threads are in `handler_kept`, and what SIGUSR1 did before the first: for C, for Python.
_inside = 0
_before: tuple[bytes, Any] = b"", None


@contextlib.contextmanager
def handler_kept() -> Iterator[None]:
    """Restore the handler of SIGUSR1 afterwards.

    Libraries with an LLVM in them (Triton, OpenCL run times) take a dozen signals for themselves,
    and pass on all of them but this one (llvm/lib/Support/Unix/Signals.inc, InfoSignalHandler).
    Programs have `faulthandler.register` on it, or a batch system's warning. It is set back in C:
    Python's `signal` sets none in a thread, and knows none but its own.
    """
    import ctypes
    import signal

    global _inside, _before
    number = getattr(signal, "SIGUSR1", None)
    action = getattr(ctypes.CDLL(None), "sigaction", None) if number is not None else None
    if number is None or action is None:  # an operating system that has neither
        yield
        return

    def present() -> bytes:
        room = ctypes.create_string_buffer(_ROOM)
        action(int(number), None, room)
        return room.raw

    with _lock:
        if _inside == 0:  # another thread's library may have taken it since
            _before = present(), signal.getsignal(number)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            was, set_by_program = _before
            # what the program has set meanwhile stays
            if present() != was and signal.getsignal(number) is set_by_program:
                action(int(number), was, None)


def _handlers() -> Iterator[CodeType]:
    import signal  # only when something has failed

    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        while isinstance(handler, functools.partial):
            handler = handler.func
        for function in (handler, getattr(type(handler), "__call__", None)):  # noqa: B004
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType):
                yield code
                break
