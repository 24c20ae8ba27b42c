"""DLPack in both directions, for any device.

Source: DLPack's dlpack.h (version 0.8 structures, which every version of the protocol accepts), and
the Python array API standard, `__dlpack__` and `__dlpack_device__`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ._errors import ArgumentError
from ._types import DTYPES
from .spec import ArrayType, contiguous_strides

__all__ = ["DEVICE_TYPES", "Imported", "from_capsule", "to_capsule"]

#: Vendor -> DLDeviceType, for the memory our drivers allocate.
DEVICE_TYPES: Final[Mapping[str, int]] = {"cpu": 1, "nvidia": 2, "amd": 10, "intel": 14}
_VENDORS = {code: vendor for vendor, code in DEVICE_TYPES.items()}
#: DLDataTypeCode: kDLInt, kDLUInt, kDLFloat, kDLBfloat, kDLBool
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_BFLOAT = 4


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensor(ctypes.Structure):
    pass


_Deleter: Any = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = (
    ("tensor", _DLTensor),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", _Deleter),
)

_NAME, _USED = b"dltensor", b"used_dltensor"
_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)

#: What keeps exported memory alive until the consumer calls the deleter.
_exported: dict[int, tuple[Any, ...]] = {}


def _forget(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


def _destroy(capsule: int) -> None:
    # a capsule nobody consumed still has its first name
    is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
        ("PyCapsule_IsValid", _api)
    )
    if is_valid(capsule, _NAME):
        pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", _api)
        )(capsule, _NAME)
        _exported.pop(pointer, None)


_release = _Deleter(_forget)
_destroy_capsule = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_destroy)


def to_capsule(owner: Any, address: int, type: ArrayType, vendor: str, ordinal: int) -> Any:
    """A DLPack capsule over memory that `owner` keeps alive.

    Args:
        owner: held until the consumer is done.
        address: of the first element.
        type: layout.
        vendor, ordinal: where the memory lies.
    """
    dtype = DTYPES[type.dtype]
    ndim = len(type.shape)
    shape, strides = (ctypes.c_int64 * ndim)(*type.shape), (ctypes.c_int64 * ndim)(*type.strides)
    managed = _DLManagedTensor()
    tensor = managed.tensor
    tensor.data = address
    tensor.device_type, tensor.device_id = DEVICE_TYPES[vendor], 0 if vendor == "cpu" else ordinal
    tensor.ndim = ndim
    tensor.code = _BFLOAT if dtype.name == "bfloat16" else _CODES[dtype.kind]
    tensor.bits, tensor.lanes = dtype.itemsize * 8, 1
    tensor.shape, tensor.strides = shape, strides
    managed.deleter = _release
    _exported[ctypes.addressof(managed)] = (owner, managed, shape, strides)
    return _api.PyCapsule_New(ctypes.addressof(managed), _NAME, _destroy_capsule)


@dataclass(frozen=True, slots=True)
class Imported:
    """Memory of a DLPack capsule; `capsule` keeps it alive."""

    capsule: Any
    address: int
    type: ArrayType
    place: str | None


def from_capsule(capsule: Any) -> Imported:
    """Read a capsule without consuming it: its own destructor frees the memory, when we drop it.

    Raises:
        ArgumentError: dtype or device that kernels cannot use.
    """
    pointer = _api.PyCapsule_GetPointer(capsule, _NAME)
    tensor = ctypes.cast(pointer, ctypes.POINTER(_DLManagedTensor)).contents.tensor
    dtype = next(
        (
            d.name
            for d in DTYPES.values()
            if d.itemsize * 8 == tensor.bits
            and tensor.lanes == 1
            and tensor.code == (_BFLOAT if d.name == "bfloat16" else _CODES[d.kind])
        ),
        None,
    )
    if dtype is None:
        raise ArgumentError(
            f"a DLPack array of type code {tensor.code}, {tensor.bits} bits, is not supported; "
            f"kernels take {', '.join(DTYPES)}."
        )
    if tensor.device_type not in _VENDORS:
        raise ArgumentError(
            f"a DLPack array on device type {tensor.device_type} is not supported; xtarget uses "
            "memory of CPUs, CUDA, ROCm and oneAPI devices."
        )
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[i] for i in range(tensor.ndim))
    else:
        strides = contiguous_strides(shape)
    vendor = _VENDORS[tensor.device_type]
    place = None if vendor == "cpu" else f"{vendor}:{tensor.device_id}"
    address = (tensor.data or 0) + tensor.byte_offset
    return Imported(capsule, address, ArrayType(dtype, shape, strides), place)
