"""Arrays that offer `__cuda_array_interface__` (Numba and others).

Source: CUDA Array Interface, version 3 (Numba documentation).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from .._dtypes import name_of
from .._errors import ArgumentError
from .._registry import locate
from .._streams import borrow
from ..spec import ArrayType, contiguous_strides
from ..targets.base import Device, Stream
from . import View
from .own import KIND as OWN

__all__ = ["KIND"]


class CudaInterfaceKind:
    """Any object with `__cuda_array_interface__`. Results are xtarget's own arrays, since the
    interface has no way to make one of the caller's."""

    name = "__cuda_array_interface__"
    tracks_streams = False

    def describe(self, array: Any) -> tuple[int, Hashable]:
        view = self.view(array)
        return view.address, (view.type, view.place, view.address % 16 == 0)

    def view(self, array: Any) -> View:
        interface = array.__cuda_array_interface__
        if interface.get("mask") is not None:
            raise ArgumentError("a masked array cannot be passed to a kernel; fill it first.")
        dtype = np.dtype(interface["typestr"])
        address, readonly = interface["data"]
        shape = tuple(interface["shape"])
        strides = interface.get("strides")
        if strides is None:
            elements = contiguous_strides(shape)
        else:
            elements = tuple(stride // dtype.itemsize for stride in strides)
        place = locate("nvidia", address) if address else "nvidia:0"
        type_ = ArrayType(name_of(dtype), shape, elements)
        return View(self, array, address or 0, type_, place, not readonly)

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        # the producer's stream; None and 1 are the legacy default stream, which ours is
        handle = array.__cuda_array_interface__.get("stream")
        return device.default_stream if handle in (None, 1) else borrow(device, int(handle))

    def stream_source(self, device: Device) -> Callable[[], Stream | None] | None:
        return None

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        return OWN.empty(type, device, None)


KIND = CudaInterfaceKind()
