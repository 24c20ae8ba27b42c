"""Behaviour that all vendors' objects share: they hold one of the run time's objects until they
are closed, say so afterwards, and refuse objects of another device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from numbers import Integral
from typing import Any, ClassVar, TypeVar

from ..._system.life import in_forked_child
from ..._values.errors import DeviceLostError, DriverError, shortened, shortened_text

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


in_forked_child(_in_forked_child)


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
        "this {type} is not an event of {where}. Record the events on streams of {where}, or wait "
        "on the host instead: event.synchronize()."
    )


class StreamBase(Opened):
    """A stream. The device's default one stays open as long as the device."""

    __slots__ = ("is_default",)

    CLOSED = "this stream of {where} is closed. Make a new one."
    FOREIGN = "this {type} is not a stream of {where}. Make one of its own with device.stream()."

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


class DriverStream(StreamBase):
    """A stream of a driver: one of ours, or a borrowed one.

    Args:
        owned: ours to destroy.
        keep: the caller's object behind a borrowed stream, which has to live as long.
        recording: it is captured into a graph of ours, which keeps its code loaded itself.
    """

    __slots__ = ("__weakref__", "_device", "_keep", "_owned", "recording")

    def __init__(
        self,
        device: Any,
        raw: Any,
        *,
        owned: bool,
        keep: Any = None,
        is_default: bool = False,
        recording: bool = False,
    ) -> None:
        super().__init__(raw, device.info.name, is_default=is_default)
        self.recording = recording
        self._device, self._owned, self._keep = device, owned, keep


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
    number, cause = None, None
    try:
        number = _number(handle)
    except Exception as error:  # what an object of another library raises
        cause = error
    if number is None:
        why = "" if cause is None else f" ({type(cause).__name__}: {shortened_text(str(cause))})"
        raise DriverError(
            f"{shortened(handle)} ({type(handle).__name__}) is not a stream of {where}{why}. Give "
            "an integer handle, or the stream object of torch, CuPy or the vendor's own Python "
            "binding."
        ) from cause
    return number


def _number(handle: Any) -> int | None:
    if isinstance(handle, Integral):
        return None if isinstance(handle, bool) else int(handle)
    if isinstance(handle, Opened):  # ours, of any device; its number would pass for this one's
        return None
    protocol = getattr(handle, "__cuda_stream__", None)
    if protocol is not None:  # cuda.core's protocol: (version, handle)
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr", "handle"):  # torch; CuPy; older bindings
        found = getattr(handle, attribute, None)
        if found is not None:
            return int(found)
    kind = type(handle)  # hip-python's ihipStream_t is a pointer; numbers and arrays have a float
    return int(handle) if hasattr(kind, "__int__") and not hasattr(kind, "__float__") else None
