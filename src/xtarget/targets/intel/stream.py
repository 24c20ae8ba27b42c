"""Streams and events: SYCL queues and barriers."""

from __future__ import annotations

import dpctl

from ..._values.errors import DriverError
from .._objects.deferred_free import Retired
from .._objects.handles import own
from .._objects.queues import QueueEvent, QueueStream
from ..base import Stream
from .status import check

__all__ = ["IntelEvent", "IntelStream", "borrowed_stream", "new_stream", "queue_of"]


class IntelEvent(QueueEvent):
    """A barrier in a queue."""

    CHECK = staticmethod(check)
    PROFILING = "property='enable_profiling'"

    def done(self) -> bool:
        event = self.raw
        complete = dpctl.event_status_type.complete
        return event is None or bool(event.execution_status == complete)

    def _end(self, event: dpctl.SyclEvent) -> int:
        return int(event.profiling_info_end)


class IntelStream(QueueStream):
    """A SYCL queue. A borrowed one may be out of order: barriers keep our work in order there.

    Attributes:
        in_order: whether the queue itself keeps the order.
    """

    CHECK = staticmethod(check)
    EVENT = IntelEvent

    def __init__(
        self, queue: dpctl.SyclQueue, where: str, retired: Retired, *, is_default: bool = False
    ) -> None:
        self.in_order = bool(queue.is_in_order)
        timed = bool(queue.has_enable_profiling)
        super().__init__(queue, where, retired, timed=timed, is_default=is_default)

    def _mark(self, queue: dpctl.SyclQueue) -> dpctl.SyclEvent:
        return queue.submit_barrier()

    def _barrier(self, queue: dpctl.SyclQueue, event: dpctl.SyclEvent) -> None:
        queue.submit_barrier([event])

    def _finish(self, queue: dpctl.SyclQueue) -> None:
        queue.wait()


def new_stream(
    device: dpctl.SyclDevice, where: str, retired: Retired, *, is_default: bool = False
) -> IntelStream:
    """A new in-order queue in the platform's default context, which dpctl's arrays live in too."""
    with check(f"making a stream on {where} failed"):
        queue = dpctl.SyclQueue(device, property=("in_order", "enable_profiling"))
    return IntelStream(queue, where, retired, is_default=is_default)


def borrowed_stream(
    handle: object, ours: dpctl.SyclQueue, where: str, retired: Retired
) -> IntelStream:
    """A caller's own queue, or the queue of an object that has one (`torch.xpu.Stream`).

    Raises:
        DriverError: it is not a queue, or is of another device or context.
    """
    handle = getattr(handle, "sycl_queue", handle)
    if not isinstance(handle, dpctl.SyclQueue):
        raise DriverError(
            f"{where} takes a dpctl.SyclQueue as a stream, not {type(handle).__name__}: a SYCL "
            f"queue has no integer handle that can be checked."
        )
    if handle.sycl_device != ours.sycl_device or handle.sycl_context != ours.sycl_context:
        raise DriverError(
            f"this queue ({handle.sycl_device.filter_string}) belongs to another device or SYCL "
            f"context than {where}. Make it with "
            f"dpctl.SyclQueue(device.default_stream.handle.sycl_device)."
        )
    return IntelStream(handle, where, retired)


def queue_of(stream: Stream, where: str) -> dpctl.SyclQueue:
    """The queue behind one of our streams, ready for work that comes after all before it."""
    checked = own(stream, IntelStream, where)
    queue = checked.live()
    if not checked.in_order:
        queue.submit_barrier()
    return queue
