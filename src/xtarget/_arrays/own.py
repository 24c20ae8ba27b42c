"""xtarget's own arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from .._devices import registry
from .._values.errors import ArgumentError
from ..spec import ArrayType
from ..targets.base import Device, Stream
from . import kind_of
from .device_array import Array
from .kinds import TracksWrites, View

__all__ = ["KIND", "adopt"]


class OwnKind:
    """`xtarget.Array`."""

    name = "xtarget"
    tracks_streams = True

    def describe(self, array: Any) -> tuple[int, Hashable]:
        return array.address, array._key

    def layout(self, key: Any) -> tuple[Hashable, tuple[int, ...], tuple[int, ...] | None]:
        type_, device, aligned = key
        return (type_.dtype, device, aligned), type_.shape, type_.strides

    def view(self, array: Any) -> View:
        if registry.is_lost(array._device):
            raise ArgumentError(
                f"an array lies on a {array.device} that was closed or lost, with all that was on "
                "it. Make the array again: xtarget.asarray(...)."
            )
        return View(self, array, array.address, array._type, array.device)

    def written(self, array: Any) -> None:
        owner = array._owner
        if owner is not None:  # another library's memory
            kind = kind_of(owner)
            if isinstance(kind, TracksWrites):
                kind.written(owner)

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        stream: Stream = array.stream
        return stream

    def stream_source(self, device: Device) -> Callable[[], Stream | None] | None:
        return None

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        return Array.empty(type, device)


KIND = OwnKind()


def adopt(array: Any) -> Any:
    """Our arrays are read in place."""
    return array if isinstance(array, Array) else None
