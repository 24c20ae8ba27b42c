"""NumPy arrays: host memory, no stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from .._dtypes import name_of, numpy_dtype
from .._errors import ArgumentError, OutOfMemoryError
from ..spec import ArrayType
from ..targets._host_memory import allocate
from ..targets.base import Device, Stream
from . import View

__all__ = ["KIND", "address_of", "array_type", "element_strides"]

_ALIGNMENT = 64


def element_strides(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Strides in elements.

    Raises:
        ArgumentError: a stride is no multiple of the element's size (a field of a record array).
    """
    size = array.dtype.itemsize
    if any(stride % size for stride in array.strides):
        raise ArgumentError(
            f"an array with strides {array.strides} bytes does not lie on its {size}-byte elements "
            "(a field of a structured array?). Pass a contiguous copy."
        )
    return tuple(stride // size for stride in array.strides)


def array_type(array: np.ndarray[Any, Any]) -> ArrayType:
    """Layout of a NumPy array."""
    return ArrayType(name_of(array.dtype), array.shape, element_strides(array))


_first_byte = ctypes.c_char.from_buffer


def address_of(array: Any) -> int:
    """Where an array's first element lies. The buffer protocol tells it in a quarter of the time
    that NumPy takes to make its dictionary, but only for what is contiguous, may be written and
    has a dtype of C's.
    """
    try:
        return ctypes.addressof(_first_byte(array))
    except (TypeError, ValueError, BufferError):
        address: int = array.__array_interface__["data"][0]
        return address


class HostKind:
    """NumPy arrays, and what offers NumPy's `__array_interface__`."""

    name = "NumPy"
    tracks_streams = False

    def describe(self, array: Any) -> tuple[int, Hashable]:
        array = np.asarray(array)
        address = address_of(array)
        return address, (
            array.dtype,
            array.shape,
            array.strides,
            array.flags.writeable,  # so that a read-only out meets its check
            address % 16 == 0,
        )

    def view(self, array: Any) -> View:
        # by name: numpy.ma is imported only by those who use it
        if any(cls.__module__.startswith("numpy.ma") for cls in type(array).__mro__):
            raise ArgumentError("a masked array cannot be passed to a kernel; fill it first.")
        array = np.asarray(array)
        if not array.flags.aligned:
            raise ArgumentError(
                "an array whose elements are not aligned cannot be passed to a kernel. "
                "Pass numpy.require(array, requirements='A')."
            )
        address = address_of(array)
        return View(self, array, address, array_type(array), None, array.flags.writeable)

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        return None

    def stream_source(self, device: Device) -> Callable[[], Stream | None] | None:
        return lambda: None

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        dtype = numpy_dtype(type.dtype)
        nbytes = type.size * dtype.itemsize
        try:
            memory = allocate(nbytes, _ALIGNMENT)
        except (MemoryError, OSError, OverflowError, ValueError) as error:
            raise OutOfMemoryError(
                f"the host has no memory for a result of shape {type.shape}, {type.dtype}: "
                f"{error}. Use smaller arrays."
            ) from error
        return memory.view(dtype).reshape(type.shape)


KIND = HostKind()
