"""Values of the command line's options: from what people type to numbers, shapes and names."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

import click

from .._values.value_classes import value_class

__all__ = ["CallOptions", "Shapes", "Values", "folder_name", "pairs", "seconds", "shapes", "words"]

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
Values: TypeAlias = Mapping[str, Any]

#: NumPy and every vendor count bytes in 64 bits, and an element has up to 8; NumPy's own limit.
_MOST_ELEMENTS, _MOST_AXES = 2**60 - 1, 64


@value_class(frozen=True, slots=True)
class CallOptions:
    """A kernel's arguments as `--shape`, `--dtype`, `--option` and `--scalar` give them."""

    shapes: Shapes = ()
    dtype: str = "float32"
    options: Values = field(default_factory=dict)
    scalars: Values = field(default_factory=dict)


def pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    """`name=value` texts; values are Python literals, nan or inf, anything else is a string."""
    found: dict[str, Any] = {}
    for text in value:
        name, equals, given = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise click.BadParameter(f"{text!r} is not of the form name=value.", ctx, param)
        if name.strip() in found:
            raise click.BadParameter(f"{name.strip()} is given twice. Give it once.", ctx, param)
        found[name.strip()] = _value(given.strip())
    return found


def _value(text: str) -> Any:
    if re.fullmatch(r"[+-]?(nan|inf|infinity)", text, re.IGNORECASE):
        return float(text)
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text  # all that literal_eval raises
    return tuple(value) if isinstance(value, list) else value  # axes: NumPy takes no list of them


def shapes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Shapes:
    """`1048576`, `4096x4096`, `8,16,32`, and `()` for a 0-d array."""
    found = []
    for text in value:
        inner = text.strip().removeprefix("(").removesuffix(")").rstrip()
        lengths = inner.removesuffix(",").replace(",", "x").split("x")  # (5,) is Python's
        if lengths == [""]:
            shape: tuple[int, ...] = ()
        elif all(n.strip().isascii() and n.strip().isdigit() for n in lengths):
            # more digits than 64 bits have are too many in any case, and int() refuses thousands
            shape = tuple(int(n) if len(n.strip()) < 20 else _MOST_ELEMENTS + 1 for n in lengths)
            if math.prod(n for n in shape if n) > _MOST_ELEMENTS or len(shape) > _MOST_AXES:
                raise click.BadParameter(
                    f"{text!r} is too large: an array has at most {_MOST_AXES} dimensions and "
                    f"{_MOST_ELEMENTS} elements.",
                    ctx,
                    param,
                )
        else:
            raise click.BadParameter(
                f"{text!r} is not a shape. Write lengths with an x between them, for example "
                "1048576 or 4096x4096; () is a 0-d array.",
                ctx,
                param,
            )
        found.append(shape)
    return tuple(found)


def seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """A time as the environment variables take it."""
    from .._values.environment_parsing import seconds as parser

    try:
        return float(parser(120)(value.strip()))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}", ctx, param) from None


def words(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Repeated options and lists with commas, in one."""
    return tuple(dict.fromkeys(w.strip() for text in value for w in text.split(",") if w.strip()))


def folder_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not value.strip():  # an unset variable in a script, not a wish for the current folder
        raise click.BadParameter("the name is empty. Write . for the current folder.", ctx, param)
    return value
