"""Waiting for work of a GPU in small steps, so that Ctrl-C can end the wait, and a GPU that does
not answer is told. HIP's own calls that wait keep Python's signal handlers from running.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ..._values import environment
from ..._values.errors import DeviceLostError
from .status import call, clear

__all__ = ["greet", "until_done"]

_NOT_READY = "hipErrorNotReady"
#: Seconds in which a wait only asks; then it sleeps for a part of the time that it has taken.
_BUSY, _PART, _SHORTEST, _LONGEST = 0.0002, 1 / 32, 0.00002, 0.05
#: After so many seconds a warning says what is waited for, and again after twice the time.
_TOLD = 30.0
#: Seconds in which a GPU has to answer when it is opened, and after how many a warning comes.
_OPENING, _OPENING_TOLD = 60.0, 5.0
_HIP_STREAM_NON_BLOCKING, _HIP_EVENT_DISABLE_TIMING = 1, 2


def until_done(device: Any, query: str, handle: Any, doing: str) -> None:
    """Return when a stream or an event is done, or has failed: HIP's own wait then tells how.

    Args:
        device: the HipDevice.
        query: `hipStreamQuery` or `hipEventQuery`.
        doing: what is waited for, as the beginning of a sentence.

    Raises:
        DeviceLostError: `XTARGET_WAIT_SECONDS` are over.
    """
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


def greet(device: Any) -> None:
    """Have a device that is opened answer once, by an event on a stream that nobody else uses.

    A thread does this, as HIP waits for the device already where it makes the stream or records.

    Raises:
        DeviceLostError: it does not answer.
    """
    doing, failed = f"opening {device.info.name}", deque[BaseException]()

    def ask() -> None:
        hip = device.hip
        try:
            call(hip, "hipSetDevice", device.ordinal, doing=doing)
            stream = call(hip, "hipStreamCreateWithFlags", _HIP_STREAM_NON_BLOCKING, doing=doing)
            event = call(hip, "hipEventCreateWithFlags", _HIP_EVENT_DISABLE_TIMING, doing=doing)
            call(hip, "hipEventRecord", event, stream, doing=doing)
            call(hip, "hipEventSynchronize", event, doing=doing)
            call(hip, "hipEventDestroy", event, doing=doing)
            call(hip, "hipStreamDestroy", stream, doing=doing)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=ask, name="xtarget-greet", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends, or the system has no more threads
        return
    _wait(device, lambda: not thread.is_alive(), doing, _OPENING_TOLD, _OPENING)
    if failed:
        raise failed[0]
