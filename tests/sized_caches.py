"""Caches with a cap on their size, and entries of one size to fill them with."""

from __future__ import annotations

import os
import time
from pathlib import Path

from xtarget import Artifact, Target
from xtarget._artifacts import entry
from xtarget._cache import Cache, key_of
from xtarget._cache.scan import scan
from xtarget._values.environment import CacheSettings
from xtarget._values.types import Parameter

TARGET = Target("nvidia", "sm_90")
SIZE = 20_000


def open_cache(folder: Path, entries: float | None) -> Cache:
    """A cache with room for so many entries."""
    cap = None if entries is None else int(entries * (SIZE + 1000))
    return Cache(folder, CacheSettings(folder, max_bytes=cap))


def key(n: int) -> str:
    return key_of([("n", str(n))])


def put(cache: Cache, n: int) -> None:
    parameters = (Parameter("x", "*fp32"),)
    artifact = Artifact(TARGET, "cubin", "k", bytes([n % 256]) * SIZE, 4, 32, 0, parameters)
    cache.put("k", key(n), [("n", str(n))], artifact)


def filled(folder: Path, entries: float | None, count: int) -> Cache:
    """A cache with room for so many entries, into which `count` were put."""
    cache = open_cache(folder, entries)
    for n in range(count):
        put(cache, n)
    return cache


def has(cache: Cache, n: int) -> bool:
    return (cache.own.folder(place(n)) / f"{place(n).stem}.json").exists()


def place(n: int) -> entry.Place:
    return entry.Place(TARGET, "k", key(n))


def stamp(cache: Cache, n: int, seconds_ago: float) -> None:
    then = time.time() - seconds_ago
    os.utime(cache.own.mark_path(place(n)), (then, then))


def cap_of(cache: Cache) -> int:
    cap = cache.settings.max_bytes
    assert cap is not None
    return cap


def used(cache: Cache) -> int:
    return sum(found.nbytes for found in scan(cache.own.base))
