"""An artifact, its entry in a remote store, and caches with one, for the tests of remote caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xtarget import Artifact, Target
from xtarget._artifacts import entry
from xtarget._cache import Cache, key_of
from xtarget._cache.stats import CacheStats, cache_stats
from xtarget._values.environment import CacheSettings
from xtarget._values.types import Parameter

__all__ = ["ARTIFACT", "KEY", "NAME", "PARTS", "PLACE", "TARGET", "blob", "cache", "counted"]

TARGET = Target("nvidia", "sm_90")
PARTS = [("a", "b")]
KEY = key_of(PARTS)
ARTIFACT = Artifact(TARGET, "cubin", "k", b"code" * 100, 4, 32, 0, (Parameter("x", "*fp32"),))
PLACE = entry.Place(TARGET, "k", KEY)
NAME = f"v1/nvidia/sm_90/k-{KEY[:24]}.xte"


def blob(artifact: Artifact = ARTIFACT, place: entry.Place = PLACE) -> bytes:
    files, fields = entry.artifact_fields(artifact)
    return entry.pack(entry.make_entry(place, files, {"artifact": fields, "compile_seconds": 2.5}))


def cache(folder: Path, url: str, **settings: Any) -> Cache:
    given: dict[str, Any] = {"remote": url, "remote_seconds": 1.0, **settings}
    return Cache(folder, CacheSettings(folder, **given))


def counted(before: CacheStats, *names: str) -> tuple[int, ...]:
    after = cache_stats()
    return tuple(getattr(after, f"remote_{n}") - getattr(before, f"remote_{n}") for n in names)
