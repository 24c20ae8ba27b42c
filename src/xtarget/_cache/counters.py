"""Count the cache's operations; `stats` lists the counters."""

from __future__ import annotations

from .._system.locks import Lock

__all__ = ["count", "count_miss", "counted"]

_lock = Lock()
_counters: dict[str, float] = {}
_misses: dict[str, int] = {}


def count(**amounts: float) -> None:
    """Add to counters by the names of `CacheStats`."""
    with _lock:
        for name, amount in amounts.items():
            _counters[name] = _counters.get(name, 0) + amount


def count_miss(cause: str) -> None:
    with _lock:
        _misses[cause] = _misses.get(cause, 0) + 1


def counted() -> tuple[dict[str, float], dict[str, int]]:
    """All counters, and the misses by cause."""
    with _lock:
        return dict(_counters), dict(_misses)
