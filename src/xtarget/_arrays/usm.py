"""SYCL USM arrays: dpnp's, and anything with `__sycl_usm_array_interface__` (dpctl's memory).

Source: SYCL USM Array Interface, version 1 (dpctl documentation).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from .._dtypes import name_of, numpy_dtype
from .._registry import locate
from ..spec import ArrayType, contiguous_strides
from ..targets.base import Device, Stream
from . import View
from .own import KIND as OWN

__all__ = ["KIND"]


class UsmKind:
    """USM arrays of Intel devices. The work goes to the array's own queue."""

    name = "SYCL USM"
    tracks_streams = False

    def describe(self, array: Any) -> tuple[int, Hashable]:
        view = self.view(array)
        layout = (view.type, view.place, view.writable, type(array), view.address % 16 == 0)
        return view.address, layout

    def view(self, array: Any) -> View:
        interface = array.__sycl_usm_array_interface__
        dtype = np.dtype(interface["typestr"])
        address, readonly = interface["data"]
        shape = tuple(interface["shape"])
        strides = interface.get("strides") or contiguous_strides(shape)
        address += interface.get("offset", 0) * dtype.itemsize
        place = locate("intel", interface["syclobj"])
        type_ = ArrayType(name_of(dtype), shape, tuple(strides))
        # dpctl's own memory objects write True there for what may be written
        writable = not readonly or type_module(array).startswith("dpctl")
        return View(self, array, address, type_, place, writable)

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        queue = getattr(array, "sycl_queue", None)
        return device.default_stream if queue is None else device.stream(queue)

    def stream_source(self, device: Device) -> Callable[[], Stream | None] | None:
        return None

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        if not type_module(like).startswith("dpnp"):
            return OWN.empty(type, device, None)
        import dpnp

        dtype = numpy_dtype(type.dtype)
        return dpnp.empty(type.shape, dtype=dtype, sycl_queue=like.sycl_queue)


def type_module(value: Any) -> str:
    """Where the type of a value comes from."""
    return type(value).__module__


KIND = UsmKind()
