"""Artifacts of functions that were unloaded, in the host's memory, to load them again."""

from __future__ import annotations

from collections.abc import Hashable

from .._system.locks import Lock
from .._values.types import Artifact

__all__ = ["Shelf"]


class Shelf:
    """Keeps the youngest artifacts, of so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._kept: dict[Hashable, Artifact] = {}
        self._lock = Lock()

    def put(self, key: Hashable, made: Artifact) -> None:
        with self._lock:
            self._remove(key)
            self._kept[key] = made
            self._bytes += len(made.binary)
            while len(self._kept) > 1 and self._bytes > self._most:
                self._remove(next(iter(self._kept)))

    def take(self, key: Hashable) -> Artifact | None:
        with self._lock:
            return self._remove(key)

    def _remove(self, key: Hashable) -> Artifact | None:
        made = self._kept.pop(key, None)
        if made is not None:
            self._bytes -= len(made.binary)
        return made
