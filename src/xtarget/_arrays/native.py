"""How the compiled core reads arrays of torch, NumPy, CuPy and ours, of exactly these classes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from ..spec import ArrayType
from . import kind_of
from .kinds import Kind
from .torch_in_c import allocator, entry, looks

__all__ = ["read_natively", "read_scalars_natively"]

#: Classes of NumPy's numbers, and which of Python's numbers the core reads them as (`enum reader`).
_SCALARS = dict.fromkeys(("float16", "float32", "float64"), 5) | dict.fromkeys(
    ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), 6
)

#: By the name of a kind: what the core calls its reader (`enum reader` in `_core/python.h`), and
#: the classes.
_READERS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "torch": (1, ("torch.Tensor", "torch.nn.parameter.Parameter")),
    "NumPy": (2, ("numpy.ndarray",)),
    "xtarget": (3, ("xtarget._arrays.device_array.Array",)),
    "CuPy": (4, ("cupy.ndarray", "cupy._core.core.ndarray")),
}

#: The attributes of CuPy's arrays, and of their `data`, that the core reads (`_core/cupy.c`).
_CUPY = ("data", "dtype", "_c_contiguous", "ndim", "size")
_CUPY_DATA = ("ptr", "device_id")


def read_natively(core: Any, array: Any) -> None:
    """Let the core read arrays of this one's class, if it reads this one as its kind does."""
    kind, cls = kind_of(array), type(array)
    reader, classes = _READERS.get(kind.name, (0, ()))
    if f"{cls.__module__}.{cls.__qualname__}" not in classes:
        return
    if kind.name == "torch" and not _use_torch(core):
        return
    if kind.name == "xtarget" and not _use_own(core, array.__class__):
        return
    if kind.name == "CuPy":
        if not hasattr(array, "_c_contiguous"):
            return
        core.use_cupy(type(array.data), _descriptors(array))
    core.read_arrays(cls, reader)
    if not _agree(core, kind, array):
        core.read_arrays(cls, 0)


def _descriptors(array: Any) -> tuple[Any, ...]:
    """Return what CuPy's classes have for the attributes that the core reads; None: nothing."""
    asked = [(array, name) for name in _CUPY] + [(array.data, name) for name in _CUPY_DATA]
    return tuple(
        next((vars(base)[name] for base in type(owner).__mro__ if name in vars(base)), None)
        for owner, name in asked
    )


def read_scalars_natively(core: Any, cls: type) -> None:
    """Let the core read NumPy's numbers of this class."""
    if cls.__module__ == "numpy" and cls.__name__ in _SCALARS:
        core.read_arrays(cls, _SCALARS[cls.__name__])


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
def _use_own(core: Any, cls: Any) -> bool:
    """Tell the core where the slots of our own arrays lie; False: nobody knows."""
    parts: list[Any] = [object() for _ in range(3)]
    type_ = ArrayType("a dtype", (1 << 40, 3), (1 << 41, 5))
    array = cls(parts[0], parts[1], type_, 1 << 42, parts[2])
    array._owner = object()
    places = _slots(array, ("_type", "_device", "address", "stream", "_owner"))
    places += _slots(type_, ("dtype", "shape", "strides"))
    if 0 in places:
        return False
    core.use_own(ArrayType, tuple(places))
    return True


def _slots(instance: Any, names: Iterable[str]) -> list[int]:
    """Where an object has the pointers to its attributes; 0: at no place, or at several."""
    size = type(instance).__basicsize__ // 8
    words = list((ctypes.c_size_t * size).from_address(id(instance)))
    pointers = [id(getattr(instance, name)) for name in names]
    return [8 * words.index(one) if words.count(one) == 1 else 0 for one in pointers]


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
    place, asked = torch_tensors(torch)
    entries = (_torch_entries(torch), place, asked, allocator(torch), looks(torch, place))
    return bool(core.use_torch(capsule, functions, vars(forward_ad), *entries))


#: What torch's Python functions ask, by library and symbol: they have no arguments, and answer in a
#: fiftieth of the time. In torch 2.10 to 2.13; where one is missing, Python's is asked.
_SYMBOLS = (
    ("libc10.so", "_ZN3c108GradMode10is_enabledEv"),  # bool
    ("libtorch_cpu.so", "_ZN5torch3jit6tracer15getTracingStateEv"),  # a pointer to a pointer
    ("libc10.so", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"),  # int64
)


def _torch_entries(torch: Any) -> tuple[int, ...]:
    found = [entry(torch, *symbol) for symbol in _SYMBOLS]
    if found[0]:
        asked = ctypes.CFUNCTYPE(ctypes.c_bool)(found[0])
        with torch.no_grad():
            off = asked()
        with torch.enable_grad():
            if off or not asked():
                found[0] = 0
    return tuple(found)


def torch_tensors(torch: Any) -> tuple[int, tuple[int, int, int, int]]:
    """Where torch's tensor lies in an object of Python, and what answers for one: whether it is
    lazily negated, whether it is one of inference, how its version goes up (all of them take a
    tensor), whether it requires a gradient (which takes what the tensor points to).

    Python's functions for the first and the third take longer, and the first one gives the
    interpreter to other threads. Each function is tried; 0: there is none that is right.
    """
    with torch.inference_mode(False), torch.enable_grad():
        plain = torch.ones(3)
        negated = torch._neg_view(torch.ones(2))
        graded = torch.nn.Parameter(torch.ones(2))
        seen = torch.ones(4)[1:]
    with torch.inference_mode():
        inferred = torch.ones(2)
    tensors = (plain, negated, graded, seen, inferred)
    place = _place(torch, tensors)
    if not place:
        return 0, (0, 0, 0, 0)

    def right(library: str, symbol: str, yes: Any, *, pointed: bool = False) -> int:
        address = entry(torch, library, symbol)
        asked = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(address)
        wanted = [one is yes for one in tensors]
        at = [one._cdata if pointed else id(one) + place for one in tensors]
        return address if address and [asked(one) for one in at] == wanted else 0

    cpu = "libtorch_cpu.so"
    inference = right(cpu, "_ZN2at6native12is_inferenceERKNS_6TensorE", inferred)
    bump = entry(torch, cpu, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE")
    if bump:
        version = plain._version
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(bump)(id(plain) + place)
        if plain._version != version + 1:
            bump = 0
    return place, (
        right(cpu, "_ZN2at6native6is_negERKNS_6TensorE", negated),
        inference,
        bump if inference else 0,
        right("libc10.so", "_ZNK3c1010TensorImpl13requires_gradEv", graded, pointed=True),
    )


def _place(torch: Any, tensors: tuple[Any, ...]) -> int:
    """Where the tensor, a pointer, lies in its object: in all of them behind what every object
    begins with, or one word further behind a flag that is not set; 0: nobody knows."""
    first, size = object.__basicsize__, torch._C.TensorBase.__basicsize__
    found = []
    for tensor in tensors:
        words = (ctypes.c_size_t * (size // 8)).from_address(id(tensor))
        found.append({8 * n for n, word in enumerate(words) if word == tensor._cdata})
    places = set.intersection(*found)
    if places == {first + 8}:
        flags = [ctypes.c_char.from_address(id(tensor) + first).value for tensor in tensors]
        return first + 8 if set(flags) == {b"\0"} else 0
    return first if places == {first} else 0
