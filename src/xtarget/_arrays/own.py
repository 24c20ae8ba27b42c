"""xtarget's own arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from .._device_array import Array
from ..spec import ArrayType
from ..targets.base import Device, Stream
from . import View

__all__ = ["KIND"]


class OwnKind:
    """`xtarget.Array`."""

    name = "xtarget"
    tracks_streams = True

    def describe(self, array: Any) -> tuple[int, Hashable]:
        return array.address, array._key

    def view(self, array: Any) -> View:
        return View(self, array, array.address, array._type, array.device)

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        stream: Stream = array.stream
        return stream

    def stream_source(self, device: Device) -> Callable[[], Stream | None] | None:
        return None

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        return Array.empty(type, device)


KIND = OwnKind()
