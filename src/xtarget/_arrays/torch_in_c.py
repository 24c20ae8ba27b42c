"""torch's functions for C programs, by which the compiled core makes tensors without Python.

Those of `torch/csrc/inductor/aoti_torch/c/shim.h` keep their names and arguments from version to
version; the one that makes an object of Python is C++, and is tried before it is used.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["allocator", "entry", "looks", "number_of_dtype", "transforms"]

_CPU = "libtorch_cpu.so"
#: `THPVariable_Wrap` takes a reference (torch 2.12 and newer) or a tensor, for which C++ passes its
#: address as well.
_WRAPS = ("_Z16THPVariable_WrapRKN2at10TensorBaseE", "_Z16THPVariable_WrapN2at10TensorBaseE")

#: `c10::TensorImpl::has_storage() const`.
_HAS_STORAGE = "_ZNK3c1010TensorImpl11has_storageEv"
#: `c10::impl::tls_is_dispatch_key_included(DispatchKey)`.
_IS_INCLUDED = "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE"


def entry(torch: Any, library: str, symbol: str) -> int:
    """The address of a function of torch's; 0: there is none."""
    folder = Path(torch.__file__).parent / "lib"
    try:  # it is loaded: this finds it and loads nothing
        found = ctypes.CDLL(str(folder / library), mode=os.RTLD_NOLOAD | os.RTLD_NOW)[symbol]
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(found, ctypes.c_void_p).value or 0


@cache
def number_of_dtype(torch: Any, dtype: str) -> int | None:
    """The code of a dtype in torch's functions for C; None: they do not know it."""
    address = entry(torch, _CPU, f"aoti_torch_dtype_{dtype}")
    return int(ctypes.CFUNCTYPE(ctypes.c_int32)(address)()) if address else None


@cache
def transforms(torch: Any) -> tuple[int, tuple[int, ...]] | None:
    """The function that says whether all calls of this thread go to a key of torch's, and the keys
    of the modes and transforms that come after gradients; None: it is missing or wrong."""
    keys = torch._C.DispatchKey
    last = int(keys.StartOfDenseBackends)
    below, usual = torch._C._after_autograd_keyset, (keys.ADInplaceOrView, keys.BackendSelect)
    found = [
        key
        for key in keys.__members__.values()
        if 0 < int(key) < last and below.has(key) and key not in usual
    ]
    address = entry(
        torch, "libc10.so", "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE"
    )
    if not address or keys.FuncTorchDynamicLayerBackMode not in found:
        return None
    is_included = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_uint16)(address)
    if any(is_included(int(key)) for key in found) or not is_included(int(keys.BackendSelect)):
        return None
    return address, tuple(map(int, found))


def looks(torch: Any, place: int) -> tuple[int, ...]:
    """Functions that say whether a tensor has memory of its own, and tell its dimensions, shape,
    strides, dtype and device (`look` in `_core/python.h`); zeros where one is missing or wrong.

    Args:
        place: where the tensor lies in an object of Python; 0: that is not known.
    """
    names = ("dim", "sizes", "strides", "dtype", "device_type", "device_index")
    found = [entry(torch, "libc10.so", _HAS_STORAGE)]
    found += [entry(torch, _CPU, f"aoti_torch_get_{name}") for name in names]
    right = all((place, *found)) and _tell_right(torch, place, *found)
    return tuple(found) if right else (0,) * len(found)


def _tell_right(torch: Any, place: int, has_storage: int, *entries: int) -> bool:
    numbers, number, pointer = ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p
    kinds: tuple[Any, ...] = (
        numbers,
        ctypes.POINTER(numbers),
        ctypes.POINTER(numbers),
        number,
        number,
        number,
    )
    has = ctypes.CFUNCTYPE(ctypes.c_bool, pointer)(has_storage)
    tell = [
        (kind, ctypes.CFUNCTYPE(number, pointer, ctypes.POINTER(kind))(address))
        for kind, address in zip(kinds, entries, strict=True)
    ]
    plain = torch.empty((3, 5, 2), dtype=torch.int16)[1:, ::2]
    for tensor in (plain, torch.ones(4), torch.ones(())):
        at = id(tensor) + place
        told = []
        for kind, function in tell:
            value = kind()
            if function(at, ctypes.byref(value)):
                return False
            told.append(value)
        count, shape, strides, dtype, device, _ = told
        if (
            not has(pointer.from_address(at))
            or (count.value, *shape[: tensor.ndim]) != (tensor.ndim, *tensor.shape)
            or tuple(strides[: tensor.ndim]) != tensor.stride()
            or dtype.value != number_of_dtype(torch, str(tensor.dtype).removeprefix("torch."))
            or device.value != 0
        ):
            return False
    return True


def allocator(torch: Any) -> tuple[int, int, int, int]:
    """Functions that make an empty tensor, tell its address, drop it, and make a Python object
    of it (`struct torch` in `_core/python.h`); zeros where one of them is missing or
    wrong."""
    names = ("empty_strided", "get_data_ptr", "delete_tensor_object")
    empty, address_of, drop = (entry(torch, _CPU, f"aoti_torch_{name}") for name in names)
    wraps = (entry(torch, "libtorch_python.so", symbol) for symbol in _WRAPS)
    found = empty, address_of, drop, next(filter(None, wraps), 0)
    return found if all(found) and _is_right(torch, *found) else (0, 0, 0, 0)


def _is_right(torch: Any, empty: int, address_of: int, drop: int, wrap: int) -> bool:
    dtype = number_of_dtype(torch, "int16")
    if dtype is None:
        return False
    numbers, place = ctypes.c_int64 * 2, ctypes.c_void_p
    device = ctypes.c_int32
    make = ctypes.CFUNCTYPE(
        device, ctypes.c_int64, numbers, numbers, device, device, device, ctypes.POINTER(place)
    )(empty)
    tensor, address = place(), place()
    if make(2, numbers(3, 5), numbers(5, 1), dtype, 0, 0, ctypes.byref(tensor)):
        return False
    tell = ctypes.CFUNCTYPE(device, place, ctypes.POINTER(place))(address_of)
    told = tell(tensor, ctypes.byref(address)) == 0
    made = ctypes.PYFUNCTYPE(ctypes.py_object, place)(wrap)(tensor)
    dropped = ctypes.CFUNCTYPE(device, place)(drop)(tensor) == 0
    return (
        told
        and dropped
        and type(made) is torch.Tensor
        and made.data_ptr() == address.value
        and (made.shape, made.dtype, made.stride()) == ((3, 5), torch.int16, (5, 1))
        and made.untyped_storage().nbytes() == 30
    )
