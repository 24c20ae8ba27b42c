"""Graphs where the run time has none: the launches are made again at each replay."""

from __future__ import annotations

from collections.abc import Callable

from ..base import Event, Stream
from .handles import Opened

__all__ = ["ListedGraph"]


class ListedGraph(Opened):
    """Launches in a list; `raw` is what makes them."""

    CLOSED = "this graph of {where} is closed. Capture it again."

    def __init__(self, record: Callable[[Stream], None], where: str) -> None:
        super().__init__(record, where)
        self._last: tuple[Stream, Event | None] | None = None

    def replay(self, stream: Stream) -> None:
        record, before = self.live(), self._last
        if before is not None and before[0] is not stream:
            # the other stream may be gone since, so its event was recorded after the replay
            earlier = before[1] or before[0].record()
            stream.wait(earlier)
        record(stream)
        # the default stream stays, so its event can wait until it is wanted
        is_default = getattr(stream, "is_default", False)
        self._last = stream, None if is_default else stream.record()
