"""xtarget's own device array: enough to hold data on a device and to hand it to other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._devices import choice, registry
from .._values.errors import ArgumentError, shortened_text
from .._values.vendors import traits
from ..spec import ArrayType, contiguous_strides
from ..targets.base import Buffer, Device, Stream
from . import adopt, host, kind_of
from .dtypes import numpy_dtype

__all__ = ["Array", "asarray"]


class Array:
    """An n-dimensional array on a device.

    Made by `xtarget.asarray` and returned by `xtarget.run` for such arrays. `.numpy()` copies it to
    the host; DLPack, `__cuda_array_interface__` (CUDA and HIP) and `__sycl_usm_array_interface__`
    (Intel) hand it to other libraries without a copy. Indexing with slices, integers, None and
    Ellipsis and `.T` give views. An array of one element has a truth value, `int`, `float` and
    `.item()`. Arrays are equal to nothing but themselves in sets and dicts, and refuse `==`.

    Attributes:
        dtype: NumPy dtype.
        shape: lengths of the dimensions.
        strides: in bytes, as NumPy's.
        address: of the first element, on the device.
        device: name of the device (`nvidia:0`).
    """

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_device",
        "_key",
        "_owner",
        "_type",
        "address",
        "stream",
    )

    def __init__(
        self, buffer: Buffer, device: Device, type: ArrayType, address: int, stream: Stream
    ) -> None:
        self._buffer = buffer
        self._device = device
        self._type = type
        self.address = address
        self.stream = stream
        # the device itself: of the same name there may be another one later
        self._key = (type, device, address % 16 == 0)
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
            np.empty(1, f"u{self._type.itemsize}"), self.shape, self.strides, writeable=False
        ).view(self.dtype)
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

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise TypeError("iteration over a 0-dimensional array")
        return (self[index] for index in range(self.shape[0]))

    def item(self) -> Any:
        """The value of an array of one element, as a number of Python's.

        Raises:
            ArgumentError: it has none, or more.
        """
        if self.size != 1:
            raise ArgumentError(
                f"an array of shape {self.shape} is not a single value. Take one element of it, or "
                "use .numpy() for NumPy's any() and all()."
            )
        return self.numpy().item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __eq__(self, other: object) -> Any:
        raise ArgumentError(
            "arrays on a device are not compared by == and !=. Compare copies on the host: "
            "a.numpy() == b; for the same object: a is b."
        )

    __ne__ = __eq__
    __hash__ = object.__hash__

    def copy(self) -> Array:
        """A C-contiguous copy in memory of its own on the same device."""
        return asarray(self.numpy(), self.device)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Array:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        # to a device of the same name, in whatever process
        return asarray, (self.numpy(), self.device)

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
        return np.ascontiguousarray(host.laid_out(raw, self._type)).reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array on a device cannot become a NumPy array without a copy")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    # ---------------------------------------------------------------------------- interchange

    def __dlpack_device__(self) -> tuple[int, int]:
        from . import capsules  # not of a warm start

        return capsules.device_of(self._device.info.vendor, self._device.info.ordinal)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over this memory, ordered before later work on `stream`.

        Raises:
            BufferError: the consumer asks for it without a copy where it does not lie, or on
                another device than this one and the host.
        """
        from . import capsules

        here = self.__dlpack_device__()
        asked = here if dl_device is None else tuple(dl_device)
        if asked != here:
            if asked[0] != capsules.HOST or copy is False:
                raise BufferError(
                    f"the array lies on {self.device}. DLPack gives it there, or as a copy on the "
                    "host."
                )
            return host.export_host(self.numpy(), max_version, capsules.COPIED)
        if copy:
            there = self.copy()
            there.stream.synchronize()
            return there._capsule(max_version, capsules.COPIED)
        if stream is None or here[0] == capsules.HOST:
            self.stream.synchronize()
        elif stream != -1:  # -1: the consumer wants no ordering
            # DLPack writes the default stream as 0 for some vendors, and as 1 for others
            consumer = self._device.stream(0 if stream in (0, 1) else stream)
            consumer.wait(self.stream.record())
        return self._capsule(max_version, 0)

    def _capsule(self, max_version: tuple[int, int] | None, flags: int) -> Any:
        from . import capsules

        info = self._device.info
        place = (info.vendor, info.ordinal)
        return capsules.to_capsule(
            self, self.address, self._type, *place, max_version=max_version, flags=flags
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._check_offered("__cuda_array_interface__")
        return self._interface(version=3, strides=self.strides, stream=self.stream.handle or 1)

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        self._check_offered("__sycl_usm_array_interface__")
        queue = self.stream.handle
        return self._interface(version=1, strides=self._type.strides, syclobj=queue)

    def _check_offered(self, protocol: str) -> None:
        if traits(self._device.info.vendor).array_interface != protocol:
            raise AttributeError(protocol)

    def _interface(self, **rest: Any) -> dict[str, Any]:
        data = (self.address if self.size else 0, False)
        typestr = self.dtype.str.replace("<f1", "|V1")  # which NumPy cannot read back
        return {"shape": self.shape, "typestr": typestr, "data": data, **rest}


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
    name = None if device is None else registry.find_device(device)
    if isinstance(x, Array):
        if name in (None, x.device):
            return x
        x = x.numpy()
    if isinstance(x, bool | int | float | list | tuple):
        try:
            x = np.asarray(x)
        except Exception as error:  # rows of different lengths; what the elements raise
            raise ArgumentError(
                f"NumPy makes no array of it: {shortened_text(str(error))}. Give numbers, or rows "
                "of one length."
            ) from error
    x = adopt(x)
    view = kind_of(x).view(x)
    if view.place is not None:
        if name not in (None, view.place):
            raise ArgumentError(
                f"the array lies on {view.place}, not on {name}; copy it to the host first, or "
                "leave device= out."
            )
        target = registry.open_device(view.place)
        stream = view.kind.current_stream(target, x) or target.default_stream
        low, high = view.type.span
        itemsize = view.type.itemsize
        buffer = target.borrow(view.address + low * itemsize, (high - low) * itemsize)
        array = Array(buffer, target, view.type, view.address, stream)
        array._owner = x
        return array
    target = registry.open_device(name or choice.default_device())
    values = host_values(view.address, view.type, view.owner)
    result = Array.empty(view.type, target)
    if values.nbytes:
        result._buffer.write(values.reshape(-1).view(np.uint8).data, result.stream)
    return result


def host_values(address: int, type: ArrayType, owner: Any) -> np.ndarray[Any, Any]:
    """Host memory of any library as a C-contiguous NumPy array: a view where it is one already."""
    if isinstance(owner, np.ndarray):
        return np.ascontiguousarray(owner).reshape(type.shape)
    return np.ascontiguousarray(host.host_view(address, type, owner)).reshape(type.shape)
