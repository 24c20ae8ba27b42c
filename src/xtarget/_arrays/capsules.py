"""DLPack in both directions, for any device.

Source: DLPack's dlpack.h (version 1.1), and the Python array API standard, `__dlpack__` and
`__dlpack_device__`.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from typing import Any, Final

import numpy as np

from .._values.errors import ArgumentError
from .._values.types import DTYPES
from .._values.value_classes import value_class
from .._values.vendors import of_dlpack_type, traits, vendors
from ..spec import ArrayType, contiguous_strides

__all__ = [
    "COPIED",
    "HOST",
    "READ_ONLY",
    "VERSION",
    "Imported",
    "device_of",
    "from_capsule",
    "to_capsule",
]

#: The newest version whose capsules are read.
VERSION: Final = (1, 1)
#: DLDeviceType kDLCPU: memory without a device id and without streams. The types of other memory
#: are the vendors' (`VendorTraits.dlpack_device_type`).
HOST: Final = 1
#: DLDataTypeCode: kDLInt, kDLUInt, kDLFloat, kDLBool; kDLBfloat, kDLFloat8_e4m3fn, kDLFloat8_e5m2
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_NAMED = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
_MOST_DIMENSIONS = 64


class _DLDevice(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


#: Bits of `flags`: the consumer may not write; the memory is a copy, which nobody else sees.
READ_ONLY, COPIED = 1, 2
_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_api = ctypes.pythonapi
_api.PyCapsule_IsValid.restype = ctypes.c_int
_api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _code(dtype: str) -> int:
    return _NAMED.get(dtype) or _CODES[DTYPES[dtype].kind]


class _Memory:
    """Memory that NumPy must not read, for its exporter."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, address: int, type: ArrayType) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": type.shape,
            "strides": tuple(stride * type.itemsize for stride in type.strides),
            "typestr": "|u1" if type.itemsize == 1 else f"<u{type.itemsize}",
            "data": (address, False),
        }


def device_of(vendor: str, ordinal: int) -> tuple[int, int]:
    """A device as DLPack writes it.

    Raises:
        BufferError: DLPack has no type for the vendor's memory.
    """
    type_ = traits(vendor).dlpack_device_type
    if type_ is None:
        raise BufferError(f"DLPack has no device type for {vendor}; use .numpy().")
    return type_, 0 if type_ == HOST else ordinal


def to_capsule(
    owner: Any,
    address: int,
    type: ArrayType,
    vendor: str,
    ordinal: int,
    *,
    max_version: tuple[int, int] | None = None,
    flags: int = 0,
) -> Any:
    """A DLPack capsule over memory that `owner` keeps alive.

    NumPy makes it, of an array of integers at that address, and what it lies on and what it is of
    is written into it then. So whoever drops the capsule or the tensor, in whatever thread and
    with whatever exception on its way, calls NumPy's compiled code and none of ours.

    Args:
        owner: held until the consumer is done.
        address: of the first element.
        type: layout.
        vendor, ordinal: where the memory lies.
        max_version: what the consumer knows; from 1.0 on, the capsule has `flags` (NumPy makes such
            ones from 2.1 on).
    """
    memory = np.asarray(_Memory(owner, address, type))
    capsule = _exported(memory, versioned=max_version is not None and max_version[0] >= 1)
    if _api.PyCapsule_IsValid(capsule, _VERSIONED_NAME):
        pointer = _api.PyCapsule_GetPointer(capsule, _VERSIONED_NAME)
        _Versioned.from_address(pointer).flags = flags
    tensor = _tensor(capsule)
    tensor.device = device_of(vendor, ordinal)
    tensor.dtype.code = _code(type.dtype)
    return capsule


def _exported(memory: Any, *, versioned: bool) -> Any:
    if versioned:
        with contextlib.suppress(TypeError):  # NumPy before 2.1
            return memory.__dlpack__(max_version=VERSION)
    return memory.__dlpack__()


@value_class(frozen=True, slots=True)
class Imported:
    """Memory of a DLPack capsule; `capsule` keeps it alive.

    Attributes:
        writable: its flags say so; one without flags says nothing.
    """

    capsule: Any
    address: int
    type: ArrayType
    place: str | None
    writable: bool


def _tensor(capsule: Any) -> _DLTensor:
    if _api.PyCapsule_IsValid(capsule, _NAME):
        return _DLTensor.from_address(_api.PyCapsule_GetPointer(capsule, _NAME))
    if _api.PyCapsule_IsValid(capsule, _VERSIONED_NAME):
        pointer = _api.PyCapsule_GetPointer(capsule, _VERSIONED_NAME)
        managed = _Versioned.from_address(pointer)
        if managed.major == VERSION[0]:
            tensor: _DLTensor = managed.tensor
            return tensor
        raise ArgumentError(
            f"a DLPack array of version {managed.major}.{managed.minor} is not supported; xtarget "
            f"reads versions up to {VERSION[0]}."
        )
    raise ArgumentError("__dlpack__ gave no DLPack capsule, or one that was used already.")


def from_capsule(capsule: Any) -> Imported:
    """Read a capsule without consuming it: its own destructor frees the memory, when we drop it.

    Raises:
        ArgumentError: dtype, layout or device that kernels cannot use.
    """
    tensor = _tensor(capsule)
    kind, device = tensor.dtype, tensor.device
    dtype = next(
        (
            d.name
            for d in DTYPES.values()
            if (kind.code, kind.bits, kind.lanes) == (_code(d.name), d.itemsize * 8, 1)
        ),
        None,
    )
    if dtype is None:
        raise ArgumentError(
            f"a DLPack array of type code {kind.code}, {kind.bits} bits, is not supported; "
            f"kernels take {', '.join(DTYPES)}."
        )
    vendor = of_dlpack_type(device.type)
    if vendor is None:
        raise ArgumentError(
            f"a DLPack array on device type {device.type} is not supported; xtarget uses "
            f"memory of {', '.join(v for v in vendors() if traits(v).dlpack_device_type)}."
        )
    if not 0 <= tensor.ndim <= _MOST_DIMENSIONS:
        raise ArgumentError(f"a DLPack array of {tensor.ndim} dimensions is not supported.")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if min(shape, default=0) < 0 or math.prod(shape) >= 2**62:
        raise ArgumentError(f"a DLPack array of shape {shape} is not possible.")
    if tensor.strides:
        strides = tuple(tensor.strides[i] for i in range(tensor.ndim))
    else:
        strides = contiguous_strides(shape)
    place = None if device.type == HOST else f"{vendor}:{device.id}"
    address = (tensor.data or 0) + tensor.byte_offset
    return Imported(capsule, address, ArrayType(dtype, shape, strides), place, _writable(capsule))


def _writable(capsule: Any) -> bool:
    if not _api.PyCapsule_IsValid(capsule, _VERSIONED_NAME):
        return False
    managed = _Versioned.from_address(_api.PyCapsule_GetPointer(capsule, _VERSIONED_NAME))
    return not managed.flags & (READ_ONLY | COPIED)
