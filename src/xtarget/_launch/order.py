"""The order of a launch with the caller's work on other streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .._arrays import (
    kind_of,
)
from ..targets.base import Device, Stream
from ..targets.optional import Capturable
from .lifetimes import keep_until_passed

__all__ = ["Order", "Ordered"]


class Ordered(Protocol):
    """The part of a bound call (`_launch.call.BoundCall`) that is needed here."""

    device: Device
    synchronous: bool
    _arrays: tuple[int, ...]
    _adopts: bool

    def hold(
        self, args: Sequence[Any], outputs: Sequence[Any], stream: Stream, *, explicit: bool
    ) -> list[Any]: ...


class Order:
    """Order a launch after the caller's work, and the caller's later work after the launch."""

    __slots__ = ("_captured", "_held", "_waited", "call", "explicit", "launch", "others")

    def __init__(self, call: Ordered, args: Sequence[Any], stream: Stream | None) -> None:
        self.call, self.explicit = call, stream is not None
        self.others: list[Stream] = []
        self._captured: bool | None = None
        self._held: list[Any] = []
        self._waited = False
        current = self._streams([args[index] for index in call._arrays])
        if stream is not None:
            self.launch = stream
        else:
            self.launch = current[0] if current else call.device.default_stream
        self._wait_for(current)

    def _streams(self, arrays: Sequence[Any], *, all_kinds: bool = False) -> list[Stream]:
        """The streams that work on these arrays goes to. Where the caller chose a stream, only
        those of kinds that know theirs: with other libraries the caller keeps the order."""
        found: list[Stream] = []
        for array in arrays:
            kind = kind_of(array)
            if all_kinds or not self.explicit or kind.tracks_streams:
                theirs = kind.current_stream(self.call.device, array)
                if theirs is not None and theirs not in found:
                    found.append(theirs)
        return found

    def _wait_for(self, streams: Sequence[Stream]) -> None:
        for other in streams:
            if other is not self.launch and other not in self.others and not self._in_capture():
                self.launch.wait(other.record())
                self.others.append(other)

    def _in_capture(self) -> bool:
        """The launch becomes part of a graph, which no stream outside of it can be in order with:
        when the graph runs is the caller's to decide."""
        if self._captured is None:
            self._captured = isinstance(self.launch, Capturable) and self.launch.capturing()
        return self._captured

    def allocated(self, outputs: Sequence[Any], *, new: bool) -> None:
        """The launch writes these; their memory is ready where their kind allocated it.

        Args:
            new: an allocator gave their memory now. Work of its own stream may still be using it
                for what was there before, so a stream of the caller's choice waits for that too.
        """
        self._wait_for(self._streams(outputs))
        if new and self.explicit:
            for other in self._streams(outputs, all_kinds=True):
                if other is not self.launch and other not in self.others and not self._in_capture():
                    self.launch.wait(other.record())  # and not the other way round

    def hold(self, args: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Before the launch: see to it that what it uses stays alive until its stream has passed.
        What is captured runs when the caller says so, and the caller keeps its arrays till then.
        """
        if not self.call.synchronous and (self.explicit or self.call._adopts):
            self._held = self.call.hold(args, outputs, self.launch, explicit=self.explicit)

    def wait(self) -> None:
        """The launch is the last one; wait for it."""
        self.launch.synchronize()
        self._waited = True

    def finish(self) -> None:
        if self.call.synchronous:
            if not self._waited:
                self.launch.synchronize()
            return
        if self._held and not self._in_capture():
            keep_until_passed(self.launch, self._held)
        for other in self.others:
            other.wait(self.launch.record())
