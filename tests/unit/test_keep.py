"""Objects that launches use are kept until their streams have passed."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from typing import Any

import pytest

from xtarget._launch import lifetimes


class _Event:
    def __init__(self) -> None:
        self.reached = False

    def done(self) -> bool:
        return self.reached


class _Waiting:
    """An event that cannot be asked."""

    waits = 0

    def synchronize(self) -> None:
        _Waiting.waits += 1


class _Stream:
    def __init__(self, kind: Any = _Event) -> None:
        self.kind, self.events = kind, []

    def record(self) -> Any:
        self.events.append(self.kind())
        return self.events[-1]


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue has no objects that earlier tests left with events that are never reached."""
    monkeypatch.setattr(lifetimes, "_kept", deque())


class _Array:
    pass


def _keep_one(stream: Any) -> weakref.ref[_Array]:
    array = _Array()
    lifetimes.keep_until_passed(stream, [array])
    return weakref.ref(array)


def test_until_the_event_has_passed() -> None:
    stream = _Stream()
    first, second = _keep_one(stream), _keep_one(stream)
    gc.collect()
    assert first() is not None
    stream.events[0].reached = True
    third = _keep_one(stream)
    assert (first(), second() is None, third() is None) == (None, False, False)
    for event in stream.events:
        event.reached = True
    last = _keep_one(stream)
    stream.events[-1].reached = True
    _keep_one(_Stream())
    assert (second(), third(), last()) == (None, None, None)


def test_events_that_cannot_be_asked_are_waited_for_when_there_are_many() -> None:
    stream = _Stream(_Waiting)
    kept = [_keep_one(stream) for _ in range(lifetimes._MOST + 10)]
    assert sum(array() is None for array in kept) == _Waiting.waits == 10
