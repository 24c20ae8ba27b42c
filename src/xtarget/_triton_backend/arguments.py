"""Convert the arguments of a kernel's call to the values that its entry takes.

Triton's JIT takes objects with `data_ptr` and `dtype`. Torch's tensors have both. NumPy and USM
arrays get them here from a wrapper around each array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from .._arrays import Kind, adopt, is_scalar, kind_of
from .._values.errors import ArgumentError
from .._values.float8 import FLOAT8
from .._values.types import Parameter
from ..targets.base import Value
from .constants import tell_apart

__all__ = [
    "HOST",
    "ArrayArgument",
    "Reader",
    "accept_arrays",
    "is_array",
    "owner_of",
    "parameters_of",
    "place_of",
]

#: The place of host memory.
HOST = ""
#: Types of parameters in Triton's IR (a kernel that was given as a file), by their usual names.
_TYPES = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}


#: dtype and place of arrays, and whether they are read-only, by all that `Kind.describe` tells of
#: their layouts and by alignment.
_layouts: dict[Hashable, tuple[str, str, bool]] = {}
_MOST_LAYOUTS = 4096
#: dtypes of NumPy arrays by NumPy's: all there is to find out about an ordinary one.
_numpy_dtypes: dict[Any, str] = {}
#: As in `_arrays.host.address_of`, which has more to expect.
_first_byte = ctypes.c_char.from_buffer
#: Whether values of a type are arrays that Triton's JIT cannot take, and we can.
_array_types: dict[type, bool] = {}


class ArrayArgument:
    """An array of a library that Triton does not know.

    Attributes:
        is_read_only: nobody shall write to it.

    Raises:
        ArgumentError: it is not an array, or kernels cannot use it.
    """

    __slots__ = ("_address", "_adopted", "array", "dtype", "is_read_only", "place")

    def __init__(self, array: Any) -> None:
        self.array = array
        self.is_read_only = False
        numpys = _is_numpy(type(array))
        if numpys and array.flags.carray and array.dtype in _numpy_dtypes:
            try:
                self._address = ctypes.addressof(_first_byte(array))
            except ValueError:  # it is empty, or its dtype is none of C's
                pass
            else:
                self.dtype, self.place = _numpy_dtypes[array.dtype], HOST
                return
        float8 = numpys and array.dtype.name in FLOAT8
        if float8:
            array = array.view("uint8")
        array = self._adopted = adopt(array)
        kind = kind_of(array)
        self._address, layout = kind.describe(array)
        key = (type(array), layout, self._address & 15)
        known = _layouts.get(key)
        if known is None:
            view = kind.view(array)
            place = HOST if view.place is None else view.place
            known = (view.type.dtype, place, not view.writable)
            if len(_layouts) >= _MOST_LAYOUTS:
                _layouts.clear()
            _layouts[key] = known
        self.dtype, self.place, self.is_read_only = known
        if float8:
            self.dtype = self.array.dtype.name
        elif numpys and array.flags.carray:
            _numpy_dtypes[array.dtype] = self.dtype

    def data_ptr(self) -> int:
        return self._address


def _is_numpy(cls: type) -> bool:
    """Is it NumPy's own array, and no subclass? NumPy may not be installed."""
    return cls.__name__ == "ndarray" and cls.__module__ == "numpy"


def is_array(value: Any) -> bool:
    """Is it an array that Triton cannot take as it is?"""
    cls = type(value)
    known = _array_types.get(cls)
    if known is None:
        offers = hasattr(cls, "__array_interface__") or hasattr(cls, "__sycl_usm_array_interface__")
        known = offers and not hasattr(cls, "data_ptr") and not is_scalar(value)
        _array_types[cls] = known
    return known


def _wrapped(value: Any) -> Any:
    if isinstance(value, tuple):
        made = [_wrapped(element) for element in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    if is_array(value):
        return ArrayArgument(value)
    return value.item() if _is_numpy_scalar(value) else value


def _is_numpy_scalar(value: Any) -> bool:
    return not isinstance(value, bool | int | float) and is_scalar(value)


def _are_ours(values: Any) -> bool:
    """Are there any that `_wrapped` changes?"""
    return any(
        _are_ours(v) if isinstance(v, tuple) else is_array(v) or _is_numpy_scalar(v) for v in values
    )


def accept_arrays(jit: Any) -> None:
    """Let Triton's JIT functions take arrays, in this process: where a call's arguments are bound,
    arrays are wrapped first, and NumPy's scalars become Python's. A call with tensors only pays
    nothing: Triton itself refuses the others.

    Args:
        jit: the module `triton.runtime.jit`. Functions make their binders late, through a global of
            that module, so that this serves functions that exist already.
    """
    original = jit.create_function_from_signature
    if getattr(original, "takes_arrays", False):
        return

    def create_function_from_signature(signature: Any, parameters: Any, backend: Any) -> Any:
        binder = original(signature, parameters, backend)
        return _array_binder(binder) if backend.target.backend == "spirv" else binder

    create_function_from_signature.takes_arrays = True  # type: ignore[attr-defined]  # the mark
    jit.create_function_from_signature = create_function_from_signature


def _array_binder(binder: Callable[..., Any]) -> Callable[..., Any]:
    wrap_first = False

    def bind(*args: Any, **kwargs: Any) -> Any:
        nonlocal wrap_first
        try:
            if wrap_first:
                bound = _bound_wrapped(binder, args, kwargs)
            else:
                try:
                    bound = binder(*args, **kwargs)
                except (TypeError, AttributeError):
                    if not (_are_ours(args) or _are_ours(kwargs.values())):
                        raise
                    wrap_first = True
                    bound = _bound_wrapped(binder, args, kwargs)
        except KeyError as error:  # all that Triton says of a dtype that it does not know
            raise ArgumentError(
                f"Triton has no dtype {error.args[0]}: kernels take booleans, integers and real "
                "floats. Convert the tensor with .to(), or pass a .view() of it as one of those."
            ) from error
        tell_apart(bound[1])
        return bound

    return bind


def _bound_wrapped(
    binder: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    return binder(*map(_wrapped, args), **{k: _wrapped(v) for k, v in kwargs.items()})


# ------------------------------------------------------------------------------------- signatures


def _flat(
    path: tuple[int, ...], name: str, type_: Any
) -> Iterator[tuple[tuple[int, ...], str, Any]]:
    """Path, name and type of every scalar, pointer and descriptor of a parameter."""
    if isinstance(type_, tuple | list):
        for index, element in enumerate(type_):
            yield from _flat((*path, index), f"{name}.{index}", element)
    elif type_ != "constexpr":
        yield path, name, type_


def _rank(descriptor: str) -> int:
    """Dimensions of `tensordesc<fp16[64,64]>`."""
    return descriptor.partition("[")[2].partition("]")[0].count(",") + 1


def _of_descriptor(name: str, type_: str, *, rounds: bool) -> Iterator[Parameter]:
    """The parameters that Triton makes of a tensor descriptor, which it takes apart twice: base,
    shape, strides, what is read outside, (from Triton 3.7 on) rounding; shape and strides again.
    """
    rank = _rank(type_)
    yield Parameter(f"{name}.base", "*" + type_.partition("<")[2].partition("[")[0])
    for group in ("shape", "strides"):
        for index in range(rank):
            yield Parameter(f"{name}.{group}.{index}", "i64")
    yield Parameter(f"{name}.padding", "i1")
    if rounds:
        yield Parameter(f"{name}.round_f32_to_tf32", "i1")
    for index in range(rank):
        yield Parameter(f"{name}.shape.{index}.again", "i32")
    for index in range(rank):
        yield Parameter(f"{name}.strides.{index}.again", "i64")


def parameters_of(signature: dict[Any, Any], *, rounds: bool) -> tuple[Parameter, ...]:
    """The entry's parameters, without the hidden ones.

    Args:
        signature: Triton's, types by parameter.
        rounds: this Triton's tensor descriptors have `round_f32_to_tf32`.
    """
    listed: list[Parameter] = []
    for index, (name, type_) in enumerate(signature.items()):
        for _, part, scalar in _flat((index,), str(name), type_):
            if scalar.startswith("tensordesc"):
                listed += _of_descriptor(part, scalar, rounds=rounds)
            else:
                listed.append(Parameter(part, _TYPES.get(scalar, scalar)))
    return tuple(listed)


class Reader:
    """Reads the values of one signature out of a call's arguments."""

    __slots__ = ("_fewest", "_rounds", "_steps")

    def __init__(self, signature: dict[Any, Any], *, rounds: bool) -> None:
        self._rounds = rounds
        self._steps = [
            (path[0], path[1:], scalar)
            for index, (name, type_) in enumerate(signature.items())
            for path, _, scalar in _flat((index,), str(name), type_)
        ]
        self._fewest = max((index + 1 for index, _, _ in self._steps), default=0)

    def read(self, args: Sequence[Any]) -> tuple[list[Value], list[Any]]:
        """Values in the entry's order, and the arrays among the arguments.

        Raises:
            ArgumentError: there are too few; a compiled kernel is launched with any.
        """
        values: list[Value] = []
        arrays: list[Any] = []
        if len(args) < self._fewest:
            raise ArgumentError(
                f"the kernel was given {len(args)} arguments and takes {self._fewest}: one for "
                "each parameter, up to the last one that is not a constant."
            )
        for index, path, type_ in self._steps:
            value = args[index]
            for step in path:
                value = value[step]
            if type_[0] == "*":
                values.append(_address(value, arrays))
            elif type_.startswith("tensordesc"):
                self._descriptor(value, values, arrays)
            else:
                values.append(value)
        return values, arrays

    def _descriptor(self, given: Any, values: list[Value], arrays: list[Any]) -> None:
        values.append(_address(given.base, arrays))
        sizes = (*given.shape, *given.strides)
        values += sizes
        values.append(given.padding == "nan")
        if self._rounds:
            values.append(given.round_f32_to_tf32)
        values += sizes


def _address(value: Any, arrays: list[Any]) -> int:
    """Return the address of an argument's memory; the pointer may also be an integer or None."""
    try:
        address = value.data_ptr()
    except AttributeError:
        if value is None:
            return 0
        if isinstance(value, int):
            return value
        value = ArrayArgument(value)
        address = value.data_ptr()
    arrays.append(value)
    if not address and _lacks_memory(value):
        raise ArgumentError(
            f"a {type(value).__name__} of shape {tuple(value.shape)} has no memory that a kernel "
            "could use. Pass a tensor with values in it."
        )
    return int(address)


def _lacks_memory(value: Any) -> bool:
    """Is it one of torch's tensors that stand for others, as in tracing, and not just empty?"""
    return bool(getattr(value, "is_cpu", False)) and value.numel() > 0


# ----------------------------------------------------------------------------------------- places


def place_of(value: Any) -> str:
    """The device that an argument's memory lies on, `HOST` for the host's.

    Raises:
        ArgumentError: kernels of this back end cannot use it.
    """
    if isinstance(value, ArrayArgument):
        return value.place
    try:
        if value.is_cpu:  # a torch tensor, in less than 0.1 µs
            return HOST
    except AttributeError:
        return place_of(value.base)  # Triton's reinterpreted tensor
    device = value.device
    if device.type == "xpu":
        return f"intel:{device.index or 0}"
    raise ArgumentError(
        f"a tensor on {device} cannot be used with TRITON_DEFAULT_BACKEND=spirv, which runs on "
        "host memory and on Intel GPUs (xpu). Move it with .to('cpu'), or unset the variable."
    )


def owner_of(value: Any) -> tuple[Kind, Any]:
    """The library's own array behind an argument, and its kind."""
    if isinstance(value, ArrayArgument):
        array = value.array
    else:
        array = value if hasattr(value, "is_cpu") else value.base
    array = adopt(array)
    return kind_of(array), array
