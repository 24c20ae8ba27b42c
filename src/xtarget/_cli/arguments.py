"""Kernel arguments of the commands: layouts and numbers from --shape, --dtype, --scalar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from .._kernels.checks import calls_of
from .._kernels.interfaces import input_dtypes
from .._kernels.libraries import find
from .._launch import chosen as choosing
from .._values.types import DTYPES
from .._values.value_classes import value_class
from ..spec import ArrayType, KernelSpec, contiguous_strides
from .values import CallOptions, Values

__all__ = ["Inputs", "choose_inputs"]

_DEFAULT_SHAPE = (1024, 1024)


@value_class(frozen=True, slots=True)
class Inputs:
    """A kernel and the arguments that the command line chose for it: layouts, and numbers as they
    are."""

    spec: KernelSpec
    args: tuple[ArrayType | bool | int | float | None, ...]
    options: Mapping[str, Any]

    def describe(self) -> str:
        """`float32[1024, 1024], 2.0, axis=-1`."""
        parts = [
            f"{a.dtype}[{', '.join(map(str, a.shape))}]" if isinstance(a, ArrayType) else repr(a)
            for a in self.args
        ]
        return ", ".join(parts + [f"{name}={value!r}" for name, value in self.options.items()])


def choose_inputs(kernel: str, call_options: CallOptions) -> Inputs:
    """The arguments of a call: from one shape those of all inputs by the kernel's own rule; several
    shapes are one for each array.

    Raises:
        click.BadParameter: no such dtype, input, or number of shapes.
        UnknownKernelError: no such kernel.
    """
    given = dict(call_options.options)
    spec, dtype, scalars, shapes = (
        find(choosing.chosen(kernel, given)).spec,
        call_options.dtype,
        call_options.scalars,
        call_options.shapes,
    )
    if dtype not in DTYPES:
        raise click.BadParameter(f"{dtype!r} is not a dtype; there are {', '.join(DTYPES)}.")
    names = [name.rstrip("?") for name in spec.inputs]
    unknown = [name for name in scalars if name not in names]
    if unknown:
        raise click.BadParameter(
            f"{kernel} has no input {unknown[0]!r}; it has {', '.join(names)}."
        )
    for name, value in scalars.items():
        if not isinstance(value, bool | int | float):
            raise click.BadParameter(f"--scalar {name}={value!r} is not a number.")
    arrays = [name for name in names if name not in scalars]
    if len(shapes) <= 1:
        base = shapes[0] if shapes else _DEFAULT_SHAPE
        if spec.examples is not None:
            (call,) = calls_of(spec, "examples", base)
            chosen = {n: s for n, s in zip(names, call.shapes, strict=False) if s is not None}
            if shapes:
                _tell_other_shape(kernel, base, chosen)
        else:
            needed = [name for name in spec.inputs if not name.endswith("?")]
            chosen = dict.fromkeys([name for name in needed if name not in spec.scalars], base)
    else:
        if len(shapes) > len(arrays):
            raise click.BadParameter(
                f"{len(shapes)} shapes for {len(arrays)} arrays ({', '.join(arrays)}) of {kernel}."
            )
        chosen = dict(zip(arrays, shapes, strict=False))
    own = input_dtypes(spec)
    args: list[ArrayType | bool | int | float | None] = []
    for name in names:
        if name in scalars:
            args.append(scalars[name])
        elif name in chosen:
            shape = tuple(chosen[name])
            element = own.get(name, dtype)
            args.append(ArrayType(element, shape, contiguous_strides(shape)))
        elif spec.by_name and any(later in scalars or later in chosen for later in names):
            args.append(None)  # left out before others
        else:
            break  # the rest may be left out, or `run` says what is missing
    while args and args[-1] is None:
        args.pop()
    return Inputs(spec, tuple(args), _shaped(spec, args, shapes, given))


def _tell_other_shape(
    kernel: str, given: tuple[int, ...], chosen: Mapping[str, Sequence[int]]
) -> None:
    """Say on standard error that a kernel's rule makes another shape of the one that was given, as
    of heads larger than those of its examples. Where one shape has a meaning of its own, as
    `m x n x k`, the arrays have another rank.
    """
    first = tuple(next(iter(chosen.values()), given))
    if len(first) == len(given) and first != given:
        shapes = ", ".join(f"{name} {'x'.join(map(str, s))}" for name, s in chosen.items())
        click.echo(
            f"note: of one --shape {kernel} makes {shapes}. Give one for each array for others.",
            err=True,
        )


def _shaped(
    spec: KernelSpec, args: Sequence[object], shapes: Sequence[tuple[int, ...]], given: Values
) -> Values:
    """The options; a kernel without arrays may take a shape as one.

    Raises:
        click.BadParameter: there is nothing of that shape.
    """
    if not shapes or any(isinstance(arg, ArrayType) for arg in args):
        return given
    if "shape" not in spec.options or "shape" in given or len(shapes) > 1:
        raise click.BadParameter(
            f"{spec.name} gets no array here that --shape could say something of. Leave it out."
        )
    return {**given, "shape": shapes[0]}
