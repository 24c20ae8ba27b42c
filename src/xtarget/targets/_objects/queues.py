"""Devices whose streams are queue objects of the run time (OpenCL, SYCL), and whose memory is not
freed in the order of a stream: it is kept until every queue has passed (`deferred_free`).
"""

from __future__ import annotations

import contextlib
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from ..._system.life import at_exit, in_forked_child
from ..._system.locks import Lock
from ..._values.errors import DriverError, LaunchError, OutOfMemoryError, XTargetError
from ..._values.types import Artifact, DeviceInfo
from ..base import Event, Stream
from .asserts import ASSERT_BYTES, ASSERT_MEMORY, Asserts
from .buffer import BufferBase
from .deferred_free import Retired
from .device import DeviceBase
from .graphs import ListedGraph
from .handles import EventBase, Owned, StreamBase, own

__all__ = ["Check", "QueueBuffer", "QueueDevice", "QueueEvent", "QueueStream"]

#: A vendor's `check(what, default class)`, around calls of its run time.
Check = Callable[..., AbstractContextManager[None]]


class QueueEvent(EventBase, ABC):
    """A marker in a queue.

    Args:
        timed: the queue was made with profiling.
        waited: called after the host has waited for the event.
    """

    CHECK: ClassVar[Check]
    #: How a queue is made whose events have times.
    PROFILING: ClassVar[str]

    def __init__(self, event: Any, where: str, *, timed: bool, waited: Callable[[], None]) -> None:
        super().__init__(event, where)
        self._timed = timed
        self._waited = waited

    @abstractmethod
    def done(self) -> bool:
        """True when the point was reached, without waiting; a failed command counts as reached."""

    @abstractmethod
    def _end(self, event: Any) -> int:
        """Return when the run time's event was reached, in nanoseconds of the device's clock."""

    def synchronize(self) -> None:
        event = self.live()
        with self.CHECK(f"waiting for an event of {self.where} failed", LaunchError):
            event.wait()
        self._waited()

    def elapsed_ms(self, since: Event) -> float:
        start = own(since, type(self), self.where)
        here, there = self.live(), start.live()
        if not (self._timed and start._timed):
            raise DriverError(
                f"an event of {self.where} has no time: its queue was borrowed and made without "
                f"profiling. Make the queue with {self.PROFILING}."
            )
        with self.CHECK(f"reading the time between two events of {self.where} failed"):
            return (self._end(here) - start._end(there)) * 1e-6


class QueueStream(Owned, StreamBase, ABC):
    """A queue; a borrowed one stays the caller's.

    Args:
        timed: the queue was made with profiling.
        is_default: of the device.
    """

    CHECK: ClassVar[Check]
    EVENT: ClassVar[type[QueueEvent]]

    def __init__(
        self, queue: Any, where: str, retired: Retired, *, timed: bool, is_default: bool = False
    ) -> None:
        super().__init__(queue, where, is_default=is_default)
        self._retired = retired
        self._timed = timed
        retired.opened(self)

    @abstractmethod
    def _mark(self, queue: Any) -> Any:
        """The run time's event after all work enqueued so far, already on its way."""

    @abstractmethod
    def _barrier(self, queue: Any, event: Any) -> None:
        """Make later work of the queue wait for the run time's event."""

    @abstractmethod
    def _finish(self, queue: Any) -> None:
        """Wait on the host for all work of the queue."""

    def record(self) -> QueueEvent:
        queue = self.live()
        with self.CHECK(f"recording an event on {self.where} failed"):
            mark = self._mark(queue)
        return self.EVENT(mark, self.where, timed=self._timed, waited=self._retired.waited)

    def fence(self) -> QueueEvent | None:
        """A point after all work so far; None when the stream is closed."""
        try:
            return self.record()
        except DriverError:
            if self.raw is None:
                return None
            raise

    def wait(self, event: Event) -> None:
        queue, point = self.live(), own(event, self.EVENT, self.where).live()
        with self.CHECK(f"a stream of {self.where} cannot wait for this event"):
            self._barrier(queue, point)

    def synchronize(self) -> None:
        queue = self.raw
        if queue is None:
            self.live()  # raises
        try:
            self._finish(queue)
        except Exception:  # each launch of host data waits here: CHECK is made for failures only
            with self.CHECK(f"work on a stream of {self.where} failed", LaunchError):
                raise
        self._retired.collect()
        self._retired.waited()

    def end(self) -> None:
        if self.raw is None:
            return
        try:
            last = self.record()
        finally:
            self.raw = None
        self._retired.closed(self, last)

    def _dropped(self) -> None:
        # a stream that was dropped may still have work that uses memory
        self._retired.left(self.record())


class QueueBuffer(BufferBase):
    """Memory that is given back when no queue uses it any more.

    Args:
        release: gives it back at once; None where that is somebody else's to do.
    """

    __slots__ = ("_retired",)

    def __init__(
        self,
        address: int,
        nbytes: int,
        where: str,
        retired: Retired,
        release: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(address, nbytes, where, release)
        self._retired = retired

    def close(self) -> None:
        release = self._taken()
        if release is not None:
            self._retired.add(release)

    def give_back(self) -> None:
        """Close it: all work that used it is done."""
        super().close()

    def _dropped(self) -> None:
        release = self._taken()
        if release is not None:
            self._retired.dropped(release)


#: Devices that may have work in flight.
_open: weakref.WeakSet[QueueDevice] = weakref.WeakSet()
in_forked_child(_open.clear)  # it has the devices, not their threads


def _wait_for_all() -> None:
    """A process that ends frees the memory of its arrays, and work in flight would go on in it."""
    for device in list(_open):
        if device.raw is not None:
            with contextlib.suppress(XTargetError):  # nobody waited for this work to hear of it
                device.synchronize()


at_exit(_wait_for_all)


class QueueDevice(DeviceBase[QueueStream]):
    """One opened device. `raw` is what new queues and memory are made with."""

    def __init__(
        self, raw: Any, info: DeviceInfo, default: QueueStream, retired: Retired, max_alloc: int
    ) -> None:
        super().__init__(raw, info)
        self._default = default
        self._retired = retired
        self._max_alloc = max_alloc
        self._asserts_made: Asserts | None = None
        self._asserts_lock = Lock()
        _open.add(self)

    def alloc(self, nbytes: int, stream: Stream | None = None) -> QueueBuffer:
        # closing the buffer waits for every stream, so it does not matter which one it is for
        raw = self.live()
        self._retired.collect()
        if nbytes > self._max_alloc:
            raise OutOfMemoryError(
                f"{nbytes} bytes cannot be allocated on {self.where}: its run time gives at most "
                f"{self._max_alloc} bytes at once. Use smaller arrays."
            )
        return self._counted(lambda: self._allocate(raw, nbytes))

    def graph(self, record: Callable[[Stream], None]) -> ListedGraph:
        self.live()
        return ListedGraph(record, self.where)

    def _asserts(self, artifact: Artifact) -> Asserts | None:
        """Return where the artifact's kernel reports failed assertions; None if it has none."""
        if all(parameter.hidden != ASSERT_MEMORY for parameter in artifact.parameters):
            return None
        with self._asserts_lock:
            if self._asserts_made is None:
                memory, address = self._shared_bytes(self.live(), ASSERT_BYTES)
                self._asserts_made = Asserts(memory, address, self.info.name)
                self._retired.watch(self._asserts_made.check)
        return self._asserts_made

    @abstractmethod
    def _shared_bytes(self, raw: Any, nbytes: int) -> tuple[memoryview, int]:
        """Return zeroed memory that both host and kernels see, kept as long as the view, and its
        address for kernels.
        """

    def _trim(self) -> None:
        self._retired.collect()

    @abstractmethod
    def _allocate(self, raw: Any, nbytes: int) -> QueueBuffer:
        """At most `max_alloc` bytes, or none."""

    def _wait(self) -> None:
        """Wait for every queue, also behind one whose work failed; then tell of the failure."""
        failed: XTargetError | None = None
        for fence in self._retired.fences():
            try:
                fence.synchronize()
            except XTargetError as error:
                failed = failed or error
        self._retired.collect(everything=True)
        if failed is not None:
            raise failed
        self._retired.waited()  # work of streams that are closed

    def _end(self) -> None:
        for stream in self._retired.streams():
            stream.end()
