"""Records of calls and launches, the observers that get them, and threads that are not observed."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Protocol

from ..targets.base import Stream
from .launched import Launched

__all__ = ["CallRecord", "Observer", "Record", "is_quiet", "quietly"]

_here = threading.local()


@dataclass(slots=True)
class CallRecord:
    """One call of a kernel.

    Attributes:
        kernel: its name.
        layouts: dtypes and dimensions of the arguments, and the options, as text.
        device: the device's name.
        start: when it began, in seconds of `time.perf_counter`; nan for what only lacks it.
        seconds: of the host.
        thread: the id of its thread, as the system has it.
    """

    kernel: str
    layouts: str
    device: str
    start: float
    seconds: float = 0.0
    thread: int = 0


@dataclass(slots=True)
class Record:
    """One launch, for hooks and observers.

    Attributes:
        kernel: the kernel's name in the catalog.
        entry: the name of the function that is launched.
        layouts: of the call's arguments, as text.
        device, target: as `nvidia:0` and `nvidia:sm_90`.
        grid: blocks in x, y, z.
        block: threads of a block.
        stream: where it is launched.
        thread: the id of its thread.
        start: when the launch began on the host, in seconds of `time.perf_counter`.
        seconds: how long the launch took on the host; 0 before it.
        error: what it has raised; None before it, and where it went well.
        device_start: when the kernel began, in seconds of `time.perf_counter`; None: not known.
        device_seconds: how long it ran; None: not known.
        launched: the function and what it is given, where an observer wants it.
    """

    kernel: str
    entry: str
    layouts: str
    device: str
    target: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    stream: Stream = field(repr=False)
    thread: int
    start: float = 0.0
    seconds: float = 0.0
    error: BaseException | None = None
    device_start: float | None = None
    device_seconds: float | None = None
    launched: Launched | None = field(default=None, repr=False)


class Observer(Protocol):
    """A listener for calls and launches. It does not raise, and any thread may call it."""

    @property
    def wants_times(self) -> bool:
        """Of the device."""
        ...

    @property
    def wants_places(self) -> bool:
        """In the host's time, for the launches on the device."""
        ...

    @property
    def wants_launched(self) -> bool:
        """`Record.launched`."""
        ...

    def entered(self, launch: Record) -> None:
        """A launch begins."""
        ...

    def launched(self, launch: Record) -> None:
        """The launch has returned, or raised; the kernel may run."""
        ...

    def timed(self, launch: Record) -> None:
        """The kernel has ended; its times are in the record, if the device tells them."""
        ...

    def called(self, call: CallRecord) -> None:
        """A call has ended, or raised."""
        ...


class quietly:
    """Within it, calls of this thread are not observed: they are an observer's own."""

    def __enter__(self) -> None:
        self._before = getattr(_here, "quiet", False)
        _here.quiet = True

    def __exit__(self, *_: object) -> None:
        _here.quiet = self._before


def is_quiet() -> bool:
    """Whether this thread is within `quietly`."""
    return bool(getattr(_here, "quiet", False))
