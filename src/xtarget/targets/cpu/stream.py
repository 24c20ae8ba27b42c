"""Streams and events: OpenCL command queues and markers."""

from __future__ import annotations

import pyopencl as cl

from ..._values.errors import DriverError
from .._objects.deferred_free import Retired
from .._objects.handles import own
from .._objects.queues import QueueEvent, QueueStream
from ..base import Stream
from .status import check
from .workers import Workers

__all__ = ["CpuEvent", "CpuStream", "borrowed_stream", "new_stream", "queue_of"]


class CpuEvent(QueueEvent):
    """A marker in a command queue."""

    CHECK = staticmethod(check)
    PROFILING = "properties=pyopencl.command_queue_properties.PROFILING_ENABLE"

    def done(self) -> bool:
        event = self.raw
        return event is None or event.command_execution_status <= 0

    def _end(self, event: cl.Event) -> int:
        return int(event.profile.end)


class CpuStream(QueueStream):
    """An in-order command queue.

    Args:
        workers: the threads that do its work.
    """

    CHECK = staticmethod(check)
    EVENT = CpuEvent

    def __init__(
        self,
        queue: cl.CommandQueue,
        where: str,
        retired: Retired,
        workers: Workers,
        *,
        is_default: bool = False,
    ) -> None:
        timed = bool(queue.properties & cl.command_queue_properties.PROFILING_ENABLE)
        super().__init__(queue, where, retired, timed=timed, is_default=is_default)
        self._workers = workers

    def _mark(self, queue: cl.CommandQueue) -> cl.Event:
        event = cl.enqueue_marker(queue)
        # another queue, or nobody, may wait for it: it must be on its way (OpenCL 3.0, 5.15)
        queue.flush()
        return event

    def _barrier(self, queue: cl.CommandQueue, event: cl.Event) -> None:
        cl.enqueue_barrier(queue, wait_for=[event])

    def _finish(self, queue: cl.CommandQueue) -> None:
        self._workers.make_way()
        queue.finish()


def new_stream(
    context: cl.Context,
    device: cl.Device,
    where: str,
    retired: Retired,
    workers: Workers,
    *,
    is_default: bool = False,
) -> CpuStream:
    """A new in-order queue. Profiling costs nothing measurable on a CPU, so events have times."""
    with check(f"making a stream on {where} failed"):
        queue = cl.CommandQueue(
            context, device, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
    return CpuStream(queue, where, retired, workers, is_default=is_default)


def borrowed_stream(
    handle: object,
    context: cl.Context,
    device: cl.Device,
    where: str,
    retired: Retired,
    workers: Workers,
) -> CpuStream:
    """A caller's own queue.

    Raises:
        DriverError: it is not a queue, is of another context or device, or is not in order.
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
    return CpuStream(handle, where, retired, workers)


def queue_of(stream: Stream, where: str) -> cl.CommandQueue:
    """The queue behind one of our streams."""
    return own(stream, CpuStream, where).live()
