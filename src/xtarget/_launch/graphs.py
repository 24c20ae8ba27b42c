"""Graphs: `with xtarget.capture("nvidia:0") as g: ...`, then `g.replay()`.

Within the block nothing runs: each call is bound, and noted with its arrays. The vendor makes a
graph of the launches when the block ends, in one go. So a kernel that was never used before is
compiled and loaded as anywhere else, and what other threads and libraries do meanwhile disturbs
nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .._devices import choice, registry, streams
from .._system.locks import Lock
from .._values.errors import ArgumentError, DeviceLostError, LaunchError, XTargetError
from ..targets.base import Device, Event, Stream
from ..targets.optional import Capturable, MakesGraphs
from ..targets.optional import Graph as VendorGraph
from . import observe
from .interrupts import settle, unfinished
from .lifetimes import keep_until, keep_until_passed
from .lookup import Found
from .recording import Recording

__all__ = ["Graph", "capture"]

#: Streams of the caller's choice whose last replay is remembered; more are waited for.
_MOST_STREAMS = 32

_here = threading.local()


class Graph:
    """Calls that are launched together. `xtarget.capture` makes it.

    It keeps its arrays and its code. A replay computes with what the arrays hold then, and writes
    to where the captured calls did. Threads may share it: replays run one after another.

    Attributes:
        device: the name of the device.
        launches: how many kernels a replay starts.
        nbytes: of the memory that the graph has for results and temporaries.
    """

    def __init__(self, device: Device) -> None:
        self.device = device.info.name
        self.launches = self.nbytes = 0
        self._opened_device = device
        self._why: str | None = "its block has not ended"
        self._lock = Lock()
        self._recording: Recording | None = None
        self._vendors: VendorGraph | None = None
        self._shared: list[Callable[[], Stream | None]] = []
        self._own: list[Callable[[], Stream | None]] = []
        self._places: list[tuple[Callable[[], int], int, str]] = []
        self._passed: dict[int, tuple[Stream, Event]] = {}
        self._on_default = False

    def _finish(self, recording: Recording) -> None:
        """The block has ended."""
        recording.memory.close()
        recording.settle()
        if recording.steps:
            device, steps = self._opened_device, tuple(recording.steps)
            assert isinstance(device, MakesGraphs)

            def record(stream: Stream) -> None:
                for step in steps:
                    step(stream)

            self._vendors = device.graph(record)
        self._shared, self._own = recording.streams()
        self._places = recording.places()
        self._recording = recording
        self.launches, self.nbytes = recording.launches, recording.memory.nbytes
        self._why = None

    def replay(self, *, stream: Any = None) -> None:
        """Launch all of it, in order with the caller's work on its arrays.

        Args:
            stream: where, as for `xtarget.run`; None is the stream that the caller's own work on
                the arrays goes to.

        Raises:
            ArgumentError: an array has other memory than when it was captured, the stream is none
                of the device or is being captured itself.
            LaunchError: there is no whole graph: its block has not ended, or ended in an
                exception, or the graph was closed.
            DeviceLostError: the device was lost or closed.
        """
        with self._lock:
            recording = self._recording
            if recording is None:
                raise LaunchError(f"this graph of {self.device} cannot be replayed: {self._why}.")
            self._check(recording)
            if self._vendors is not None:
                self._replay(recording, self._vendors, stream)

    def _check(self, recording: Recording) -> None:
        if registry.is_lost(self._opened_device):
            raise DeviceLostError(
                f"this graph was captured on {self.device}, which was closed or lost, with all "
                "that was on it. Make its arrays again, and capture it again."
            )
        if _capture() is not None:
            raise ArgumentError(
                "a graph is replayed within xtarget.capture, and graphs do not contain others. Do "
                "it after the block, or make its calls within the block."
            )
        for address_now, address, name in self._places:
            if address_now() != address:
                raise ArgumentError(
                    f"the memory of {name} was freed or moved since the graph was captured (by a "
                    "resize of the array, for one). Capture the graph again."
                )
        if recording.consents:
            arrays = [array for array, _ in recording.arrays.values()]
            for consent in recording.consents:
                consent(arrays, None)

    def _replay(self, recording: Recording, graph: VendorGraph, stream: Any) -> None:
        device = self._opened_device
        chosen = None if stream is None else streams.resolve(device, stream)
        sources = self._own if chosen is not None else [*self._shared, *self._own]
        current = [found for source in sources if (found := source()) is not None]
        on = chosen or (current[0] if current else device.default_stream)
        if isinstance(on, Capturable) and on.capturing():
            raise ArgumentError(
                "a graph is replayed on a stream that is being captured, and graphs do not contain "
                "others. Replay it on another stream, or make its calls on this one."
            )
        others = list({id(one): one for one in current if one is not on}.values())
        for other in others:
            on.wait(other.record())
        for written in recording.written.values():
            written()
        try:
            graph.replay(on)
            self._note(on)
            if recording.synchronous:
                on.synchronize()
            for other in others:
                other.wait(on.record())
        except BaseException:
            unfinished.append(entry := [on, recording, graph])
            settle(entry)
            raise

    def _note(self, on: Stream) -> None:
        """Remember when the replay has passed: the stream may be gone by then."""
        if on is self._opened_device.default_stream:
            self._on_default = True
            return
        if len(self._passed) >= _MOST_STREAMS and id(on) not in self._passed:
            oldest = next(iter(self._passed))
            self._passed.pop(oldest)[1].synchronize()
        self._passed[id(on)] = on, on.record()

    def close(self) -> None:
        """Give its memory and its code back, once its replays have passed. Arrays that its calls
        have returned stay as long as somebody has them."""
        with self._lock:
            graph, recording = self._vendors, self._recording
            self._vendors = self._recording = None
            self._places, self._shared, self._own = [], [], []
            if recording is None:
                return
            self._why = "it was closed"
            used = [_Closing(graph), recording]
            for on, event in self._passed.values():
                keep_until(event, used, on)
            self._passed.clear()
            if self._on_default and registry.is_open(self._opened_device):
                keep_until_passed(self._opened_device.default_stream, used)

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not _ending():
            with suppress(XTargetError):  # told where the device was lost
                self.close()

    def __repr__(self) -> str:
        if self._why is not None:
            return f"<xtarget.Graph on {self.device}: {self._why}>"
        kernels = "kernel" if self.launches == 1 else "kernels"
        return f"<xtarget.Graph of {self.launches} {kernels} on {self.device}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a graph cannot be pickled or copied: it holds memory and code of this process. "
            "Capture another one."
        )


class _Closing:
    """Closes a vendor's graph when it is dropped, which is when its replays have passed."""

    def __init__(self, graph: VendorGraph | None) -> None:
        self._graph = graph

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._graph is not None and not _ending():
            with suppress(XTargetError):
                self._graph.close()


@contextmanager
def capture(device: Any = None) -> Iterator[Graph]:
    """Record the calls of this thread as a graph::

        with xtarget.capture("nvidia:0") as graph:
            xtarget.run("add", a, b, out=c)
            total = xtarget.run("sum", c)
        graph.replay()

    Calls of `run`, of kernel objects and of prepared launches become part of the graph; nothing of
    it runs before `replay`, so results have no values within the block. What other libraries, and
    other threads, do meanwhile is done at once and is not part of it. The graph keeps the code that
    it was captured with: values that a kernel reads beside its arguments are as they were.

    Args:
        device: where, by name or as a device object; None is the default device.

    Raises:
        ArgumentError: within the block: a call on another device, on host arrays that the device
            cannot use in place, or with `stream=`; another capture.
        LaunchError: the device has no graphs, or its run time refuses this one.
        NoDeviceError: there is no such device.
    """
    name = choice.default_device() if device is None else registry.find_device(device)
    opened = registry.open_device(name)
    if not isinstance(opened, MakesGraphs):
        raise LaunchError(f"{name} has no graphs. Make the calls one by one.")
    if _capture() is not None:
        raise ArgumentError(
            "xtarget.capture within xtarget.capture: a thread captures one graph at a time. End "
            "the outer block first."
        )
    graph, recording = Graph(opened), Recording(opened)

    def record(kernel: str, found: Found, on: Stream | None) -> Any:
        if on is not None:
            raise ArgumentError(
                f"{kernel}: stream= within xtarget.capture, whose calls run one after another. "
                "Leave it out, and give the stream to replay()."
            )
        return recording.add(kernel, found)

    _here.capture = recording
    observe.record_with(record)
    try:
        yield graph
    except BaseException as error:
        graph._why = f"its block ended in {type(error).__name__}; capture it again"
        raise
    finally:
        ended_here = _capture() is recording
        _here.capture = None
        observe.stop_recording()
    if not ended_here:
        raise LaunchError("a thread ends an xtarget.capture that another one has begun.")
    graph._why = "making it has failed; capture it again"
    registry.check_not_forked()
    graph._finish(recording)


def _capture() -> Recording | None:
    """That of this thread."""
    active: Recording | None = getattr(_here, "capture", None)
    return active
