"""Memory that is given back while work may still use it: kept until every stream has passed.

Signal handlers and `__del__` call this at any moment, in any thread, also from within itself. So
there is no lock here: every step is one operation on a dict or a deque. An exception between two of
them leaves memory that is never given back, and none that is given back too early.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

__all__ = ["Fence", "Fenced", "Retired"]


class Fence(Protocol):
    """A point in a stream that can be asked without waiting."""

    def done(self) -> bool: ...

    def synchronize(self) -> None: ...


class Fenced(Protocol):
    """A stream that can make fences; None when it is closed."""

    def fence(self) -> Fence | None: ...

    def end(self) -> None: ...


_Release: TypeAlias = Callable[[], None]


class Retired:
    """The streams of a device, and the releases that wait for them, oldest first."""

    def __init__(self) -> None:
        self._streams: dict[int, weakref.ref[Fenced]] = {}
        self._tails: deque[Fence] = deque()
        self._waiting: deque[tuple[Sequence[Fence], list[_Release]]] = deque()
        self._dropped: deque[_Release] = deque()
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
        number, streams = id(stream), self._streams
        streams[number] = weakref.ref(stream, lambda _: streams.pop(number, None))

    def closed(self, stream: Fenced, last: Fence) -> None:
        """Count a stream out; its work up to `last` may still run."""
        self.left(last)
        self._streams.pop(id(stream), None)

    def left(self, last: Fence) -> None:
        """A stream is gone whose work up to `last` may still run."""
        self._forget_tails()
        self._tails.append(last)

    def streams(self) -> list[Fenced]:
        return [stream for ref in list(self._streams.values()) if (stream := ref()) is not None]

    def fences(self) -> list[Fence]:
        """The points after all work enqueued so far."""
        self._drain()
        return self._points()

    def add(self, release: _Release) -> None:
        """Call `release` when all work enqueued so far is done."""
        self._drain()
        self._waiting.append((self._points(), [release]))
        self.collect()

    def dropped(self, release: _Release) -> None:
        """`add` at the next `collect`: for `__del__`, which must not call the run time."""
        self._dropped.append(release)

    def collect(self, *, everything: bool = False) -> None:
        """Release what can be released; `everything` after the device was waited for."""
        if self._dropped:
            self._drain()
        if everything:
            self._forget_tails()
        while self._waiting:
            try:
                entry = self._waiting.popleft()
            except IndexError:
                return
            fences, releases = entry
            if not everything and not all(fence.done() for fence in fences):
                self._waiting.appendleft(entry)
                return
            try:
                while releases:
                    releases.pop()()
            finally:
                if releases:  # one of them failed; the others are still to be done
                    self._waiting.appendleft(entry)

    def _forget_tails(self) -> None:
        for fence in list(self._tails):
            if fence.done():
                with contextlib.suppress(ValueError):  # another thread was faster
                    self._tails.remove(fence)

    def _points(self) -> list[Fence]:
        made = [stream.fence() for stream in self.streams()]
        return [*(fence for fence in made if fence is not None), *self._tails]

    def _drain(self) -> None:
        """All that was dropped so far waits for the same fences."""
        releases = []
        while True:
            try:
                releases.append(self._dropped.popleft())
            except IndexError:
                break
        if releases:
            self._waiting.append((self._points(), releases))
