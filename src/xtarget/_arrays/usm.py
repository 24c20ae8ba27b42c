"""SYCL USM arrays: dpnp's, and anything with `__sycl_usm_array_interface__` (dpctl's memory).

Source: SYCL USM Array Interface, version 1 (dpctl documentation).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._devices.registry import locate
from .._values import vendors
from ..spec import ArrayType, contiguous_strides
from ..targets.base import Device, Stream
from .dtypes import name_of, numpy_dtype
from .kinds import Adopted, AdoptedKind, View
from .own import KIND as OWN

__all__ = ["KIND", "adopt_offer"]

_INTERFACE = "__sycl_usm_array_interface__"


class UsmArray(Adopted):
    """The data read from a USM array."""

    __slots__ = ()


class UsmKind(AdoptedKind):
    """USM arrays of Intel devices. The work goes to the array's own queue."""

    name = "SYCL USM"

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        queue = getattr(array.array, "sycl_queue", None)
        return device.default_stream if queue is None else device.stream(queue)

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        if not _root_module(like.array).startswith("dpnp"):
            return OWN.empty(type, device, None)
        import dpnp

        dtype = numpy_dtype(type.dtype)
        return dpnp.empty(type.shape, dtype=dtype, sycl_queue=like.array.sycl_queue)


KIND = UsmKind()


def adopt_offer(array: Any, interface: Any) -> UsmArray:
    """Read the interface of a USM array.

    Raises:
        XTargetError: a dtype that kernels do not take, or memory of an unknown device.
    """
    dtype = np.dtype(interface["typestr"])
    address, readonly = interface["data"]
    shape = tuple(interface["shape"])
    strides = interface.get("strides") or contiguous_strides(shape)
    address += interface.get("offset", 0) * dtype.itemsize
    place = locate(vendors.of_array_interface(_INTERFACE), interface["syclobj"])
    type_ = ArrayType(name_of(dtype), shape, tuple(strides))
    # dpctl's own memory objects write True there for what may be written
    writable = not readonly or _root_module(array).startswith("dpctl")
    view = View(KIND, (array, interface), address, type_, place, writable)
    return UsmArray(array, view)


def _root_module(value: Any) -> str:
    """Return the name of the module that defines the type of a value."""
    return type(value).__module__
