"""Times of launches on the device: between two events of their stream, told once they are known."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import Any

from .._devices import registry
from .._system.locks import Lock
from .._values.errors import XTargetError
from ..targets.base import Event, Stream
from ..targets.optional import Capturable, Pollable
from .records import Observer, Record, quietly

__all__ = ["add", "event_of", "mark", "settle_times"]

#: Launches whose device times are looked for at once, and those that may be unknown.
_BATCH, _MOST = 64, 4096
#: Seconds of device time after which the clocks of host and device are matched at a later event:
#: run times count milliseconds in 32-bit floats.
_MATCHED = 10.0

#: Launches, the events around them, and who is told.
_pending: deque[tuple[Record, Event, Event, tuple[Observer, ...]]] = deque()
_times_lock = Lock()
#: By device: an event, and when it was reached, in seconds of `time.perf_counter`.
_matched: dict[str, tuple[Event, float]] = {}
_kept: list[Any] = []


def _in_forked_child() -> None:
    _kept.append((list(_pending), dict(_matched)))  # events of the parent's devices
    _pending.clear()
    _matched.clear()


registry.after_fork.append(_in_forked_child)


def _drop_times(device: str) -> None:
    _matched.pop(device, None)


registry.on_lost.append(_drop_times)


def event_of(stream: Stream) -> Event | None:
    """None where there is none, or it would become part of a graph."""
    with suppress(XTargetError):
        if not (isinstance(stream, Capturable) and stream.capturing()):
            return stream.record()
    return None


def mark(stream: Stream, device: str, *, placed: bool) -> Event | None:
    """An event before a launch; the clocks of its device are matched first, if asked for."""
    event = event_of(stream)
    if placed and event is not None and device not in _matched:
        with suppress(XTargetError):
            event.synchronize()
            _matched[device] = event, time.perf_counter()
            event = stream.record()
    return event


def add(record: Record, before: Event, after: Event, observers: tuple[Observer, ...]) -> None:
    """Keep a launch until its time is known; tell the times of others, once it is worth it."""
    _pending.append((record, before, after, observers))
    if len(_pending) >= _BATCH:
        settle_times(wait=False)


def settle_times(*, wait: bool = True) -> None:
    """Tell the times of launches that have ended.

    Args:
        wait: for all of them.
    """
    with _times_lock, quietly():
        for _ in range(len(_pending)):  # those that others launch meanwhile can wait
            try:
                entry = _pending.popleft()
            except IndexError:
                return
            record, before, after, observers = entry
            try:
                if not (wait or len(_pending) >= _MOST) and not _done(after):
                    _pending.appendleft(entry)
                    return
                after.synchronize()
                record.device_seconds = max(after.elapsed_ms(before), 0.0) * 1e-3
                _place(record, before)
            except XTargetError:
                pass  # a queue without times, a device that was lost: others tell of that
            for observer in observers:
                observer.timed(record)
            for event in (before, after):
                if not any(event is matched for matched, _ in list(_matched.values())):
                    with suppress(XTargetError):
                        event.close()


def _done(event: Event) -> bool:
    return isinstance(event, Pollable) and event.done()


def _place(record: Record, before: Event) -> None:
    """Say when the kernel began in the host's time."""
    matched = _matched.get(record.device)
    if matched is None:
        return
    since = before.elapsed_ms(matched[0]) * 1e-3
    record.device_start = matched[1] + since
    if since > _MATCHED:
        _matched[record.device] = before, record.device_start
        with suppress(XTargetError):
            matched[0].close()
