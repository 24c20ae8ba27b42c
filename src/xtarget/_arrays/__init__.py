"""Arrays of every library, seen as address, layout and place.

One `Kind` per library knows how to read its arrays and how to make new ones. A kind is imported
when the first array of its library is seen, so nothing here imports an array library.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from .._errors import ArgumentError
from ..spec import ArrayType
from ..targets.base import Device, Stream

__all__ = ["Kind", "View", "is_scalar", "kind_of"]


@dataclass(frozen=True, slots=True)
class View:
    """One array as a launch sees it.

    Attributes:
        kind: the library it belongs to.
        owner: the array; keeps the memory alive.
        address: of the first element.
        type: dtype, shape, strides.
        place: name of the device it lies on; None for host memory.
        writable: may be an output.
    """

    kind: Kind
    owner: Any
    address: int
    type: ArrayType
    place: str | None
    writable: bool = True


class Kind(Protocol):
    """What xtarget has to know of an array library."""

    @property
    def name(self) -> str:
        """For messages: `NumPy`, `torch`."""
        ...

    @property
    def tracks_streams(self) -> bool:
        """An array knows the stream that its own work goes to, whatever is current."""
        ...

    def describe(self, array: Any) -> tuple[int, Hashable]:
        """Address and a key: arrays with equal keys can use the same plan (dtype, shape, strides,
        place, 16-byte alignment). On the launch path: as short as it can be."""
        ...

    def view(self, array: Any) -> View:
        """All of it.

        Raises:
            ArgumentError: an array that kernels cannot use (sparse, complex, on an unknown device).
        """
        ...

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        """The stream that the library's own work on `array` goes to at the moment; None: it has
        none and its arrays are ready."""
        ...

    def stream_source(self, device: Device) -> Callable[[], Stream | None] | None:
        """What gives the current stream of all arrays on a device, for the launch path; None
        where each array has its own."""
        ...

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        """A new C-contiguous array, uninitialised, where `like` lies: an array of this kind, or
        None for `device` (host kinds: host memory)."""
        ...


#: Root module of an array's type -> the module of its kind.
_MODULES = {
    "numpy": "host",
    "ml_dtypes": "host",
    "torch": "torch",
    "cupy": "cupy",
    "dpnp": "usm",
    "dpctl": "usm",
    "xtarget": "own",
}
#: Protocols of other libraries' arrays, best first.
_PROTOCOLS = (
    ("__cuda_array_interface__", "cuda_interface"),
    ("__sycl_usm_array_interface__", "usm"),
    ("__dlpack__", "dlpack"),
    ("__array_interface__", "host"),
)
_kinds: dict[type, Kind] = {}


def is_scalar(value: Any) -> bool:
    """A number passed by value: Python's, or NumPy's scalar types."""
    if isinstance(value, bool | int | float):
        return True
    cls = type(value)
    return (
        cls.__module__ in ("numpy", "ml_dtypes")
        and hasattr(value, "item")
        and not hasattr(value, "__setitem__")
    )


def kind_of(array: Any) -> Kind:
    """The kind of an array.

    Raises:
        ArgumentError: it is no array of a library that offers its memory.
    """
    cls = type(array)
    kind = _kinds.get(cls)
    if kind is None:
        module = next(
            (m for c in cls.__mro__ if (m := _MODULES.get(c.__module__.partition(".")[0]))), None
        )
        module = module or next((m for name, m in _PROTOCOLS if hasattr(array, name)), None)
        if module is None:
            raise ArgumentError(
                f"{cls.__module__}.{cls.__qualname__} is not an array. Pass a NumPy array "
                "(numpy.asarray), a torch tensor, a CuPy or USM array, xtarget.asarray(...), or "
                "anything with DLPack or __cuda_array_interface__."
            )
        kind = importlib.import_module(f"{__name__}.{module}").KIND
        _kinds[cls] = kind
    return kind
