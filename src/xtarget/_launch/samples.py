"""Times of many calls: how they are taken, and the figures that stand for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from .._values.value_classes import value_class
from ..targets.base import Stream

__all__ = [
    "Clock",
    "DeviceClock",
    "HostClock",
    "ProcessorClock",
    "Summary",
    "TorchClock",
    "summarize",
    "take",
]

#: Seconds that one sample takes at least: calls that are shorter are repeated within it.
_SAMPLE_SECONDS, _MOST_CALLS = 1e-3, 1000
_LEAST_SAMPLES, _MOST_SAMPLES = 7, 200
#: Calls of which 7 take longer than these seconds are sampled less often.
_PATIENCE, _FEWEST_SAMPLES = 10.0, 3
_LONGEST_WARM_UP = 0.2
_RESAMPLES = 1000


class Clock(Protocol):
    """A way to take the time of some calls that follow each other."""

    #: For reports: what the clock is.
    name: str

    def time(self, calls: Sequence[Callable[[], Any]]) -> float:
        """Make the calls and wait for them.

        Returns:
            seconds of all.
        """
        ...


class HostClock:
    """The host's clock, around calls and a wait for what they started."""

    _read = staticmethod(time.perf_counter)

    def __init__(self, wait: Callable[[], Any] | None = None) -> None:
        self.name = "host clock" if wait is None else "host clock around synchronize"
        self._wait = wait or (lambda: None)

    def time(self, calls: Sequence[Callable[[], Any]]) -> float:
        self._wait()
        start = self._read()
        for call in calls:
            call()
        self._wait()
        return self._read() - start


class ProcessorClock(HostClock):
    """Processor time of this process, around calls and a wait for them: of one core, what else runs
    on it counts little."""

    _read = staticmethod(time.process_time)

    def __init__(self, wait: Callable[[], Any]) -> None:
        super().__init__(wait)
        self.name = "processor time around synchronize"


class DeviceClock:
    """Events in a stream of one of our devices."""

    name = "device events"

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def time(self, calls: Sequence[Callable[[], Any]]) -> float:
        first = self._stream.record()
        for call in calls:
            call()
        last = self._stream.record()
        last.synchronize()
        seconds = last.elapsed_ms(first) / 1e3
        first.close()
        last.close()
        return seconds


class TorchClock:
    """Events in torch's current stream of a GPU (`torch.cuda` or `torch.xpu`)."""

    name = "device events"

    def __init__(self, module: Any, number: int) -> None:
        self._module, self._number = module, number

    def time(self, calls: Sequence[Callable[[], Any]]) -> float:
        with self._module.device(self._number):
            first, last = (self._module.Event(enable_timing=True) for _ in range(2))
            first.record()
            for call in calls:
                call()
            last.record()
            last.synchronize()
            return float(first.elapsed_time(last)) / 1e3


@value_class(frozen=True, slots=True)
class Summary:
    """Seconds of a call, from samples.

    Attributes:
        median, lower, upper: quartiles.
        low, high: 95 % interval of the median, by bootstrap.
        samples: how many.
        calls: how often the call was made in each.
        first: of the first call, which may compile and load.
    """

    median: float
    lower: float
    upper: float
    low: float
    high: float
    samples: int
    calls: int
    first: float


def take(calls: Sequence[Callable[[], Any]], clock: Clock, seconds: float) -> Summary:
    """Warm up, then sample.

    Args:
        calls: the same call on different inputs; they take turns.
        seconds: how long to sample. Slow calls take longer: there are 7 samples at least, 3 of a
            call of many seconds.
    """
    first = clock.time(calls[:1])
    warm_until = time.perf_counter() + min(seconds, _LONGEST_WARM_UP)
    once, turn = clock.time(calls[-1:]), 0
    while time.perf_counter() < warm_until:
        once = min(once, clock.time([calls[turn % len(calls)]]))
        turn += 1
    count = min(_MOST_CALLS, max(1, round(_SAMPLE_SECONDS / max(once, 1e-9))))
    found: list[float] = []
    end = time.perf_counter() + seconds
    turn = 0
    while len(found) < _LEAST_SAMPLES or (len(found) < _MOST_SAMPLES and time.perf_counter() < end):
        chosen = [calls[(turn + i) % len(calls)] for i in range(count)]
        turn += count
        found.append(clock.time(chosen) / count)
    return summarize(found, calls=count, first=first)


def summarize(found: Sequence[float], *, calls: int = 1, first: float = 0.0) -> Summary:
    """The figures of some samples. Equal samples give equal figures."""
    values = np.asarray(found, np.float64)
    lower, median, upper = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(values, (_RESAMPLES, values.size)), axis=1)
    low, high = (float(q) for q in np.quantile(medians, (0.025, 0.975)))
    return Summary(median, lower, upper, low, high, values.size, calls, first)
