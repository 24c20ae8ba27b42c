"""From a kernel's spec to the schemas of its torch operator, and from torch's arguments to ours."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .._values.errors import ArgumentError
from .._values.types import DTYPES
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
            raise ArgumentError(f"{spec.name}: torch takes no operator or argument named {name!r}.")
    options = [_option(spec, name, default) for name, default in spec.options.items()]
    given = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
    numbers: list[tuple[str, ...]] = [()]
    if spec.elementwise:
        numbers = [c for n in range(len(names)) for c in itertools.combinations(names, n)]
    for chosen in numbers:
        inputs = []
        for index, (name, written) in enumerate(zip(names, spec.inputs, strict=True)):
            if name in chosen or name in spec.scalars:
                inputs.append(f"Scalar {name}")
            elif name in spec.updates:
                inputs.append(f"Tensor({chr(97 + index)}!) {name}")
            elif written.endswith("?"):
                inputs.append(f"Tensor? {name}=None")
            else:
                inputs.append(f"Tensor {name}")
        arguments = ", ".join([*inputs, *(["*", *options] if options else [])])
        yield "_".join([*chosen, "number"]) if chosen else "", f"({arguments}) -> {given}"


def _option(spec: KernelSpec, name: str, default: Any) -> str:
    """An option as torch writes it, by the type of its default."""
    if isinstance(default, bool):
        return f"bool {name}={default}"
    if isinstance(default, int | float):
        return f"{type(default).__name__} {name}={default}"
    if isinstance(default, str) and '"' not in default:
        return f'str {name}="{default}"'
    if isinstance(default, tuple) and all(type(item) is int for item in default):
        return f"int[] {name}={list(default)}"
    if default is None and name == "dtype":
        return f"ScalarType? {name}=None"
    if default is None:  # an axis, several, or all
        return f"int[1]? {name}=None"
    raise ArgumentError(
        f"{spec.name}: torch's schemas have no type for the option {name}={default!r}. Give it a "
        "default that is a number, a bool, text, a tuple of integers, or None."
    )


def arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """torch's options as ours: dtypes by name, lists as tuples."""
    taken: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, torch.dtype):
            value = dtype_name(value)
        taken[name] = tuple(value) if isinstance(value, list) else value
    return taken


def dtype_name(dtype: torch.dtype) -> str:
    """NumPy's name.

    Raises:
        ArgumentError: kernels have no such dtype.
    """
    name = _DTYPES.get(dtype)
    if name is None:
        raise ArgumentError(f"{dtype} is not supported; kernels take {', '.join(DTYPES)}.")
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
