"""Streams and events of an emulated device: queues of work that runs when something waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xtarget._system.locks import Lock
from xtarget._values.errors import DriverError

from .hip_types import Status

__all__ = ["OK", "Queues"]

OK = (Status.hipSuccess,)


class Queues:
    """The part of HIP that keeps work in order.

    Args:
        handles: what the handles of this device come after.

    Attributes:
        lost: what a kernel did wrong, after which the device is of no use.
    """

    def __init__(self, handles: int) -> None:
        self.lost = ""
        self._taken = False
        self._lock = Lock()
        self._last = ""
        self._queues: dict[int, list[Callable[[], None]]] = {0: []}
        self._events: dict[int, float | None] = {}
        self._handles = handles

    def _no(self, status: str, why: str) -> tuple[Any, ...]:
        self._last = why
        return (Status[status],)

    def _unusable(self) -> tuple[Any, ...]:
        """The answer once a kernel has failed. As on a GPU that stays so, until the device is
        opened again; giving things back still works."""
        return self._no("hipErrorContextIsDestroyed", f"a kernel failed before: {self.lost}")

    def hipStreamCreateWithFlags(self, flags: int) -> tuple[Any, ...]:
        if self.lost:
            return (*self._unusable(), None)
        handle = self._handle()
        self._queues[handle] = []
        return Status.hipSuccess, handle

    def hipStreamDestroy(self, stream: int) -> tuple[Any, ...]:
        if stream == 0 or stream not in self._queues:
            return self._no("hipErrorInvalidHandle", f"no stream 0x{stream:x}")
        self._drain(stream)
        del self._queues[stream]
        return OK

    def hipStreamSynchronize(self, stream: int) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        if stream not in self._queues:
            return self._no("hipErrorInvalidHandle", f"no stream 0x{stream:x}")
        self._drain(stream)
        return OK

    def hipDeviceSynchronize(self) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        self._drain_all()
        return OK

    def hipStreamIsCapturing(self, stream: int) -> tuple[Any, ...]:
        if stream not in self._queues:
            return (*self._no("hipErrorInvalidHandle", f"no stream 0x{stream:x}"), 0)
        return Status.hipSuccess, 0  # there are no graphs here

    def hipStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        if stream not in self._queues or event not in self._events:
            return self._no("hipErrorInvalidHandle", "no such stream or event")
        owner = self._owner(event)
        if owner is not None:
            self._enqueue(stream, lambda: self._work_off_to(owner, event))
        return OK

    def hipEventCreateWithFlags(self, flags: int) -> tuple[Any, ...]:
        handle = self._handle()
        self._events[handle] = None
        return Status.hipSuccess, handle

    def hipEventRecord(self, event: int, stream: int) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        if stream not in self._queues or event not in self._events:
            return self._no("hipErrorInvalidHandle", "no such stream or event")

        def reach() -> None:
            if event in self._events:
                self._events[event] = time.perf_counter()

        reach.__dict__["event"] = event
        with self._lock:
            self._enqueue(stream, reach)
        return OK

    def hipEventSynchronize(self, event: int) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        if event not in self._events:
            return self._no("hipErrorInvalidHandle", "no such event")
        owner = self._owner(event)
        if owner is not None:
            self._drain_to(owner, event)
        return OK

    def hipEventElapsedTime(self, start: int, end: int) -> tuple[Any, ...]:
        first, last = self._events.get(start), self._events.get(end)
        if first is None or last is None:
            return (*self._no("hipErrorNotReady", "an event was not reached yet"), 0.0)
        return Status.hipSuccess, 1e3 * (last - first)

    def hipEventDestroy(self, event: int) -> tuple[Any, ...]:
        if event not in self._events:
            return self._no("hipErrorInvalidHandle", "no such event")
        del self._events[event]
        return OK

    # --------------------------------------------------------------------------------------- queue

    def _handle(self) -> int:
        with self._lock:
            self._handles += 16
            return self._handles

    def _enqueue(self, stream: int, work: Callable[[], None]) -> None:
        """HIP's null stream is in order with all others: it runs them first, and is run first."""
        if stream == 0:
            for other, queue in self._queues.items():
                if other and queue:
                    self._queues[0].append(lambda other=other: self._work_off(other))  # type: ignore[misc]  # a default
        elif self._queues[0]:
            self._queues[stream].append(lambda: self._work_off(0))
        self._queues[stream].append(work)

    def _owner(self, event: int) -> int | None:
        """Return the stream in which an event waits to be reached."""
        for stream, queue in self._queues.items():
            if any(getattr(work, "event", None) == event for work in queue):
                return stream
        return None

    def _drain(self, stream: int) -> None:
        if self._queues.get(stream):
            with self._alone():
                self._work_off(stream)

    def _work_off(self, stream: int) -> None:
        """`_drain` for a caller that is already alone."""
        queue = self._queues.get(stream, [])
        while queue:
            queue.pop(0)()

    def _drain_to(self, stream: int, event: int) -> None:
        with self._alone():
            self._work_off_to(stream, event)

    def _work_off_to(self, stream: int, event: int) -> None:
        queue = self._queues.get(stream, [])
        while queue and any(getattr(work, "event", None) == event for work in queue):
            queue.pop(0)()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other thread uses the device meanwhile, and no signal handler or finalizer does: what
        it has interrupted cannot go on before it returns.

        Raises:
            DriverError: who asks is one of these.
        """
        with self._lock:
            if self._taken:
                raise DriverError(
                    "an emulated device cannot do this while this thread uses it already: a "
                    "signal handler or a finalizer (__del__) has called. Do not use emulated "
                    "devices in there."
                )
            self._taken = True
            try:
                yield
            finally:
                self._taken = False

    def _drain_all(self) -> None:
        for stream in list(self._queues):
            self._drain(stream)
