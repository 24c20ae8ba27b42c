"""Whether a device that other processes use, too, is told from one that is ours alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from xtarget._launch.lateness import lateness

_TURN = 2e-3


class _Event:
    def __init__(self, passed: float) -> None:
        self._passed = passed

    def synchronize(self) -> None:
        time.sleep(max(0.0, self._passed - time.perf_counter()))

    def elapsed_ms(self, since: _Event) -> float:
        return (self._passed - since._passed) * 1e3

    def close(self) -> None:
        pass


class _Stream:
    """A stream whose device comes to an event at the time that a function makes of now."""

    def __init__(self, comes: Callable[[float], float], hesitates: float = 0.0) -> None:
        self._comes, self._hesitates, self._count = comes, hesitates, 0

    def record(self) -> Any:
        self._count += 1
        if self._hesitates and self._count % 2:
            time.sleep(self._hesitates)
        return _Event(self._comes(time.perf_counter()))


def _by_turns(now: float) -> float:
    """The others have the device until the turn ends; ours take no time."""
    return math.ceil(now / _TURN) * _TURN


@pytest.mark.parametrize(
    ("stream", "least", "most"),
    [
        (_Stream(lambda now: now), 0.0, 0.02),
        (_Stream(_by_turns), 0.5, 1.0),
        (_Stream(lambda now: now, hesitates=1e-3), 0.0, 0.02),
    ],
    ids=["alone", "beside one that never pauses", "a slow host"],
)
def test_events_are_late_beside_others(stream: Any, least: float, most: float) -> None:
    assert least <= lateness(stream) <= most
