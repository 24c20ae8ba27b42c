"""Waiting for work of a GPU in small steps, so that Ctrl-C can end the wait, and a GPU that does
not answer is told. HIP's own calls that wait keep Python's signal handlers from running.

HIP's finalizers wait for all work, or crash where a thread waits in HIP. So a process whose device
has not answered by its end ends without them.
"""

from __future__ import annotations

import ctypes
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from ..._system.life import at_exit, in_forked_child, skip_finalizers
from ..._values import environment
from ..._values.errors import DeviceLostError
from .library import plain_functions
from .status import check, clear

__all__ = ["apart", "greet", "until_done"]

_NOT_READY = "hipErrorNotReady"
#: Seconds in which a wait only asks; then it sleeps for a part of the time that it has taken.
_BUSY, _PART, _SHORTEST, _LONGEST = 0.0002, 1 / 32, 0.00002, 0.05
#: After so many seconds a warning says what is waited for, and again after twice the time.
_TOLD = 30.0
#: Seconds in which a GPU has to answer when it is opened, and after how many a warning comes.
_OPENING, _OPENING_TOLD = 60.0, 5.0
_HIP_STREAM_NON_BLOCKING, _HIP_EVENT_DISABLE_TIMING = 1, 2
#: What was waited for in vain: each tells whether it is done by now.
_given_up: list[Callable[[], bool]] = []
#: By device, what waits for its first answer, and the sentence that this was given up with.
_unanswered: dict[str, tuple[_Errand, str]] = {}
#: Seconds after an interruption in which a copy may still end.
_PATIENCE = 1.0


def until_done(device: Any, query: str, handle: Any, doing: str) -> None:
    """Return when a stream or an event is done, or has failed: HIP's own wait then tells how.

    Args:
        device: the HipDevice.
        query: `hipStreamQuery` or `hipEventQuery`.
        doing: what is waited for, as the beginning of a sentence.

    Raises:
        DeviceLostError: `XTARGET_WAIT_SECONDS` are over; until it is done, every use of the device
            says so at once.
    """
    device.check_answers()
    if not device.asks or device.captures.on_null_stream():
        return
    hip = device.hip
    ask = getattr(hip, query, None)
    if ask is None:
        return
    seen: list[Any] = []

    def done() -> bool:
        try:
            status = ask(handle)[0]
        except (RuntimeError, ValueError):  # the library lacks it, or a status without a name
            return True
        if status:
            seen.append(status)
            del seen[:-1]
        return not status or status.name != _NOT_READY

    try:
        _wait(device, done, doing, _TOLD, None)
    except DeviceLostError as error:
        device.lose(done, str(error))
        raise
    finally:
        if seen:  # HIP remembers "not ready" as an error too
            clear(hip)


def _wait(
    device: Any, done: Callable[[], bool], doing: str, told: float, limit: float | None
) -> None:
    """Ask until it is done.

    Args:
        told: seconds after which a warning says so.
        limit: seconds, if `XTARGET_WAIT_SECONDS` is not set or is longer.
    """
    try:
        _ask(device, done, doing, told, limit)
    except BaseException:
        _given_up[:] = [earlier for earlier in _given_up if not earlier()] + [done]
        raise


def _at_exit() -> None:
    if not all(done() for done in _given_up):
        skip_finalizers()


at_exit(_at_exit)
in_forked_child(_given_up.clear)  # whose waits they are not


def _ask(
    device: Any, done: Callable[[], bool], doing: str, told: float, limit: float | None
) -> None:
    start = time.monotonic()
    while not done():
        taken = time.monotonic() - start
        if taken < _BUSY:
            continue
        if taken > _LONGEST:
            found = environment.wait_seconds()
            most = min(t for t in (found, limit, math.inf) if t is not None)
            if taken > most:
                raise DeviceLostError(
                    f"{doing} was not done after {taken:.1f} s: {device.info.product} does not "
                    "answer, or a kernel does not end. Look at the kernel driver's log (dmesg) "
                    "and at rocm-smi, and start again; XTARGET_WAIT_SECONDS is the limit."
                )
        if taken > told:
            logging.getLogger("xtarget").warning(
                "%s has taken %.0f s and goes on. Ctrl-C ends the wait; XTARGET_WAIT_SECONDS "
                "limits it.",
                doing,
                taken,
            )
            told = 2 * taken
        time.sleep(min(max(taken * _PART, _SHORTEST), _LONGEST))


def apart(device: Any, work: Callable[[], None], doing: str) -> None:
    """Do work that may wait inside HIP: in another thread, as Python's signal handlers do not run
    meanwhile in this one. Costs 10 to 20 us. (hip-python 6 and 7 keep all threads from running.)

    Raises:
        DeviceLostError: as `until_done`. The work goes on, and what it uses stays.
    """
    if not device.asks:
        work()
        return
    errand = _sent(work)
    try:
        _wait(device, lambda: errand.ended(_LONGEST), doing, _TOLD, None)
    except DeviceLostError as error:
        device.lose(errand.ended, str(error))
        raise
    except BaseException:
        errand.ended(_PATIENCE)  # the caller's memory is in use until then
        raise
    errand.result()


class _Errand:
    """Work for another thread."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work, self._running, self._failed = work, threading.Lock(), deque[BaseException]()
        self._running.acquire()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # for who waits
            self._failed.append(error)

    def end(self) -> None:
        self._running.release()

    def ended(self, seconds: float = 0.0) -> bool:
        """Wait for so long."""
        if not self._running.acquire(timeout=seconds):
            return False
        self._running.release()
        return True

    def result(self) -> None:
        """Raise what the work has raised."""
        if self._failed:
            raise self._failed.pop()


#: Threads that wait for work: what they read it from.
_idle: deque[SimpleQueue[_Errand]] = deque()
in_forked_child(_idle.clear)


def _sent(work: Callable[[], None]) -> _Errand:
    errand = _Errand(work)
    try:
        errands = _idle.pop()
    except IndexError:
        errands = SimpleQueue()
        thread = threading.Thread(target=_run, args=(errands,), name="xtarget-hip", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter ends, or the system has no more threads
            errand.run()
            errand.end()
            return errand
    errands.put(errand)
    return errand


def _run(errands: SimpleQueue[_Errand]) -> None:
    while True:
        errand = errands.get()
        errand.run()
        _idle.append(errands)
        errand.end()
        del errand  # with all that it used


def greet(device: Any) -> None:
    """Have a device that is opened answer once, by an event on a stream that nobody else uses.

    In another thread, as HIP waits for the device already where it makes the stream or records.

    Raises:
        DeviceLostError: it does not answer, or has not answered yet since it was opened before.
    """
    name = device.info.name
    doing = f"opening {name}"
    earlier = _unanswered.get(name)
    if earlier is not None and not earlier[0].ended():
        raise DeviceLostError(f"{name} still does not answer: {earlier[1]}")
    errand = _sent(partial(_greeting, device, doing))
    try:
        _wait(device, lambda: errand.ended(_LONGEST), doing, _OPENING_TOLD, _OPENING)
    except DeviceLostError as error:
        _unanswered[name] = errand, str(error)
        raise
    errand.result()


def _greeting(device: Any, doing: str) -> None:
    """The calls, past the binding: hip-python 6 and 7 keep all threads from running in them."""
    hip, functions = device.hip, plain_functions()
    if functions is None:
        return
    stream, event = ctypes.c_void_p(), ctypes.c_void_p()
    to_stream, to_event = ctypes.byref(stream), ctypes.byref(event)
    for name, *args in (
        ("hipSetDevice", device.ordinal),
        ("hipStreamCreateWithFlags", to_stream, _HIP_STREAM_NON_BLOCKING),
        ("hipEventCreateWithFlags", to_event, _HIP_EVENT_DISABLE_TIMING),
        ("hipEventRecord", event, stream),
        ("hipEventSynchronize", event),
        ("hipEventDestroy", event),
        ("hipStreamDestroy", stream),
    ):
        status = functions[name](*args)
        if status:
            check((hip.hipError_t(status),), hip, f"{doing} ({name})")
