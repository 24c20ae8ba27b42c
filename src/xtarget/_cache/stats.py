"""Counters of the cache in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from .._values.value_classes import value_class
from .counters import counted

__all__ = ["CacheStats", "cache_stats"]


@value_class(frozen=True, slots=True)
class CacheStats:
    """Counters of this process, since it started.

    Attributes:
        hits: artifacts found in the cache's own folder.
        layer_hits: found in a read-only layer of `XTARGET_CACHE_PATH`.
        remote_hits: found in the remote store, checked, and kept in the folder.
        served: made by the compile server (`XTARGET_COMPILE_SERVER`), checked and kept.
        misses: artifacts not found on disk, by cause: `absent`, `damaged`, `refused` (not signed,
            or in a folder that others may write), `unreadable`.
        compiles: kernels compiled, and the seconds that took.
        compile_seconds_saved: what compiling the hits took when they were made.
        writes, failed_writes: entries stored; entries that could not be.
        waits: times that another process compiled the same kernel and this one waited for it.
        takeovers: locks whose owner did not move for `XTARGET_CACHE_WAIT` seconds.
        evictions: entries that made room for others, and their bytes.
        quarantines: damaged entries that were set aside.
        remote_asked: questions to the remote store; `remote_errors` had no answer in time or a
            broken one, `remote_dropped` an entry that did not pass the checks, `remote_skipped`
            were not asked because the store had failed before; `remote_writes` were stored there.
    """

    hits: int = 0
    layer_hits: int = 0
    remote_hits: int = 0
    served: int = 0
    misses: Mapping[str, int] = field(default_factory=dict)
    compiles: int = 0
    compile_seconds: float = 0.0
    compile_seconds_saved: float = 0.0
    writes: int = 0
    failed_writes: int = 0
    waits: int = 0
    takeovers: int = 0
    evictions: int = 0
    evicted_bytes: int = 0
    quarantines: int = 0
    remote_asked: int = 0
    remote_errors: int = 0
    remote_dropped: int = 0
    remote_skipped: int = 0
    remote_writes: int = 0


def cache_stats() -> CacheStats:
    """Return the counters of the cache of compiled kernels in this process."""
    counters, misses = counted()
    own: dict[str, Any] = dict(counters)
    return CacheStats(misses=misses, **own)
