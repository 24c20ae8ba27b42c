"""Streams and events: SYCL queues and barriers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import dpctl

from ..._errors import DriverError, LaunchError
from .._retire import Retired
from ..base import Event, Stream
from .errors import check

__all__ = ["IntelEvent", "IntelStream", "borrowed_stream", "own_stream", "queue_of"]


class IntelEvent:
    """A barrier in a queue."""

    def __init__(self, event: dpctl.SyclEvent, timed: bool, where: str) -> None:
        self._event: dpctl.SyclEvent | None = event
        self._timed = timed
        self._where = where

    @property
    def event(self) -> dpctl.SyclEvent:
        if self._event is None:
            raise DriverError(f"this event of {self._where} is closed. Record a new one.")
        return self._event

    def done(self) -> bool:
        """True when the point was reached, without waiting."""
        complete = dpctl.event_status_type.complete
        return self._event is None or bool(self._event.execution_status == complete)

    def synchronize(self) -> None:
        with check(f"waiting for an event of {self._where} failed", LaunchError):
            self.event.wait()

    def elapsed_ms(self, since: Event) -> float:
        if not isinstance(since, IntelEvent):
            raise DriverError(
                f"the time between an event of {self._where} and one of another device is not "
                f"defined. Record both on {self._where}."
            )
        ours, theirs = self.event, since.event
        if not self._timed or not since._timed:
            raise DriverError(
                f"an event of {self._where} has no time: its queue was borrowed and made without "
                f"profiling. Make the queue with property='enable_profiling'."
            )
        with check(f"reading the time of an event of {self._where} failed"):
            return float(ours.profiling_info_end - theirs.profiling_info_end) * 1e-6

    def close(self) -> None:
        self._event = None


class IntelStream:
    """A SYCL queue. A borrowed one may be out of order: barriers keep our work in order there.

    Attributes:
        queue: dpctl's queue; None after `close`.
        in_order: whether the queue itself keeps the order.
    """

    def __init__(self, queue: dpctl.SyclQueue, where: str, retired: Retired) -> None:
        self.queue: dpctl.SyclQueue | None = queue
        self.in_order = bool(queue.is_in_order)
        self.where = where
        self._timed = bool(queue.has_enable_profiling)
        self._retired = retired
        retired.opened(self)

    def live(self) -> dpctl.SyclQueue:
        """The queue, for every call that needs one."""
        if self.queue is None:
            raise DriverError(f"this stream of {self.where} is closed. Make a new one.")
        return self.queue

    @property
    def handle(self) -> Any:
        return self.live()

    def record(self) -> IntelEvent:
        queue = self.live()
        with check(f"recording an event on {self.where} failed"):
            return IntelEvent(queue.submit_barrier(), self._timed, self.where)

    def fence(self) -> IntelEvent | None:
        """A point after all work so far; None when the stream is closed."""
        try:
            return self.record()
        except DriverError:
            if self.queue is None:
                return None
            raise

    def wait(self, event: Event) -> None:
        if not isinstance(event, IntelEvent):
            raise DriverError(f"a stream of {self.where} can only wait for events of {self.where}.")
        with check(f"a stream of {self.where} cannot wait for this event"):
            self.live().submit_barrier([event.event])

    def synchronize(self) -> None:
        with check(f"work on a stream of {self.where} failed", LaunchError):
            self.live().wait()
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


def own_stream(device: dpctl.SyclDevice, where: str, retired: Retired) -> IntelStream:
    """A new in-order queue in the platform's default context, which dpctl's arrays live in too."""
    with check(f"making a stream on {where} failed"):
        queue = dpctl.SyclQueue(device, property=("in_order", "enable_profiling"))
    return IntelStream(queue, where, retired)


def borrowed_stream(
    handle: object, own: dpctl.SyclQueue, where: str, retired: Retired
) -> IntelStream:
    """A caller's own queue.

    Raises:
        DriverError: it is no queue, or of another device or context.
    """
    if not isinstance(handle, dpctl.SyclQueue):
        raise DriverError(
            f"{where} takes a dpctl.SyclQueue as a stream, not {type(handle).__name__}: a SYCL "
            f"queue has no integer handle that can be checked."
        )
    if handle.sycl_device != own.sycl_device or handle.sycl_context != own.sycl_context:
        raise DriverError(
            f"this queue ({handle.sycl_device.filter_string}) belongs to another device or SYCL "
            f"context than {where}. Make it with "
            f"dpctl.SyclQueue(device.default_stream.handle.sycl_device)."
        )
    return IntelStream(handle, where, retired)


def queue_of(stream: Stream, where: str) -> dpctl.SyclQueue:
    """The queue behind one of our streams, ready for work that comes after all before it."""
    if not isinstance(stream, IntelStream):
        raise DriverError(f"{where} needs one of its own streams, not a {type(stream).__name__}.")
    queue = stream.live()
    if not stream.in_order:
        queue.submit_barrier()
    return queue
