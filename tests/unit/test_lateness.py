"""Whether a device that other processes use, too, is told from one that is ours alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from xtarget._launch import lateness

_TURN = 2e-3


class _Clock:
    """Goes on when it is asked, and while somebody sleeps: a busy machine changes nothing."""

    def __init__(self) -> None:
        self._now = 7.0

    def perf_counter(self) -> float:
        self._now += 1e-6
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


class _Event:
    def __init__(self, clock: _Clock, passed: float) -> None:
        self._clock, self._passed = clock, passed

    def synchronize(self) -> None:
        self._clock.sleep(max(0.0, self._passed - self._clock.perf_counter()))

    def elapsed_ms(self, since: _Event) -> float:
        return (self._passed - since._passed) * 1e3

    def close(self) -> None:
        pass


class _Stream:
    """A stream whose device comes to an event at the time that a function makes of now. Each second
    event is recorded late by a host that hesitates."""

    def __init__(self, clock: _Clock, comes: Callable[[float], float], hesitates: float) -> None:
        self._clock, self._comes, self._hesitates = clock, comes, hesitates
        self._count = 0

    def record(self) -> Any:
        self._count += 1
        if self._count % 2:
            self._clock.sleep(self._hesitates)
        return _Event(self._clock, self._comes(self._clock.perf_counter()))


def _at_once(now: float) -> float:
    return now


def _by_turns(now: float) -> float:
    """The others have the device until the turn ends; ours take no time."""
    return math.ceil(now / _TURN) * _TURN


@pytest.mark.parametrize(
    ("comes", "hesitates", "least", "most"),
    [(_at_once, 0.0, 0.0, 0.0), (_by_turns, 0.0, 0.8, 0.95), (_at_once, 1e-3, 0.0, 0.0)],
    ids=["alone", "beside one that never pauses", "a slow host"],
)
def test_events_are_late_beside_others(
    monkeypatch: pytest.MonkeyPatch, comes: Any, hesitates: float, least: float, most: float
) -> None:
    clock = _Clock()
    monkeypatch.setattr(lateness, "time", clock)
    stream: Any = _Stream(clock, comes, hesitates)
    assert least <= lateness.lateness(stream) <= most
