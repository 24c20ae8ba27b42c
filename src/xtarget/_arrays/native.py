"""How the compiled core reads arrays of torch, NumPy and our own, of exactly these classes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from . import Kind, kind_of

__all__ = ["read_natively"]

#: By the name of a kind: what the core calls its reader (`enum reader` in `_core/python.h`), and
#: the classes.
_READERS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "torch": (1, ("torch.Tensor", "torch.nn.parameter.Parameter")),
    "NumPy": (2, ("numpy.ndarray",)),
    "xtarget": (3, ("xtarget._arrays.device_array.Array",)),
}


def read_natively(core: Any, array: Any) -> None:
    """Let the core read arrays of this one's class, if it reads this one as its kind does."""
    kind, cls = kind_of(array), type(array)
    reader, classes = _READERS.get(kind.name, (0, ()))
    if f"{cls.__module__}.{cls.__qualname__}" not in classes:
        return
    if kind.name == "torch" and not _use_torch(core):
        return
    core.read_arrays(cls, reader)
    if not _agree(core, kind, array):
        core.read_arrays(cls, 0)


def _agree(core: Any, kind: Kind, array: Any) -> bool:
    """Whether the core and Python read the same from an array, if the core reads it at all."""
    read = core.words("", array)
    if read is None:  # an array without elements, or one that needs a word of Python's
        return True
    _, sizes, values = read
    address, key = kind.describe(array)
    layout = kind.layout(key)
    if layout is None:
        return False
    _, shape, strides = layout
    # a kind that gives the strides of every array gives more than the core does
    return tuple(values) == (address,) and sizes in (tuple(shape), (*shape, *(strides or ())))


@cache
def _use_torch(core: Any) -> bool:
    """Give the core torch's exchange API; False: it has none that is known (torch before 2.10)."""
    import torch
    from torch.autograd import forward_ad

    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    functions = (
        torch.Tensor.is_neg,
        torch.is_grad_enabled,
        getattr(torch._C, "_increment_version", None),
        getattr(torch._C, "_get_tracing_state", None),
        getattr(torch._C, "_len_torch_dispatch_stack", None),
        getattr(torch._C._dynamo.eval_frame, "get_eval_frame_callback", None),
    )
    if capsule is None or None in functions:
        return False
    return bool(core.use_torch(capsule, functions, vars(forward_ad), _torch_entries(torch)))


#: What torch's Python functions ask, by library and symbol: they have no arguments, and answer in a
#: fiftieth of the time. In torch 2.10 to 2.13; where one is missing, Python's is asked.
_SYMBOLS = (
    ("libc10.so", "_ZN3c108GradMode10is_enabledEv"),  # bool
    ("libtorch_cpu.so", "_ZN5torch3jit6tracer15getTracingStateEv"),  # a pointer to a pointer
    ("libc10.so", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"),  # int64
)


def _torch_entries(torch: Any) -> tuple[int, ...]:
    """The addresses of these functions; 0: there is none."""
    folder = Path(torch.__file__).parent / "lib"
    found = []
    for library, symbol in _SYMBOLS:
        try:  # it is loaded: this finds it and loads nothing
            entry = ctypes.CDLL(str(folder / library), mode=os.RTLD_NOLOAD | os.RTLD_NOW)[symbol]
            found.append(ctypes.cast(entry, ctypes.c_void_p).value or 0)
        except (OSError, AttributeError):
            found.append(0)
    if found[0]:
        asked = ctypes.CFUNCTYPE(ctypes.c_bool)(found[0])
        with torch.no_grad():
            off = asked()
        with torch.enable_grad():
            if off or not asked():
                found[0] = 0
    return tuple(found)
