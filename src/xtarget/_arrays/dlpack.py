"""Arrays that offer nothing but DLPack (JAX and others)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from .. import _dlpack
from ..spec import ArrayType
from ..targets.base import Device, Stream
from . import View
from .host import KIND as HOST
from .own import KIND as OWN

__all__ = ["KIND"]


@dataclass(frozen=True, slots=True)
class _Owner:
    """The caller's array and the capsule that keeps its memory exported."""

    array: Any
    capsule: Any


class DlpackKind:
    """Any object with `__dlpack__`. The producer makes its array ready before it exports it."""

    name = "DLPack"
    tracks_streams = False

    def describe(self, array: Any) -> tuple[int, Hashable]:
        view = self.view(array)
        return view.address, (view.type, view.place, type(array), view.address % 16 == 0)

    def view(self, array: Any) -> View:
        device_type, _ = array.__dlpack_device__()
        # 1 is CUDA's legacy default stream, where launches for this kind go; HIP writes it as 0
        stream = {_dlpack.DEVICE_TYPES["nvidia"]: 1, _dlpack.DEVICE_TYPES["amd"]: 0}
        if device_type in stream:
            capsule = array.__dlpack__(stream=stream[device_type])
        else:
            capsule = array.__dlpack__()
        found = _dlpack.from_capsule(capsule)
        owner = _Owner(array, capsule)
        return View(self, owner, found.address, found.type, found.place, writable=False)

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        return device.default_stream

    def stream_source(self, device: Device) -> Callable[[], Stream | None] | None:
        return None

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        on_host = like is not None and like.__dlpack_device__()[0] == _dlpack.DEVICE_TYPES["cpu"]
        kind = HOST if on_host else OWN
        return kind.empty(type, device, None)

    def finish(self, array: Any, like: Any) -> Any:
        """The result as an array of the caller's library, where that one can take DLPack in."""
        space = getattr(like, "__array_namespace__", None)
        module = space() if space else sys.modules.get(type(like).__module__.partition(".")[0])
        convert = getattr(module, "from_dlpack", None)
        return array if convert is None else convert(array)


KIND = DlpackKind()
