"""CUDA graphs of launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._objects.handles import Owned, StreamBase, own
from .._objects.stream_order import OrderedDevice
from ..base import Stream
from .status import checked

_Device = OrderedDevice[Any, Any]

__all__ = ["CudaGraph", "record_graph"]


class CudaGraph(Owned):
    """A whole graph; `raw` is cuda.core's object. CUDA keeps the replays of one in order."""

    __slots__ = ("_device", "_kind", "_record")

    CLOSED = "this graph of {where} is closed. Capture it again."

    def __init__(
        self, device: _Device, kind: type[StreamBase], raw: Any, record: Callable[[Stream], None]
    ) -> None:
        super().__init__(raw, device.where)
        self._device, self._kind = device, kind
        self._record = record  # keeps the code loaded

    def replay(self, stream: Stream) -> None:
        graph, on = self.live(), own(stream, self._kind, self.where).live()
        with self._device.current(), checked(f"replaying a graph on {self.where}"):
            graph.launch(on)

    def close(self) -> None:
        graph, self.raw = self.raw, None
        if graph is not None:
            with self._device.entered():
                graph.close()


def record_graph(device: _Device, stream: Any, record: Callable[[Stream], None]) -> CudaGraph:
    """Capture what `record` starts on a stream of its own. The stream does not wait for the default
    one, and the mode is the relaxed one, so that nothing that other threads do disturbs it."""
    what, raw = f"making a graph on {device.where}", stream.live()
    with device.current():
        with checked(what):
            builder = raw.create_graph_builder()
        try:
            with checked(what):
                builder.begin_building("relaxed")
            try:
                record(stream)
            finally:
                with checked(what):
                    builder.end_building()
            with checked(what):
                return CudaGraph(device, type(stream), builder.complete(), record)
        finally:
            builder.close()
            stream.end()
