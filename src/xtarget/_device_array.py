"""xtarget's own device array: enough to hold data on a device and to hand it to other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _dlpack, _registry
from ._arrays import host, kind_of
from ._dtypes import numpy_dtype
from ._errors import ArgumentError
from .spec import ArrayType, contiguous_strides
from .targets.base import Buffer, Device, Stream

__all__ = ["Array", "asarray"]


class Array:
    """An n-dimensional array on a device.

    Made by `xtarget.asarray` and returned by `xtarget.run` for such arrays. `.numpy()` copies it to
    the host; DLPack, `__cuda_array_interface__` (CUDA and HIP) and `__sycl_usm_array_interface__`
    (Intel) hand it to other libraries without a copy. Indexing with slices, integers, None and
    Ellipsis and `.T` give views.

    Attributes:
        dtype: NumPy dtype.
        shape: lengths of the dimensions.
        strides: in bytes, as NumPy's.
        address: of the first element, on the device.
        device: name of the device (`nvidia:0`).
    """

    __slots__ = ("_buffer", "_device", "_key", "_owner", "_type", "address", "stream")

    def __init__(
        self, buffer: Buffer, device: Device, type: ArrayType, address: int, stream: Stream
    ) -> None:
        self._buffer = buffer
        self._device = device
        self._type = type
        self.address = address
        self.stream = stream
        self._key = (type, device.info.name, address % 16 == 0)
        self._owner: Any = None  # another library's array whose memory this is

    @classmethod
    def empty(cls, type: ArrayType, device: Device) -> Array:
        """A new C-contiguous array, uninitialised."""
        type = ArrayType(type.dtype, type.shape, contiguous_strides(type.shape))
        stream = device.default_stream
        buffer = device.alloc(type.size * type.itemsize, stream)
        return cls(buffer, device, type, buffer.address, stream)

    @property
    def dtype(self) -> np.dtype[Any]:
        return numpy_dtype(self._type.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._type.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(stride * self._type.itemsize for stride in self._type.strides)

    @property
    def ndim(self) -> int:
        return self._type.ndim

    @property
    def size(self) -> int:
        return self._type.size

    @property
    def nbytes(self) -> int:
        return self._type.size * self._type.itemsize

    @property
    def device(self) -> str:
        return self._device.info.name

    @property
    def T(self) -> Array:
        """The array with its axes reversed, a view."""
        return self._view(
            ArrayType(self._type.dtype, self.shape[::-1], self._type.strides[::-1]), self.address
        )

    def _view(self, type: ArrayType, address: int) -> Array:
        view = Array(self._buffer, self._device, type, address, self.stream)
        view._owner = self._owner
        return view

    def __getitem__(self, index: Any) -> Array:
        # NumPy does the arithmetic on an array of the same layout that is never read
        ghost = np.lib.stride_tricks.as_strided(
            np.empty(1, self.dtype), self.shape, self.strides, writeable=False
        )
        if not isinstance(index, tuple):
            index = (index,)
        index = tuple(int(i) if isinstance(i, np.integer) else i for i in index)
        if any(
            isinstance(i, bool) or not isinstance(i, int | slice | None | type(Ellipsis))
            for i in index
        ):
            raise ArgumentError(
                "a device array takes integers, slices, None and Ellipsis as index; for others "
                "copy it with .numpy() first."
            )
        part = ghost[(*index, Ellipsis) if Ellipsis not in index else index]
        offset = part.__array_interface__["data"][0] - ghost.__array_interface__["data"][0]
        return self._view(host.array_type(part), self.address + (offset if part.size else 0))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-dimensional array")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"xtarget.Array(shape={self.shape}, dtype={self.dtype}, device={self.device!r})"

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy in host memory, after all work on the array is done."""
        low, high = self._type.span
        itemsize = self._type.itemsize
        raw = np.empty((high - low) * itemsize, np.uint8)
        if raw.size:
            part = self._device.borrow(self.address + low * itemsize, raw.size)
            part.read(raw.data, self.stream)
        values = raw.view(self.dtype)
        view = np.lib.stride_tricks.as_strided(values[-low:], self.shape, self.strides)
        return np.ascontiguousarray(view).reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array on a device cannot become a NumPy array without a copy")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    # ---------------------------------------------------------------------------- interchange

    def __dlpack_device__(self) -> tuple[int, int]:
        info = self._device.info
        if info.vendor not in _dlpack.DEVICE_TYPES:
            raise BufferError(f"DLPack has no device type for {info.vendor}; use .numpy().")
        return _dlpack.DEVICE_TYPES[info.vendor], 0 if info.vendor == "cpu" else info.ordinal

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over this memory, ordered before later work on `stream`."""
        if dl_device not in (None, self.__dlpack_device__()) or copy:
            raise BufferError("a device array is exported where it lies, without a copy")
        info = self._device.info
        if stream is None or info.vendor == "cpu":
            self.stream.synchronize()
        elif stream != -1:  # -1: the consumer wants no ordering
            # CUDA writes the legacy default stream as 1, HIP as 0
            consumer = self._device.stream(0 if stream in (0, 1) else stream)
            consumer.wait(self.stream.record())
        return _dlpack.to_capsule(self, self.address, self._type, info.vendor, info.ordinal)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._device.info.vendor not in ("nvidia", "amd"):
            raise AttributeError("__cuda_array_interface__")
        return self._interface(version=3, strides=self.strides, stream=self.stream.handle or 1)

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        if self._device.info.vendor != "intel":
            raise AttributeError("__sycl_usm_array_interface__")
        queue = self.stream.handle
        return self._interface(version=1, strides=self._type.strides, syclobj=queue)

    def _interface(self, **rest: Any) -> dict[str, Any]:
        data = (self.address if self.size else 0, False)
        return {"shape": self.shape, "typestr": self.dtype.str, "data": data, **rest}


def asarray(x: Any, device: Any = None) -> Array:
    """Put data on a device.

    Args:
        x: an array of any library, a number, or nested lists of numbers.
        device: name of the device, or a device object; None is the default device, or the one
            that `x` lies on.

    Returns:
        an `Array`: `x` itself, or its memory without a copy, where it lies on that device already.

    Raises:
        ArgumentError: a dtype that kernels do not take, or data on another device.
        NoDeviceError: no such device.
    """
    name = None if device is None else _registry.find_device(device)
    if isinstance(x, Array):
        if name in (None, x.device):
            return x
        x = x.numpy()
    if isinstance(x, bool | int | float | list | tuple):
        x = np.asarray(x)
    view = kind_of(x).view(x)
    if view.place is not None:
        if name not in (None, view.place):
            raise ArgumentError(
                f"the array lies on {view.place}, not on {name}; copy it to the host first, or "
                "leave device= out."
            )
        target = _registry.open_device(view.place)
        stream = view.kind.current_stream(target, x) or target.default_stream
        low, high = view.type.span
        itemsize = view.type.itemsize
        buffer = target.borrow(view.address + low * itemsize, (high - low) * itemsize)
        array = Array(buffer, target, view.type, view.address, stream)
        array._owner = view.owner
        return array
    target = _registry.open_device(name or _registry.default_device())
    values = host_values(view.address, view.type, view.owner)
    result = Array.empty(view.type, target)
    if values.nbytes:
        result._buffer.write(values.reshape(-1).view(np.uint8).data, result.stream)
    return result


def host_values(address: int, type: ArrayType, owner: Any) -> np.ndarray[Any, Any]:
    """Host memory of any library as a C-contiguous NumPy array: a view where it is one already."""
    if isinstance(owner, np.ndarray):
        return np.ascontiguousarray(owner).reshape(type.shape)
    return np.ascontiguousarray(host_view(address, type, owner)).reshape(type.shape)


def host_view(address: int, type: ArrayType, owner: Any) -> np.ndarray[Any, Any]:
    """Host memory as a NumPy array of the same layout, without a copy."""
    dtype = numpy_dtype(type.dtype)
    low, high = type.span

    class Memory:
        __array_interface__ = {  # noqa: RUF012 (the protocol asks for a dict)
            "shape": (max(high - low, 0) * dtype.itemsize,),
            "typestr": "|u1",
            "data": (address + low * dtype.itemsize, False),
            "version": 3,
        }
        keep = owner

    values = np.asarray(Memory()).view(dtype)
    strides = tuple(stride * dtype.itemsize for stride in type.strides)
    return np.lib.stride_tricks.as_strided(values[-low:], type.shape, strides)
