"""Streams and events: OpenCL command queues and markers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pyopencl as cl

from ..._errors import DriverError, LaunchError
from .._retire import Retired
from ..base import Event, Stream
from .errors import check

__all__ = ["CpuEvent", "CpuStream", "borrowed_stream", "own_stream", "queue_of"]


class CpuEvent:
    """A marker in a command queue."""

    def __init__(self, event: cl.Event, where: str) -> None:
        self._event: cl.Event | None = event
        self._where = where

    @property
    def event(self) -> cl.Event:
        if self._event is None:
            raise DriverError(f"this event of {self._where} is closed. Record a new one.")
        return self._event

    def done(self) -> bool:
        """True when the point was reached, without waiting; a failed command counts as reached."""
        return self._event is None or self._event.command_execution_status <= 0

    def synchronize(self) -> None:
        with check(f"waiting for an event of {self._where} failed", LaunchError):
            self.event.wait()

    def elapsed_ms(self, since: Event) -> float:
        if not isinstance(since, CpuEvent):
            raise DriverError(
                f"the time between an event of {self._where} and one of another device is not "
                f"defined. Record both on {self._where}."
            )
        with check(
            f"no time of an event of {self._where}. Events have times where the queue was made "
            f"with profiling: a borrowed queue needs "
            f"properties=pyopencl.command_queue_properties.PROFILING_ENABLE"
        ):
            nanoseconds = int(self.event.profile.end) - int(since.event.profile.end)
        return nanoseconds * 1e-6

    def close(self) -> None:
        self._event = None


class CpuStream:
    """An in-order command queue.

    Attributes:
        queue: pyopencl's queue; None after `close`.
    """

    def __init__(
        self, queue: cl.CommandQueue, where: str, retired: Retired, *, borrowed: bool
    ) -> None:
        self.queue: cl.CommandQueue | None = queue
        self.where = where
        self._retired = retired
        self._borrowed = borrowed
        retired.opened(self)

    def live(self) -> cl.CommandQueue:
        """The queue, for every call that needs one."""
        if self.queue is None:
            raise DriverError(f"this stream of {self.where} is closed. Make a new one.")
        return self.queue

    @property
    def handle(self) -> Any:
        return self.live()

    def record(self) -> CpuEvent:
        queue = self.live()
        with check(f"recording an event on {self.where} failed"):
            event = cl.enqueue_marker(queue)
            # another queue, or nobody, may wait for it: it must be on its way (OpenCL 3.0, 5.15)
            queue.flush()
        return CpuEvent(event, self.where)

    def fence(self) -> CpuEvent | None:
        """A point after all work so far; None when the stream is closed."""
        try:
            return self.record()
        except DriverError:
            if self.queue is None:
                return None
            raise

    def wait(self, event: Event) -> None:
        if not isinstance(event, CpuEvent):
            raise DriverError(f"a stream of {self.where} can only wait for events of {self.where}.")
        with check(f"a stream of {self.where} cannot wait for this event"):
            cl.enqueue_barrier(self.live(), wait_for=[event.event])

    def synchronize(self) -> None:
        with check(f"work on a stream of {self.where} failed", LaunchError):
            self.live().finish()
        self._retired.collect()

    def close(self) -> None:
        if self.queue is None:
            return
        last = self.record()
        self.queue = None
        self._retired.closed(self, last)

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # the default keeps the function: at exit this module's names may be gone
        # a stream that was dropped may still have work that uses memory
        if getattr(self, "queue", None) is not None and not _ending():
            self._retired.dropped(partial(self._retired.left, self.record()))


def own_stream(context: cl.Context, device: cl.Device, where: str, retired: Retired) -> CpuStream:
    """A new in-order queue. Profiling costs nothing measurable on a CPU, so events have times."""
    with check(f"making a stream on {where} failed"):
        queue = cl.CommandQueue(
            context, device, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
    return CpuStream(queue, where, retired, borrowed=False)


def borrowed_stream(
    handle: object, context: cl.Context, device: cl.Device, where: str, retired: Retired
) -> CpuStream:
    """A caller's own queue.

    Raises:
        DriverError: it is no queue, of another context or device, or not in order.
    """
    if not isinstance(handle, cl.CommandQueue):
        raise DriverError(
            f"{where} takes a pyopencl.CommandQueue as a stream, not {type(handle).__name__}: an "
            f"OpenCL queue has no integer handle that can be checked."
        )
    if handle.context != context or handle.device != device:
        raise DriverError(
            f"this queue belongs to another OpenCL context than {where}. Make it with "
            f"pyopencl.CommandQueue(device.default_stream.handle.context)."
        )
    if handle.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        raise DriverError(f"this queue on {where} is out of order; a stream must be in order.")
    return CpuStream(handle, where, retired, borrowed=True)


def queue_of(stream: Stream, where: str) -> cl.CommandQueue:
    """The queue behind one of our streams."""
    if not isinstance(stream, CpuStream):
        raise DriverError(f"{where} needs one of its own streams, not a {type(stream).__name__}.")
    return stream.live()
