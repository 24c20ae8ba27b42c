"""CuPy arrays. Imported only when one was passed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import cupy

from .._dtypes import name_of, numpy_dtype
from .._streams import borrow
from ..spec import ArrayType
from ..targets.base import Device, Stream
from . import View

__all__ = ["KIND"]


@cache
def _vendor() -> str:
    return "amd" if cupy.cuda.runtime.is_hip else "nvidia"


class CupyKind:
    """CuPy's ndarray."""

    name = "CuPy"
    tracks_streams = False

    def describe(self, array: Any) -> tuple[int, Hashable]:
        address = array.data.ptr
        return address, (
            array.dtype,
            array.shape,
            array.strides,
            array.data.device_id,
            address % 16 == 0,
        )

    def view(self, array: Any) -> View:
        size = array.dtype.itemsize
        strides = tuple(stride // size for stride in array.strides)
        place = f"{_vendor()}:{array.data.device_id}"
        type_ = ArrayType(name_of(array.dtype), array.shape, strides)
        return View(self, array, array.data.ptr, type_, place)

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        with cupy.cuda.Device(device.info.ordinal):
            return borrow(device, int(cupy.cuda.get_current_stream().ptr))

    def stream_source(self, device: Device) -> Callable[[], Stream | None] | None:
        return lambda: self.current_stream(device, None)

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        with cupy.cuda.Device(device.info.ordinal):
            return cupy.empty(type.shape, numpy_dtype(type.dtype))


KIND = CupyKind()
