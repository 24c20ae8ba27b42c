"""CuPy arrays. Imported only when one was passed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import Any

import cupy

from .._devices.streams import borrow, borrowed
from .._values.errors import ArgumentError
from ..spec import ArrayType
from ..targets.base import Device, Stream
from .dtypes import name_of, numpy_dtype
from .kinds import LibraryMemory, View

__all__ = ["KIND", "adopt"]


@cache
def _vendor() -> str:
    """The vendor that this build of CuPy is for: CuPy's question, so it is asked here."""
    return "amd" if cupy.cuda.runtime.is_hip else "nvidia"


@cache
def _current_stream() -> Callable[[int], Any]:
    """CuPy's current stream on the device of a number."""
    current: Callable[..., Any] = cupy.cuda.get_current_stream
    try:
        current(0)
    except TypeError:  # an older CuPy, which tells that of the current device

        def on_device(ordinal: int) -> Any:
            with _on(ordinal):
                return current()

        return on_device
    return current


def _on(ordinal: int) -> AbstractContextManager[Any]:
    """A block on a device; to enter the current one takes a tenth of a launch."""
    here = cupy.cuda.runtime.getDevice() == ordinal
    return nullcontext() if here else cupy.cuda.Device(ordinal)


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
            address & 15,
        )

    def layout(self, key: Any) -> tuple[Hashable, tuple[int, ...], tuple[int, ...] | None] | None:
        dtype, shape, steps, device, low_bits = key
        size = dtype.itemsize
        if any(step % size for step in steps):
            return None
        strides = tuple(step // size for step in steps)
        return (dtype, device, low_bits), shape, strides

    def view(self, array: Any) -> View:
        size = array.dtype.itemsize
        if any(n % size for n in (*array.strides, array.data.ptr)):
            raise ArgumentError(
                f"an array with strides {array.strides} bytes does not lie on its {size}-byte "
                "elements. Pass a contiguous copy."
            )
        strides = tuple(stride // size for stride in array.strides)
        place = f"{_vendor()}:{array.data.device_id}"
        type_ = ArrayType(name_of(array.dtype), array.shape, strides)
        return View(self, array, array.data.ptr, type_, place)

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        return borrow(device, int(_current_stream()(device.info.ordinal).ptr))

    def stream_source(self, device: Device) -> Callable[[], Stream | None] | None:
        current, ordinal, known = _current_stream(), device.info.ordinal, borrowed(device)
        return lambda: known.get(handle := int(current(ordinal).ptr)) or borrow(device, handle)

    def stream_object(self, device: Device) -> Callable[[], Any]:
        return partial(_current_stream(), device.info.ordinal)

    def memory(self, device: Device, nbytes: int, stream: Stream) -> LibraryMemory | None:
        if _vendor() != device.info.vendor:
            return None
        ordinal = device.info.ordinal
        if stream.handle != int(_current_stream()(ordinal).ptr):
            return None
        with _on(ordinal):
            held = cupy.cuda.alloc(nbytes)
        return LibraryMemory(int(held.ptr), held)

    def address_now(self, array: Any) -> Callable[[], int]:
        return lambda: int(array.data.ptr)

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        with _on(device.info.ordinal):
            return cupy.empty(type.shape, numpy_dtype(type.dtype))


KIND = CupyKind()


def adopt(array: Any) -> Any:
    """CuPy's arrays are read in place."""
    return array if isinstance(array, cupy.ndarray) else None
