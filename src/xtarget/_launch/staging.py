"""Host arrays on devices that cannot use them in place, and what outputs hold before a launch.

An array means the same on every device. What a kernel writes is copied back; an output that it may
leave parts of, or reads first, is copied in before, or set to its declared beginning.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._arrays import View, view_of
from .._arrays.dtypes import numpy_dtype
from .._arrays.host import host_bytes, host_view
from .._values.errors import ArgumentError
from .._values.value_classes import value_class
from ..spec import ArrayType
from ..targets.base import Buffer, Device, Stream
from ..targets.optional import Fills

__all__ = [
    "Staging",
    "copy_in",
    "copy_out",
    "fill",
    "packed_bytes",
    "pattern_of",
    "read_back",
    "side_by_side",
    "write",
]

#: Pieces of one allocation begin at multiples of so many bytes.
_APART = 256

#: Bytes of host memory that a device without a way of its own is filled from.
_CHUNK = 16 << 20


@value_class(frozen=True, slots=True)
class Staging:
    """The copies of a call between the host and the device.

    Attributes:
        inputs: for each argument, True if it is copied to the device.
        updates: indices of the arguments that are copied back.
        output: True if the results are copied back.
        out_in: True if the caller's `out` is copied to the device first.
    """

    inputs: tuple[bool, ...]
    updates: tuple[int, ...]
    output: bool
    out_in: bool


def packed_bytes(view: View) -> int:
    """Bytes of a host array without its broadcast dimensions."""
    lengths = zip(view.type.shape, view.type.strides, strict=True)
    return math.prod(1 if s == 0 and n else n for n, s in lengths) * view.type.itemsize


def _packed(view: View) -> np.ndarray[Any, Any]:
    """A host array without its broadcast dimensions, C-contiguous."""
    values = host_view(view.address, view.type, view.owner)
    part = values[tuple(slice(0, 1) if s == 0 else slice(None) for s in view.type.strides)]
    return np.ascontiguousarray(part).reshape(part.shape)


def write(buffer: Buffer, view: View, stream: Stream) -> None:
    """Copy a host array of any layout to the device."""
    values = _bytes(view) if view.type.contiguous else _packed(view).reshape(-1).view(np.uint8)
    if values.nbytes:
        buffer.write(values.data, stream)


def _bytes(view: View) -> np.ndarray[Any, Any]:
    """The memory of a contiguous host array."""
    return host_bytes(view.address, view.type.size * view.type.itemsize, view.owner)


def read_back(buffer: Buffer, array: Any, stream: Stream) -> None:
    """Copy from the device into a host array of any layout."""
    view = view_of(array)
    if not view.type.size:
        return
    if view.type.contiguous:
        buffer.read(_bytes(view).data, stream)
        return
    target = host_view(view.address, view.type, view.owner)
    values = np.empty(view.type.shape, target.dtype)
    buffer.read(values.reshape(-1).view(np.uint8).data, stream)
    target[...] = values


def copy_in(to: int, address: int, nbytes: int, array: Any, *, contiguous: bool) -> None:
    """Copy a host array of any layout to other memory of the host.

    Args:
        address: of its first element.
    """
    if contiguous:
        ctypes.memmove(to, address, nbytes)
    elif nbytes:
        values = _packed(view_of(array))
        ctypes.memmove(to, values.ctypes.data, nbytes)


def copy_out(source: int, nbytes: int, array: Any) -> None:
    """Copy from other memory of the host into a host array of any layout."""
    view = view_of(array)
    if view.type.contiguous:
        ctypes.memmove(view.address, source, nbytes)
    elif nbytes:
        target = host_view(view.address, view.type, view.owner)
        values = host_bytes(source, nbytes, None).view(target.dtype)
        target[...] = values.reshape(view.type.shape)


def side_by_side(sizes: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """How many bytes pieces of memory take together, and where each begins: one allocation costs
    several microseconds."""
    total, places = 0, []
    for nbytes in sizes:
        places.append(total)
        total += -(-max(nbytes, 1) // _APART) * _APART
    return total, tuple(places)


def pattern_of(kernel: str, number: int, init: bool | int | float, type_: ArrayType) -> bytes:
    """The bytes of an element of an output that begins as `init`.

    Raises:
        ArgumentError: its dtype has no such value, or the output has gaps.
    """
    dtype = numpy_dtype(type_.dtype)
    try:
        with np.errstate(all="ignore"):
            value = np.full(1, init, dtype)
        exact = dtype.kind not in "biu" or int(value[0]) == init
    except (TypeError, ValueError, OverflowError):
        exact = False
    if not exact:
        raise ArgumentError(
            f"{kernel}: its output {number + 1} begins as {init!r} (init), which does not "
            f"fit into {type_.dtype}. Correct it in the kernel's spec."
        )
    if not type_.contiguous:
        raise ArgumentError(
            f"{kernel}: out is not C-contiguous (shape {type_.shape}, strides {type_.strides} "
            "elements), and this kernel's output is set to its beginning first (init). Give a "
            "contiguous out."
        )
    return value.tobytes()


def fill(device: Device, address: int, nbytes: int, pattern: bytes, stream: Stream) -> None:
    """Set memory to a repeated pattern, in order on the stream."""
    buffer = device.borrow(address, nbytes)
    if isinstance(buffer, Fills):
        buffer.fill(pattern, stream)
        return
    part = min(nbytes, _CHUNK // len(pattern) * len(pattern))
    source = memoryview(np.frombuffer(pattern * (part // len(pattern)), np.uint8))  # type: ignore[arg-type]  # it is a buffer
    for start in range(0, nbytes, part):
        length = min(part, nbytes - start)
        device.borrow(address + start, length).write(source[:length], stream)
