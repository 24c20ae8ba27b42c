"""Arguments of a fused function: the part that decides how it is traced, arrays for results, and
their stand-ins ahead of time."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from .._arrays import is_scalar, view_of
from .._arrays.dtypes import numpy_dtype
from .._values.errors import ArgumentError
from ..spec import Example
from .cutting import is_long, is_long_across
from .launches import Program
from .reaches import reach

__all__ = ["ahead_arguments", "hashable", "is_static", "layout_key", "outs_of"]


def is_static(value: Any) -> bool:
    """Whether an argument is neither an array nor a number: it decides by its value."""
    return value is None or isinstance(value, bool | str | tuple | frozenset | type)


def hashable(value: Any) -> bool:
    """Whether an argument can be one: an array, or what has a hash."""
    try:
        hash(value)
    except TypeError:
        return hasattr(value, "shape")
    return True


def layout_key(value: Any, *, by_shape: bool, by_rows: int) -> Hashable:
    """The part of an array or a number that decides how the function is traced.

    Args:
        by_shape: it is traced for each shape.
        by_rows: 1: and whether rows are long, or have one element; 2 or 3: and whether columns are.
    """
    kind = type(value)
    if is_scalar(value):
        # an integer may fit the dtype that it is computed in, or not
        fits = None
        if isinstance(value, int):
            fits = value < 0, (~value if value < 0 else value).bit_length()
        return kind, fits, getattr(value, "dtype", None)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:  # what only a protocol tells
        layout = view_of(value).type
        shape, dtype = layout.shape, layout.dtype
    shape = tuple(shape)
    if by_shape:
        return kind, dtype, shape
    columns = by_rows > 1 and _is_long_along(shape)
    rows = by_rows > 0 and (shape[-1:] == (1,), is_long(shape), columns)
    return kind, dtype, len(shape), 0 in shape, rows


def _is_long_along(shape: tuple[int, ...]) -> bool:
    """Whether rows along an axis that is not the last are long (`is_long_across`)."""
    return any(
        is_long_across((*shape[:axis], *shape[axis + 1 :], shape[axis]))
        for axis in range(len(shape) - 1)
    )


def outs_of(name: str, program: Program, out: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays for a function's results, None for each where the caller has none.

    Raises:
        ArgumentError: there are as many others, or they share memory.
    """
    if out is None:
        return (None,) * len(program.returned)
    outs = tuple(out) if isinstance(out, tuple | list) else (out,)
    if len(outs) != len(program.returned):
        raise ArgumentError(
            f"{name} gives {len(program.returned)} results, and out has {len(outs)} "
            "arrays. Give one for each, or leave out out."
        )
    made = [place for place in program.returned if place >= len(values)]
    if len(set(made)) < len(outs):
        raise ArgumentError(
            f"{name} returns an argument of its own, or one result twice: there is "
            "nothing to write to out. Leave it out."
        )
    if len(outs) > 1:  # one launch writes while a later one still reads
        _check_apart(name, outs, values)
    return outs


def _check_apart(name: str, outs: Sequence[Any], values: Sequence[Any]) -> None:
    """Refuse results that lie in an argument, or in each other."""
    arrays = [value for value in values if not is_static(value) and not is_scalar(value)]
    reaches = [reach(array) for array in (*outs, *arrays)]
    for number, (low, high) in enumerate(reaches[: len(outs)]):
        if any(low < end and begin < high for begin, end in reaches[number + 1 :]):
            raise ArgumentError(
                f"{name}: out[{number}] may share memory with another array of the call. With "
                "several results, each needs memory of its own."
            )


def ahead_arguments(example: Example, dtype: str) -> Iterator[tuple[tuple[Any, ...], bool]]:
    """Stand-ins for an example's arguments: as it gives them, and with lengths that are not
    multiples of 16, which other code serves.

    Args:
        dtype: of arrays for which the example has none.

    Yields:
        the arguments, and whether they are the example's own.
    """
    shorter = tuple(map(_shorter, example.shapes))
    for shapes in dict.fromkeys((tuple(example.shapes), shorter)):
        dtypes = itertools.chain(example.dtypes, itertools.repeat(None))
        found = tuple(
            _stand_in(shape, fixed, dtype) for shape, fixed in zip(shapes, dtypes, strict=False)
        )
        yield found, shapes == tuple(example.shapes)


def _stand_in(shape: tuple[int, ...] | None, fixed: str | None, dtype: str) -> Any:
    if shape is None:
        return 1.0 if fixed is None else numpy_dtype(fixed).type(1)
    return np.broadcast_to(np.zeros((), numpy_dtype(fixed or dtype)), shape)


def _shorter(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return shape and tuple(n if n % 16 or not n else n - 1 for n in shape)
