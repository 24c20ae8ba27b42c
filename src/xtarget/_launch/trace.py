"""`XTARGET_TRACE=trace.json`: a Chrome trace of calls, their steps, and kernels on the device.

Perfetto (ui.perfetto.dev) and chrome://tracing open it. Times are microseconds of the system's
monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Any

from .._system import spans
from .._system.life import at_exit, in_forked_child
from .._system.locks import Lock
from .._system.spans import Span
from .._system.trace_file import TraceFile
from .._values import environment
from .._values.errors import ArgumentError
from . import observe
from .device_times import settle_times
from .records import CallRecord, Record

__all__ = ["Trace", "begin_from_environment"]

#: Numbers of processes that stand for devices, and of threads that stand for their streams, begin
#: above those that systems give.
_DEVICES = 1 << 30


class Trace:
    """Writes what it is told to a file.

    Raises:
        OSError, ValueError: as `TraceFile`.
    """

    wants_times = wants_places = True
    wants_launched = False

    def __init__(self, path: Path) -> None:
        self._file: TraceFile | None = TraceFile(path)
        self.path = self._file.path
        self._lock = Lock()
        self._flows = 0
        self._waits_for_exit = False
        self._forget_tracks()
        in_forked_child(self._forget_tracks)

    def _forget_tracks(self) -> None:
        self._process = os.getpid()
        #: What was given a name in the file: threads; devices and streams, with their numbers.
        self._threads: set[int] = set()
        self._devices: dict[str, int] = {}
        self._streams: dict[tuple[str, Any], tuple[int, float]] = {}

    def begin(self) -> None:
        observe.add(self)
        spans.listen(self._stepped)

    def end(self) -> None:
        """Write what is known, and stop."""
        observe.remove(self)
        spans.end(self._stepped)
        self.settle()
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def settle(self) -> None:
        """Write the times of launches that have not been asked for yet."""
        settle_times()
        self._flush()

    # ---------------------------------------------------------------------------------- events

    def entered(self, launch: Record) -> None:
        pass

    def launched(self, launch: Record) -> None:
        details = {
            "entry": launch.entry,
            "grid": launch.grid,
            "block": launch.block,
            "device": launch.device,
            "target": launch.target,
        }
        if launch.error is not None:
            details["error"] = f"{type(launch.error).__name__}: {launch.error}"[:500]
        self._slice("launch", launch.kernel, launch.start, launch.seconds, launch.thread, details)
        if not self._waits_for_exit:  # after the device was opened, so before it is closed
            self._waits_for_exit = True
            at_exit(self.settle)

    def timed(self, launch: Record) -> None:
        if launch.device_start is None or launch.device_seconds is None:
            return
        with self._lock:
            process = self._device(launch.device)
            stream, free = self._stream(launch, process)
            # what two clocks disagree by must not make kernels of a stream overlap
            start = max(launch.device_start, free)
            key = launch.device, _handle(launch)
            self._streams[key] = stream, start + launch.device_seconds
            self._flows += 1
            flow = {"cat": "flow", "name": "launch", "id": f"{self._process}.{self._flows}"}
        self._add(
            {
                "ph": "X",
                "cat": "device",
                "name": launch.kernel,
                "pid": process,
                "tid": stream,
                "ts": _micro(start),
                "dur": _micro(launch.device_seconds),
                "args": {"entry": launch.entry, "grid": launch.grid, "arguments": launch.layouts},
            }
        )
        here = {"pid": self._process, "tid": launch.thread, "ts": _micro(launch.start)}
        self._add({"ph": "s", **flow, **here})
        there = {"pid": process, "tid": stream, "ts": _micro(start)}
        self._add({"ph": "f", "bp": "e", **flow, **there})

    def called(self, call: CallRecord) -> None:
        details = {"arguments": call.layouts, "device": call.device}
        self._slice("call", call.kernel, call.start, call.seconds, call.thread, details, now=True)

    def _stepped(self, step: Span) -> None:
        name = f"{step.step} {step.name}"
        details = {"kernel": step.name, **step.details}
        self._slice(step.step, name, step.start, step.seconds, step.thread, details, now=True)

    # ----------------------------------------------------------------------------------- tracks

    def _slice(
        self,
        category: str,
        name: str,
        start: float,
        seconds: float,
        thread: int,
        details: dict[str, Any],
        *,
        now: bool = False,
    ) -> None:
        """A span of the host's time."""
        if thread not in self._threads:
            if not self._threads:
                self._name("process_name", self._process, 0, f"host, process {self._process}")
            self._threads.add(thread)
            self._name("thread_name", self._process, thread, threading.current_thread().name)
        self._add(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": self._process,
                "tid": thread,
                "ts": _micro(start),
                "dur": _micro(seconds),
                "args": details,
            },
            now=now,
        )

    def _device(self, name: str) -> int:
        number = self._devices.get(name)
        if number is None:
            number = _DEVICES + self._process * 64 + len(self._devices)
            self._devices[name] = number
            self._name("process_name", number, 0, f"{name}, of process {self._process}")
        return number

    def _stream(self, launch: Record, process: int) -> tuple[int, float]:
        key = launch.device, _handle(launch)
        known = self._streams.get(key)
        if known is None:
            count = sum(device == launch.device for device, _ in self._streams)
            known = count + 1, 0.0
            self._name("thread_name", process, known[0], f"stream {count}")
        return known

    def _name(self, what: str, process: int, thread: int, name: str) -> None:
        self._add({"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}})

    def _add(self, event: dict[str, Any], *, now: bool = False) -> None:
        file = self._file
        if file is not None:
            try:
                file.add(event, now=now)
            except OSError as error:
                self._stop(error)

    def _flush(self) -> None:
        file = self._file
        if file is not None:
            try:
                file.flush()
            except OSError as error:
                self._stop(error)

    def _stop(self, error: OSError) -> None:
        self._file = None
        observe.remove(self)
        spans.end(self._stepped)
        logging.getLogger("xtarget").warning(
            "the trace %s ends here: it cannot be written (%s). Calls go on.", self.path, error
        )


def _micro(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _handle(launch: Record) -> Any:
    handle = getattr(launch.stream, "raw", None)
    return handle if isinstance(handle, int) else id(handle)


_lock = Lock()
#: Is there a trace, or a failed try of one? Set before it is made: a signal handler may call.
_tried = False


def begin_from_environment() -> None:
    """Begin the trace that `XTARGET_TRACE` asks for; once in a process.

    Raises:
        ArgumentError: it cannot be written.
    """
    global _tried
    with _lock:  # other threads wait until it is there
        if _tried:
            return
        path = environment.trace_file()
        if path is None:
            return
        _tried = True
        try:
            Trace(path).begin()
        except (OSError, ValueError) as error:
            _tried = False  # whoever asks next is told too
            why = str(error)
            if isinstance(error, OSError):
                why = f"cannot be written: {error.strerror}. Name a file that can be written to."
            raise ArgumentError(f"XTARGET_TRACE={path} {why}") from error
