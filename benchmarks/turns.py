"""Host time of calls that take turns in one process: pairs see the same load."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

__all__ = ["least_seconds"]


def least_seconds(
    ways: Mapping[str, Callable[[], object]], rounds: int, calls: int, wait: Callable[[], object]
) -> dict[str, float]:
    """Seconds of one call by each way: the least mean of `calls` in any of the rounds.

    Args:
        wait: for the device, after each round.
    """
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, call in ways.items():
            begun = time.perf_counter()
            for _ in range(calls):
                call()
            least[name] = min(least[name], (time.perf_counter() - begun) / calls)
        wait()
    return least
