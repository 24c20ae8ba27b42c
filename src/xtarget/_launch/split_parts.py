"""`xtarget.split` of arrays that lie on the devices already: each device computes its part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from .._arrays import is_scalar, view_of
from .._arrays.dtypes import numpy_dtype
from .._values.errors import ArgumentError, shortened
from ..spec import ArrayType, KernelSpec
from .run import run

__all__ = ["run_parts"]


def run_parts(
    spec: KernelSpec,
    args: Sequence[Any],
    options: Mapping[str, Any],
    names: Sequence[str],
    out: Any,
    cut_of: Callable[[Sequence[Any]], list[bool]],
) -> Any:
    """Launch a kernel on each device for what lies there, without waiting for any of them.

    Args:
        args: numbers, and lists with one array for each device.
        out: a list of results, or None.
        cut_of: which arguments are parts along the first axis, for NumPy arrays of their layouts;
            the others each device has whole.

    Returns:
        a list with the result on each device, or a tuple of lists.

    Raises:
        ArgumentError: the kernel cannot be cut, or the parts are not those of one array.
    """
    by_device = [_of_device(spec.name, args, len(names), place) for place in range(len(names))]
    types = [[_type(arg) for arg in given] for given in by_device]
    most = max(range(len(names)), key=lambda place: _elements(types[place]))  # one row says nothing
    seen = zip(types[most], by_device[most], strict=True)
    cut = cut_of([_stand_in(type_, arg) for type_, arg in seen])
    for number, parts in enumerate(zip(*types, strict=True)):
        _check_alike(spec.name, number, parts, cut=cut[number])
    outs = [None] * len(names) if out is None else _list(spec.name, "out", out, len(names))
    results = [
        run(spec.name, *given, out=into, device=name, **options)
        for given, into, name in zip(by_device, outs, names, strict=True)
    ]
    if isinstance(results[0], tuple):
        return tuple(map(list, zip(*results, strict=True)))
    return results


def _list(kernel: str, what: str, value: Any, count: int) -> list[Any]:
    if not isinstance(value, list) or len(value) != count:
        raise ArgumentError(
            f"{kernel}: {what} has to be a list of {count} arrays, one on each device, not "
            f"{shortened(value)}."
        )
    return value


def _of_device(kernel: str, args: Sequence[Any], count: int, place: int) -> list[Any]:
    found = []
    for number, arg in enumerate(args):
        if arg is None or is_scalar(arg):
            found.append(arg)
        else:
            found.append(_list(kernel, f"argument {number}", arg, count)[place])
    return found


def _type(arg: Any) -> ArrayType | None:
    return None if arg is None or is_scalar(arg) else view_of(arg).type


def _elements(types: Sequence[ArrayType | None]) -> int:
    return sum(prod(type_.shape) for type_ in types if type_ is not None)


def _stand_in(type_: ArrayType | None, arg: Any) -> Any:
    """An array of NumPy of a layout, which takes no memory."""
    if type_ is None:
        return arg
    return np.broadcast_to(np.zeros((), numpy_dtype(type_.dtype)), type_.shape)


def _check_alike(kernel: str, number: int, parts: Sequence[ArrayType | None], *, cut: bool) -> None:
    known = [part for part in parts if part is not None]
    alike = {(part.dtype, len(part.shape), part.shape[1:] if cut else part.shape) for part in known}
    if len(alike) > 1:
        places = "but along the first axis" if cut else "as each device needs all of it"
        shown = ", ".join(f"{part.dtype}{list(part.shape)}" for part in known)
        raise ArgumentError(
            f"{kernel}: the parts of argument {number} have to be alike {places}: {shown}."
        )
