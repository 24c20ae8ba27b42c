"""How often a device is late because it is with another process: what times taken there are worth.

Devices give processes turns of a few milliseconds. A process that never pauses makes every time of
another one longer by the same part, which their spread does not show. What shows it is an event in
a stream that has nothing else to do: it passes when it is recorded, or when the turn comes.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from ..targets.base import Event, Stream

__all__ = ["lateness"]

#: Seconds of events, and between two of them.
_SECONDS: Final = 0.06
_BETWEEN: Final = 1e-4
#: Milliseconds after which an event is late: less than a turn, more than an event ever takes.
_LATE: Final = 0.2


def lateness(stream: Stream) -> float:
    """The part of some events that a device with nothing else of ours to do passes late.

    What keeps the host from recording one in time does not count.
    """
    first = stream.record()
    first.synchronize()
    events: list[Event] = []
    before: list[float] = []
    after: list[float] = []
    end = time.perf_counter() + _SECONDS
    while not events or time.perf_counter() < end:
        before.append(time.perf_counter())
        events.append(stream.record())
        after.append(time.perf_counter())
        time.sleep(_BETWEEN)
    events[-1].synchronize()
    passed = np.array([event.elapsed_ms(first) for event in events])
    for event in (first, *events):
        event.close()
    # none passes before it is recorded, which tells how the two clocks differ
    apart = float((passed - 1e3 * np.array(before)).min())
    return float((passed - 1e3 * np.array(after) - apart > _LATE).mean())
