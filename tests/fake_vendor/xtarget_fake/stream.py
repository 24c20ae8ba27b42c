"""Streams that do nothing until somebody waits: the worst a real one may do."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from xtarget._values.errors import DriverError

_order = threading.RLock()  # one thread at a time does the deferred work


class FakeQueue:
    """The fake vendor's own stream object: deferred work in order."""

    def __init__(self) -> None:
        self.work: deque[Callable[[], None]] = deque()
        self.taken = 0

    def put(self, action: Callable[[], None]) -> None:
        with _order:
            self.work.append(action)

    def run_until(self, number: int) -> None:
        """Do the work up to the number-th action that was ever put in."""
        with _order:
            while self.work and self.taken < number:
                action = self.work.popleft()
                self.taken += 1
                action()

    @property
    def put_so_far(self) -> int:
        with _order:
            return self.taken + len(self.work)


class FakeEvent:
    """A place in a queue."""

    def __init__(self, queue: FakeQueue, device: object) -> None:
        self.device = device
        self._queue = queue
        self._time: float | None = None
        self._closed = False
        queue.put(self._stamp)
        self._number = queue.put_so_far

    def _stamp(self) -> None:
        self._time = time.perf_counter()

    def reach(self) -> None:
        """Do the work before the event."""
        self._queue.run_until(self._number)

    def synchronize(self) -> None:
        assert not self._closed, "an event was used after its close()"
        self.reach()

    def elapsed_ms(self, since: Any) -> float:
        assert self._time is not None, "elapsed_ms of an event that was not reached"
        assert since._time is not None, "elapsed_ms since an event that was not reached"
        return (self._time - since._time) * 1e3

    def close(self) -> None:
        self._closed = True


class FakeStream:
    """A stream; a borrowed one leaves its queue alone."""

    def __init__(self, queue: FakeQueue, device: Any) -> None:
        self.device = device
        self._queue: FakeQueue | None = queue

    @property
    def handle(self) -> FakeQueue:
        if self._queue is None:
            raise DriverError("this stream of fake:0 is closed. Make a new one.")
        self.device.live()
        return self._queue

    def record(self) -> FakeEvent:
        return FakeEvent(self.handle, self.device)

    def wait(self, event: FakeEvent) -> None:
        assert event.device is self.device, "waiting for an event of another device"
        # the other queue's work may stay deferred until this one needs it; closing the event until
        # then changes nothing
        self.handle.put(event.reach)

    def synchronize(self) -> None:
        queue = self.handle
        queue.run_until(queue.put_so_far)

    def close(self) -> None:
        self._queue = None
