"""Arrays of every library, as address, layout and device.

One `Kind` per library (see `kinds`) knows how to read its arrays and how to make new ones. A kind
is imported when the first array of its library is seen, so nothing here imports an array library.

Some arrays are read in place again and again: NumPy's, torch's, CuPy's, our own. Any other object
is *adopted* for each call: read once, by the first protocol that it answers, into an object that
keeps the memory alive for as long as the call needs it.
"""

from __future__ import annotations

import importlib
from typing import Any

from .._values.errors import ArgumentError, XTargetError, shortened, shortened_text
from .kinds import (
    Adopted,
    AdoptedKind,
    Allocates,
    AllocatesInC,
    ChecksCalls,
    FinishesOutputs,
    KeepsMemory,
    Kind,
    LibraryMemory,
    MakesNatively,
    Movable,
    PointsToStream,
    Traced,
    TracksWrites,
    View,
)

__all__ = [
    "Adopted",
    "AdoptedKind",
    "Allocates",
    "AllocatesInC",
    "ChecksCalls",
    "FinishesOutputs",
    "KeepsMemory",
    "Kind",
    "LibraryMemory",
    "MakesNatively",
    "Movable",
    "PointsToStream",
    "Traced",
    "TracksWrites",
    "View",
    "adopt",
    "is_scalar",
    "kind_of",
    "know",
    "read_in_place",
    "view_of",
]


#: Root module of a class -> the module that knows its arrays.
_LIBRARIES = {"numpy": "host", "torch": "torch", "cupy": "cupy", "xtarget": "own"}
#: Protocols of other libraries' arrays, best first, and the modules that know them.
_PROTOCOLS = {
    "__cuda_array_interface__": "cuda_interface",
    "__sycl_usm_array_interface__": "usm",
    "__dlpack__": "dlpack",
    "__array_interface__": "host",
}
#: Kinds by the exact class of what they read in place, adopted objects included.
_kinds: dict[type, Kind] = {}
#: The protocol that an object of a class answered last. Another object of it may answer another
#: one: JAX has one class for the arrays of all devices.
_answered: dict[type, str] = {}


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


def read_in_place(cls: type) -> Kind | None:
    """The kind of a class whose objects are read directly, or are the result of `adopt`."""
    return _kinds.get(cls)


def kind_of(array: Any) -> Kind:
    """The kind of an array, or of the result of `adopt` for it."""
    kind = _kinds.get(type(array))
    return _kinds[type(adopt(array))] if kind is None else kind


def view_of(array: Any) -> View:
    """Read an array of any library once.

    Raises:
        ArgumentError: it is not an array, or kernels cannot use it.
    """
    array = adopt(array)
    return kind_of(array).view(array)


def adopt(array: Any) -> Any:
    """Return the object that represents an array during a call and keeps its memory alive.

    This is the array itself if its kind reads it in place. Otherwise it is an object that holds
    what was read from the array.

    Raises:
        ArgumentError: the object is not an array of a library that offers its memory, or kernels
            cannot use the array.
    """
    cls = type(array)
    if cls in _kinds:
        return array
    adopted = _by_library(array, cls)
    if adopted is None:
        adopted = _by_protocol(array, cls)
    if adopted is None and cls is str:
        raise ArgumentError(
            f"{shortened(array)} of type str is not an array. Give text by name, as "
            'the option that it is: run("einsum", a, b, subscripts="ij,jk->ik").'
        )
    if adopted is None:
        raise ArgumentError(
            f"{_type_name(cls)} is not an array. Pass a NumPy array (numpy.asarray), a torch "
            "tensor, a CuPy or USM array, xtarget.asarray(...), or anything with DLPack or "
            "__cuda_array_interface__."
        )
    return adopted


def _type_name(cls: type) -> str:
    """`list`, and `module.Name` for what is not built in."""
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def know(cls: type, kind: Kind) -> None:
    """Take objects of a class as arrays of a kind: what somebody has read from another library."""
    _kinds[cls] = kind


def _by_library(array: Any, cls: type) -> Any:
    for base in cls.__mro__:
        name = _LIBRARIES.get(base.__module__.partition(".")[0])
        if name is not None:
            module = importlib.import_module(f"{__name__}.{name}")
            adopted = module.adopt(array)
            if adopted is not None:
                _kinds[type(adopted)] = module.KIND
                return adopted
    return None


def _by_protocol(array: Any, cls: type) -> Any:
    if isinstance(array, type):  # a class has the attributes of its objects
        return None
    last = _answered.get(cls)
    for protocol in _PROTOCOLS if last is None else (last, *_PROTOCOLS):
        try:
            offered = getattr(array, protocol, None)
        except Exception as error:  # whatever a property of another library raises
            raise _refusal(array, protocol, error) from error
        if offered is not None:
            module = importlib.import_module(f"{__name__}.{_PROTOCOLS[protocol]}")
            try:
                adopted = module.adopt_offer(array, offered)
            except XTargetError:
                raise
            except Exception as error:  # whatever the other library raises
                raise _refusal(array, protocol, error) from error
            _answered[cls] = protocol
            _kinds[type(adopted)] = module.KIND
            return adopted
    return None


def _refusal(array: Any, protocol: str, error: Exception) -> ArgumentError:
    """Return an error that reports what another library raised when asked for its memory."""
    cls = type(array)
    reason = shortened_text(" ".join(str(error).split()))
    return ArgumentError(
        f"{cls.__module__}.{cls.__qualname__} does not give its memory by {protocol}: "
        f"{type(error).__name__}: {reason}. Pass an array that holds its values, for instance "
        "numpy.asarray(...) of it."
    )
