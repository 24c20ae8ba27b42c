"""Memory that is given back while work may still use it: kept until every stream has passed."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

__all__ = ["Fence", "Fenced", "Retired"]


class Fence(Protocol):
    """A point in a stream that can be asked without waiting."""

    def done(self) -> bool: ...

    def synchronize(self) -> None: ...


class Fenced(Protocol):
    """A stream that can make fences; None when it is closed."""

    def fence(self) -> Fence | None: ...

    def end(self) -> None: ...


class Retired:
    """The streams of a device, and the releases that wait for them, oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: weakref.WeakSet[Fenced] = weakref.WeakSet()
        self._tails: list[Fence] = []
        self._waiting: deque[tuple[Sequence[Fence], Callable[[], None]]] = deque()
        self._dropped: deque[Callable[[], None]] = deque()
        self._watches: list[Callable[[], None]] = []

    def watch(self, check: Callable[[], None]) -> None:
        """Call `check` whenever the host has waited for work."""
        self._watches.append(check)

    def waited(self) -> None:
        """The host has waited: tell those who asked for it. They may raise what they find."""
        for check in self._watches:
            check()

    def opened(self, stream: Fenced) -> None:
        """Count a stream in: memory is not released before the work that it has by then."""
        with self._lock:
            self._streams.add(stream)

    def closed(self, stream: Fenced, last: Fence) -> None:
        """Count a stream out; its work up to `last` may still run."""
        with self._lock:
            self._streams.discard(stream)
        self.left(last)

    def left(self, last: Fence) -> None:
        """A stream is gone whose work up to `last` may still run."""
        with self._lock:
            self._tails = [*(fence for fence in self._tails if not fence.done()), last]

    def streams(self) -> list[Fenced]:
        with self._lock:
            return list(self._streams)

    def fences(self) -> list[Fence]:
        """The points after all work enqueued so far."""
        self._drain()
        fences = [fence for stream in self.streams() if (fence := stream.fence()) is not None]
        with self._lock:
            return fences + self._tails

    def add(self, release: Callable[[], None]) -> None:
        """Call `release` when all work enqueued so far is done."""
        fences = self.fences()
        with self._lock:
            self._waiting.append((fences, release))
        self.collect()

    def dropped(self, action: Callable[[], None]) -> None:
        """Do `action` at the next `collect`. For `__del__`, which may run in any thread at any
        moment, also while this object's lock is held: takes no lock.
        """
        self._dropped.append(action)

    def collect(self, *, everything: bool = False) -> None:
        """Release what can be released; `everything` after the device was waited for."""
        self._drain()
        if everything:
            with self._lock:
                self._tails = [fence for fence in self._tails if not fence.done()]
        while True:
            with self._lock:
                if not self._waiting:
                    return
                fences, release = self._waiting[0]
                if not everything and not all(fence.done() for fence in fences):
                    return
                self._waiting.popleft()
            release()

    def _drain(self) -> None:
        while self._dropped:
            try:
                action = self._dropped.popleft()
            except IndexError:
                break  # another thread was faster
            action()
