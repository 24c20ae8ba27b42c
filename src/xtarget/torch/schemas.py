"""From a kernel's spec to the schemas of its torch operator, and from torch's arguments to ours."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .._values.authoring import REQUIRED
from .._values.errors import ArgumentError
from .._values.float8 import way_out
from .._values.types import DTYPES, DtypeConstant
from ..spec import KernelSpec

__all__ = ["arguments", "schemas", "torch_dtypes"]

_DTYPES = {getattr(torch, name): name for name in DTYPES if hasattr(torch, name)}


def torch_dtypes() -> frozenset[torch.dtype]:
    """Those that kernels take."""
    return frozenset(_DTYPES)


def schemas(spec: KernelSpec, results: int) -> Iterator[tuple[str, str]]:
    """The overloads of a kernel: (name, the schema behind it).

    The first, without a name, takes tensors. An elementwise kernel has one for each choice of
    inputs that may be numbers, named by them (`b_number`).

    Args:
        results: how many tensors the kernel gives.

    Raises:
        ArgumentError: a name or an option that torch's schemas cannot express.
    """
    names = [name.rstrip("?") for name in spec.inputs]
    for name in (spec.name, *names, *spec.options):
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or keyword.iskeyword(name):
            where = "the kernel by name=" if name == spec.name else "the argument"
            raise ArgumentError(
                f"{spec.name}: torch takes no operator or argument named {name!r}. Name {where} "
                "with letters, digits and _ alone, and with no word of Python's."
            )
    options = [_option(spec, name, default) for name, default in spec.options.items()]
    if not names:  # nothing else says where its result is to be
        options.append("Device? device=None")
    given = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
    numbers: list[tuple[str, ...]] = [()]
    if spec.elementwise:
        # not two of one signature: torch ends the process when it forgets them
        arrays = [name for name in names if name not in spec.scalars]
        numbers = [c for n in range(len(arrays)) for c in itertools.combinations(arrays, n)]
    for chosen in numbers:
        inputs = []
        needed = max((i for i, one in enumerate(spec.inputs) if not one.endswith("?")), default=-1)
        for index, (name, written) in enumerate(zip(names, spec.inputs, strict=True)):
            kind = "Scalar" if name in chosen or name in spec.scalars else "Tensor"
            if name in spec.updates:
                kind = f"Tensor({chr(97 + index)}!)"
            kind += "?" if written.endswith("?") else ""
            # torch has no default before an argument without one
            inputs.append(f"{kind} {name}{'=None' if kind[-1] == '?' and index > needed else ''}")
        arguments = ", ".join([*inputs, *(["*", *options] if options else [])])
        yield "_".join([*chosen, "number"]) if chosen else "", f"({arguments}) -> {given}"


#: torch's types of options whose default does not tell all that they take: None, then a number.
_NONE = {
    **dict.fromkeys(("axes", "steps", "stops", "window"), "int[]?"),
    **dict.fromkeys(("classes", "length", "longest", "segments"), "int?"),
    **dict.fromkeys(("neginf", "posinf", "scale", "softcap"), "float?"),
    "dtype": "ScalarType?",
    "initial": "Scalar?",
    "q": "float[1]?",
}
_LISTS = ("dilation", "kernel", "output_padding", "padding", "repeats", "reps", "size", "stride")
_NUMBER = {
    **dict.fromkeys(("alpha", "beta", "value"), "Scalar"),
    **dict.fromkeys((*_LISTS, "shift"), "int[1]"),
    "scale": "float[1]",
}
_OF_ONE = {("expand_dims", "axis"): "int[1]"}


def _option(spec: KernelSpec, name: str, default: Any) -> str:
    """An option as torch writes it, by the type of its default."""
    if default is REQUIRED:
        return f"int {name}"
    if isinstance(default, bool):
        return f"bool {name}={default}"
    if isinstance(default, int):
        if not spec.inputs and name in ("start", "step", "stop"):
            return f"Scalar {name}={default}"
        return f"{_OF_ONE.get((spec.name, name)) or _NUMBER.get(name, 'int')} {name}={default}"
    if isinstance(default, float):
        return f"float {name}={default}"
    if isinstance(default, DtypeConstant) or (isinstance(default, str) and name == "dtype"):
        return f"ScalarType? {name}=None"
    if isinstance(default, str) and '"' not in default:
        return f'str {name}="{default}"'
    if isinstance(default, tuple) and all(type(item) is int for item in default):
        return f"int[] {name}={list(default)}"
    if default is None:  # an axis, several, or all
        return f"{_NONE.get(name, 'int[1]?')} {name}=None"
    raise ArgumentError(
        f"{spec.name}: torch's schemas have no type for the option {name}={default!r}. Give it a "
        "default that is a number, a bool, text, a tuple of integers, or None."
    )


def arguments(spec: KernelSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    """torch's options as ours: dtypes by name, lists as tuples, a list of one as that."""
    taken: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, torch.dtype):
            value = dtype_name(value)
        elif isinstance(value, list):
            alone = len(value) == 1 and not _is_list(spec, name)
            value = value[0] if alone else tuple(value)
        elif value is None and spec.options.get(name) is not None:
            continue  # a dtype whose default has a name
        taken[name] = value
    return taken


def _is_list(spec: KernelSpec, name: str) -> bool:
    """Whether a list of one stays a list."""
    return isinstance(spec.options.get(name), tuple) or _NONE.get(name) == "int[]?"


def options_in_c(spec: KernelSpec) -> tuple[dict[torch.dtype, str], frozenset[str]]:
    """The table that `arguments` goes by, for the core's `Operator`."""
    return _DTYPES, frozenset(name for name in spec.options if _is_list(spec, name))


def dtype_name(dtype: torch.dtype) -> str:
    """NumPy's name.

    Raises:
        ArgumentError: kernels have no such dtype.
    """
    name = _DTYPES.get(dtype)
    if name is None:
        way = way_out(str(dtype).removeprefix("torch."), ".view(torch.uint8)", "Convert it.")
        raise ArgumentError(f"{dtype} is not supported; kernels take {', '.join(DTYPES)}. {way}")
    return name


def torch_dtype(name: str) -> torch.dtype:
    """Of NumPy's name.

    Raises:
        ArgumentError: this torch has no such dtype.
    """
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ArgumentError(f"torch {torch.__version__} has no dtype {name}.")
    return found
