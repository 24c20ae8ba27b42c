"""NumPy arrays: host memory, no stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from types import NoneType
from typing import Any

import numpy as np

from .._values.errors import ArgumentError, OutOfMemoryError
from ..spec import ArrayType
from ..targets._objects.host_memory import allocate
from ..targets.base import Device, Stream
from .dtypes import name_of, numpy_dtype
from .kinds import View

__all__ = [
    "KIND",
    "address_of",
    "adopt",
    "adopt_offer",
    "array_type",
    "element_strides",
    "host_bytes",
    "host_view",
    "laid_out",
]

_ALIGNMENT = 64
_CONTIGUOUS = 0x0001
#: NPY_ARRAY_ALIGNED and NPY_ARRAY_WRITEABLE, which `view` looks at (ndarraytypes.h), and that.
_CHECKED_FLAGS = 0x0100 | 0x0400 | _CONTIGUOUS
_MOST_DIMENSIONS = 64 if int(np.__version__.partition(".")[0]) >= 2 else 32


def element_strides(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Strides in elements.

    Raises:
        ArgumentError: a stride is not a multiple of the element's size (a field of a record array).
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


def export_host(array: Any, max_version: tuple[int, int] | None, flags: int = 0) -> Any:
    """A DLPack capsule over a NumPy array."""
    place = ("cpu", 0)
    from . import capsules  # not of a warm start

    if not array.flags.writeable:
        flags |= capsules.READ_ONLY
    type_ = array_type(array)
    return capsules.to_capsule(
        array, address_of(array), type_, *place, max_version=max_version, flags=flags
    )


def address_of(array: Any) -> int:
    """Return the address of an array's first element.

    The buffer protocol gives it in a quarter of the time that NumPy takes to make its dictionary.
    But this works only for arrays that are contiguous and writable and have a dtype of C.
    """
    try:
        return ctypes.addressof(_first_byte(array))
    except (TypeError, ValueError, BufferError):
        address: int = array.__array_interface__["data"][0]
        return address


class _Memory:
    """Host memory of somebody else's, as NumPy asks for it; it keeps its owner alive."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.__array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }
        self._owner = owner


def host_bytes(address: int, nbytes: int, owner: Any) -> np.ndarray[Any, Any]:
    """Host memory as bytes, without a copy."""
    return np.asarray(_Memory(address, nbytes, owner))


def host_view(address: int, type: ArrayType, owner: Any) -> np.ndarray[Any, Any]:
    """Host memory as a NumPy array of the same layout, without a copy."""
    low, high = type.span
    size = type.itemsize
    return laid_out(host_bytes(address + low * size, max(high - low, 0) * size, owner), type)


def laid_out(values: np.ndarray[Any, Any], type: ArrayType) -> np.ndarray[Any, Any]:
    """Bytes from an array's lowest element on as that array, without a copy."""
    low, size = type.span[0], type.itemsize
    strides = tuple(stride * size for stride in type.strides)
    return np.ndarray(type.shape, numpy_dtype(type.dtype), values.data, -low * size, strides)


class HostKind:
    """NumPy arrays, and objects with NumPy's `__array_interface__`."""

    name = "NumPy"
    tracks_streams = False

    def describe(self, array: Any) -> tuple[int, Hashable]:
        address = address_of(array)
        return address, (
            array.dtype,
            array.shape,
            array.strides,
            array.flags.num & _CHECKED_FLAGS,
            address % 16 == 0,
        )

    def layout(self, key: Any) -> tuple[Hashable, tuple[int, ...], tuple[int, ...] | None] | None:
        dtype, shape, steps, flags, aligned = key
        rest = (dtype, flags, aligned)
        if flags & _CONTIGUOUS:
            return rest, shape, None
        size = dtype.itemsize
        strides = tuple([step // size for step in steps])
        return None if any(step % size for step in steps) else (rest, shape, strides)

    def view(self, array: Any) -> View:
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
        return NoneType  # NumPy has no streams: the answer to each call is None

    def address_now(self, array: Any) -> Callable[[], int]:
        return partial(address_of, array)

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        dtype = numpy_dtype(type.dtype)
        if type.ndim > _MOST_DIMENSIONS:
            raise ArgumentError(
                f"a result of {type.ndim} dimensions is not possible: NumPy has at most "
                f"{_MOST_DIMENSIONS}. Reshape the arrays."
            )
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


class _Offer:
    """An object's `__array_interface__`, read once, because some objects make new memory for each
    answer (an image of Pillow's gives new bytes). A NumPy array made of this keeps both alive."""

    __slots__ = ("__array_interface__", "array")

    def __init__(self, array: Any, interface: Any) -> None:
        self.__array_interface__ = interface
        self.array = array


def adopt(array: Any) -> Any:
    """NumPy's arrays are read in place, their subclasses too.

    Raises:
        ArgumentError: a masked array.
    """
    if not isinstance(array, np.ndarray):
        return np.asarray(array) if isinstance(array, np.generic) else None
    # by name: numpy.ma is imported only by those who use it
    if any(cls.__module__.startswith("numpy.ma") for cls in type(array).__mro__):
        raise ArgumentError("a masked array cannot be passed to a kernel; fill it first.")
    return array


def adopt_offer(array: Any, interface: Any) -> np.ndarray[Any, Any]:
    """A NumPy array over memory that another object offers by `__array_interface__`."""
    if isinstance(interface, Mapping) and interface.get("mask") is not None:
        raise ArgumentError("a masked array cannot be passed to a kernel; fill it first.")
    return np.asarray(_Offer(array, interface))
