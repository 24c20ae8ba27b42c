"""HIP graphs of launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import base
from .._objects.handles import Owned, StreamBase, own
from .._objects.stream_order import OrderedDevice
from .status import call

__all__ = ["HipGraph", "record_graph"]

_Device = OrderedDevice[Any, Any]


class HipGraph(Owned):
    """A whole graph, as a hipGraphExec_t. HIP keeps the replays of one in order."""

    __slots__ = ("_device", "_graph", "_hip", "_kind", "_record")

    CLOSED = "this graph of {where} is closed. Capture it again."

    def __init__(
        self,
        device: _Device,
        hip: Any,
        kind: type[StreamBase],
        graph: Any,
        raw: Any,
        record: Callable[[base.Stream], None],
    ) -> None:
        super().__init__(raw, device.where)
        self._device, self._hip, self._kind, self._graph = device, hip, kind, graph
        self._record = record  # keeps the code loaded

    def replay(self, stream: base.Stream) -> None:
        handle = own(stream, self._kind, self.where).handle
        doing = f"replaying a graph on {self.where}"
        with self._device.current():
            call(self._hip, "hipGraphLaunch", self.live(), handle, doing=doing)

    def close(self) -> None:
        raw, self.raw = self.raw, None
        if raw is None:
            return
        doing = f"giving back a graph of {self.where}"
        with self._device.entered():
            call(self._hip, "hipGraphExecDestroy", raw, doing=doing)
            call(self._hip, "hipGraphDestroy", self._graph, doing=doing)


def record_graph(
    device: _Device, hip: Any, stream: Any, record: Callable[[base.Stream], None]
) -> HipGraph:
    """Capture what `record` starts.

    Args:
        stream: of this graph alone; it does not wait for the null stream.

    Raises:
        LaunchError: HIP refuses it.
    """
    doing = f"making a graph on {device.where}"
    with device.current():
        graph = _captured(hip, stream, record, doing)
        instance = call(hip, "hipGraphInstantiateWithFlags", graph, 0, doing=doing)
        return HipGraph(device, hip, type(stream), graph, instance, record)


def _captured(hip: Any, stream: Any, record: Callable[[base.Stream], None], doing: str) -> Any:
    # other threads' hipFree makes a capture invalid in every other mode
    mode = hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed
    call(hip, "hipStreamBeginCapture", stream.handle, mode, doing=doing)
    try:
        record(stream)
    except BaseException:
        hip.hipStreamEndCapture(stream.handle)  # of a graph that nobody wants
        raise
    return call(hip, "hipStreamEndCapture", stream.handle, doing=doing)
