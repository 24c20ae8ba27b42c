"""Arrays that offer `__cuda_array_interface__` (Numba and others).

Source: CUDA Array Interface, version 3 (Numba documentation).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._devices.registry import locate
from .._devices.streams import borrow
from .._values import vendors
from .._values.errors import ArgumentError, XTargetError
from ..spec import ArrayType, contiguous_strides
from ..targets.base import Device, Stream
from .dtypes import name_of
from .kinds import Adopted, AdoptedKind, View
from .own import KIND as OWN

__all__ = ["KIND", "adopt_offer"]


class CudaArray(Adopted):
    """The data read from an object with `__cuda_array_interface__`."""

    __slots__ = ("stream",)

    def __init__(self, array: Any, view: View, stream: int | None) -> None:
        super().__init__(array, view)
        self.stream = stream


class CudaInterfaceKind(AdoptedKind):
    """Results are xtarget's own arrays, since the interface has no way to make one of the
    caller's."""

    name = "__cuda_array_interface__"

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        # the producer's stream; None and 1 are the legacy default stream, which ours is
        handle = array.stream
        return device.default_stream if handle in (None, 1) else borrow(device, handle)

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        return OWN.empty(type, device, None)


KIND = CudaInterfaceKind()


def adopt_offer(array: Any, interface: Any) -> CudaArray:
    """Read the interface of an object.

    Raises:
        ArgumentError: a masked array, a dtype that kernels do not take, no CUDA memory.
    """
    if interface.get("mask") is not None:
        raise ArgumentError("a masked array cannot be passed to a kernel; fill it first.")
    dtype = np.dtype(interface["typestr"])
    address, readonly = interface["data"]
    address = int(address or 0)
    shape = tuple(int(length) for length in interface["shape"])
    strides = interface.get("strides")
    if strides is None:
        elements = contiguous_strides(shape)
    elif any(stride % dtype.itemsize for stride in strides):
        raise ArgumentError(
            f"an array with strides {strides} bytes does not lie on its {dtype.itemsize}-byte "
            "elements. Pass a contiguous copy."
        )
    else:
        elements = tuple(int(stride) // dtype.itemsize for stride in strides)
    type_ = ArrayType(name_of(dtype), shape, elements)
    if not address and type_.size:
        raise ArgumentError(f"{type(array).__qualname__} of shape {shape} has no memory.")
    if address % dtype.itemsize:
        raise ArgumentError(
            "an array whose elements are not aligned cannot be passed to a kernel. Pass a copy."
        )
    view = View(KIND, (array, interface), address, type_, _place(address), not readonly)
    stream = interface.get("stream")
    return CudaArray(array, view, None if stream is None else int(stream))


def _place(address: int) -> str:
    vendor = vendors.of_array_interface(KIND.name)
    if not address:
        return f"{vendor}:0"
    try:
        return locate(vendor, address)
    except Exception as error:  # a driver that is missing, or fails in a way of its own
        reason = " ".join(str(error).split())
        where = "" if isinstance(error, XTargetError) else f"{type(error).__name__}: "
        raise ArgumentError(
            f"an array with __cuda_array_interface__ lies in no CUDA memory that can be used here "
            f"({where}{reason}). `xtarget devices` says what is there."
        ) from error
