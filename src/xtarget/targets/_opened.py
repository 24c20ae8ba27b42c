"""What every vendor's objects do alike: hold one of the run time's objects until they are closed,
say so afterwards, and refuse what belongs to another device.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from numbers import Integral, Number
from typing import Any, ClassVar, TypeVar

from .._errors import DeviceLostError, DriverError

__all__ = [
    "EventBase",
    "Opened",
    "Owned",
    "StreamBase",
    "own",
    "stream_number",
]

#: Counts forks on the way to this process: a child must not touch what its parent opened.
_generation = 0


def _in_forked_child() -> None:
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


class Opened:
    """An object of a device.

    Attributes:
        raw: the run time's object, None once this is closed. A launch reads it, to spare a call.
        where: the device (and what of it), for messages.
    """

    __slots__ = ("_made_in", "raw", "where")

    #: What a use after `close` is answered with.
    CLOSED: ClassVar[str] = "{where} is closed. Open it again."
    #: What another device's object in its place is answered with.
    FOREIGN: ClassVar[str] = "this {type} is not of {where}."

    def __init__(self, raw: Any, where: str) -> None:
        self.raw = raw
        self.where = where
        self._made_in = _generation

    def live(self) -> Any:
        """`raw`, for every use but a launch.

        Raises:
            DriverError: this is closed.
        """
        raw = self.raw
        if raw is None:
            raise DriverError(self.CLOSED.format(where=self.where))
        return raw

    def close(self) -> None:
        self.raw = None


class Owned(Opened):
    """Closed when it is dropped, where the run time's binding gives nothing back by itself."""

    __slots__ = ()

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # the default keeps the function: at exit this module's names may be gone
        if getattr(self, "_made_in", None) != _generation or self.raw is None or _ending():
            return
        with suppress(DeviceLostError):  # told where it was lost; nothing is left to give back
            self._dropped()

    def _dropped(self) -> None:
        """Runs in any thread at any moment: takes no lock that a caller of ours may hold."""
        self.close()


class EventBase(Opened):
    """A point in a stream."""

    __slots__ = ()

    CLOSED = "this event of {where} is closed. Record a new one."
    FOREIGN = (
        "this {type} is no event of {where}. Record the events on streams of {where}, or wait on "
        "the host instead: event.synchronize()."
    )


class StreamBase(Opened):
    """A stream. The device's default one stays open as long as the device."""

    __slots__ = ("is_default",)

    CLOSED = "this stream of {where} is closed. Make a new one."
    FOREIGN = "this {type} is no stream of {where}. Make one of its own with device.stream()."

    def __init__(self, raw: Any, where: str, *, is_default: bool = False) -> None:
        super().__init__(raw, where)
        self.is_default = is_default

    @property
    def handle(self) -> Any:
        return self.live()

    def close(self) -> None:
        if self.raw is not None and not self.is_default:
            self.end()

    def end(self) -> None:
        """Close it, also when it is the default one."""
        self.raw = None


OpenedT = TypeVar("OpenedT", bound=Opened)


def own(thing: object, kind: type[OpenedT], where: str) -> OpenedT:
    """An event or stream that this vendor can use.

    Raises:
        DriverError: it is another vendor's.
    """
    if not isinstance(thing, kind):
        raise DriverError(kind.FOREIGN.format(type=type(thing).__name__, where=where))
    return thing


def stream_number(handle: Any, where: str) -> int:
    """The integer handle of a CUDA or HIP stream that a caller brings: an integer, or an object of
    torch, CuPy, cuda.core or hip-python.

    Raises:
        DriverError: it is none of these.
    """
    if isinstance(handle, Integral) and not isinstance(handle, bool):
        return int(handle)
    protocol = getattr(handle, "__cuda_stream__", None)
    if protocol is not None:  # cuda.core's protocol: (version, handle)
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr"):  # torch; CuPy
        number = getattr(handle, attribute, None)
        if isinstance(number, int):
            return number
    if hasattr(handle, "__int__") and not isinstance(handle, Number):
        return int(handle)  # hip-python's ihipStream_t
    raise DriverError(
        f"{handle!r} ({type(handle).__name__}) is no stream of {where}. Give an integer handle, or "
        "the stream object of torch, CuPy or the vendor's own Python binding."
    )
