"""Libraries of CUDA: they are loaded by the driver's own calls, and unloaded later.

cuda.core's objects for a library and its kernel take as long to make as the driver takes to look
the kernel up, and a launch of the compiled core needs neither. They would also unload the library
where the last of them is dropped: by the garbage collector, in any thread. CUDA says nothing of
kernels that still run then, and unloading ends captures of any thread that were begun in the global
mode (NVIDIA/warp#401). So what nobody can launch any more is kept until a call that is slow anyway,
and until its launches have passed.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import cuda.core as core
from cuda.bindings import driver

from .._objects.loaded_code import LoadedCode
from .status import check, checked
from .stream import CudaEvent

if TYPE_CHECKING:
    from .device import CudaDevice
    from .stream import CudaStream

__all__ = ["CudaCode", "Leaving", "Relaxed", "load_library"]

#: Streams whose last launch one library remembers; with more of them it stays.
_MOST_STREAMS = 32


_RELAXED: Final = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


class Relaxed:
    """A scope in which this thread may do what captures of others forbid (CUDA Driver API,
    cuThreadExchangeStreamCaptureMode). Each load of a kernel has one."""

    __slots__ = ("_before", "_what")

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        self._before = check(driver.cuThreadExchangeStreamCaptureMode(_RELAXED), self._what)

    def __exit__(self, *raised: object) -> None:
        check(driver.cuThreadExchangeStreamCaptureMode(self._before), self._what)


def load_library(binary: bytes, entry: str, what: str) -> tuple[Any, Any]:
    """The driver's handles of a library and of its kernel. The device's context is current.

    Args:
        binary: a cubin, or PTX, which the driver compiles.

    Raises:
        XTargetError: the driver refuses it.
    """
    library = check(driver.cuLibraryLoadData(binary, None, None, 0, None, None, 0), what)
    try:
        return library, check(driver.cuLibraryGetKernel(library, entry.encode()), what)
    except BaseException:
        driver.cuLibraryUnload(library)  # nobody has launched it
        raise


class CudaCode(LoadedCode):
    """A loaded library; `raw` is the driver's handle."""

    __slots__ = ("_device", "_passed")

    def __init__(self, device: CudaDevice, raw: Any, where: str) -> None:
        super().__init__(raw, where, device.staying)
        self._device = device
        self._passed: dict[int, CudaEvent] = {}

    def launched(self, stream: CudaStream) -> None:
        """After a launch on another stream than the default one: note when it has passed. Later
        the stream may be gone."""
        number = stream.handle
        known = self._passed.get(number)
        if known is None and len(self._passed) >= _MOST_STREAMS:
            self.stay()
            return
        what = f"recording an event after {self.where}"
        with checked(what):
            # without timing; the event is recorded anew, which CUDA allows at any time
            options = core.EventOptions(timing_enabled=False) if known is None else None
            event = stream.raw.record(None if known is None else known.raw, options=options)
        if known is None:
            self._passed[number] = CudaEvent(event, self.where)

    def close(self) -> None:
        raw, self.raw = self.raw, None
        if raw is not None:
            self._device.leaving.add(raw, list(self._passed.values()))


class Leaving:
    """Code to unload after its events have passed. It always waits for the default stream too."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._dropped: deque[tuple[Any, list[CudaEvent]]] = deque()
        self._waiting: deque[tuple[Any, list[CudaEvent]]] = deque()

    def __len__(self) -> int:
        return len(self._dropped) + len(self._waiting)

    def add(self, raw: Any, passed: list[CudaEvent]) -> None:
        """Unload `raw` when these events have passed. May run in any thread at any moment."""
        self._dropped.append((raw, passed))
        if self._device.raw is None:  # closing it has waited, and nothing was launched since
            self._unload(self.take())

    def take(self) -> list[Any]:
        """Take all entries; `done` or `put_back` must follow."""
        return [*_taken(self._waiting), *_taken(self._dropped)]

    def put_back(self, entries: list[Any]) -> None:
        self._dropped.extend(entries)

    def done(self, entries: list[Any]) -> None:
        """Unload the taken entries: the device was waited for since."""
        if entries:
            self._unload(entries)

    def collect(self) -> None:
        """Unload what has passed, unless something is captured now."""
        if not len(self) or self._device.capturing():
            return
        passed: list[Any] = []
        fresh = _taken(self._dropped)
        try:
            if fresh:
                now = self._device.default_stream.record()
            while fresh:
                raw, events = fresh[-1]
                self._waiting.append((raw, [*events, now]))
                del raw, fresh[-1]
        finally:
            self._dropped.extend(fresh)
        waiting = _taken(self._waiting)
        try:
            while waiting:
                done = all(event.done() for event in waiting[-1][1])
                (passed if done else self._waiting).append(waiting.pop())
        finally:
            self._waiting.extend(waiting)
        self.done(passed)

    def _unload(self, entries: list[Any]) -> None:
        what = f"unloading kernels of {self._device.where}"
        with self._device.entered(), Relaxed(what):
            while entries:
                check(driver.cuLibraryUnload(entries.pop()[0]), what)


def _taken(entries: deque[Any]) -> list[Any]:
    """Take the entries that are there now; other threads may take some of them."""
    taken = []
    with suppress(IndexError):
        for _ in range(len(entries)):
            taken.append(entries.popleft())
    return taken
