"""Small arithmetic on sizes, which may be symbolic (`_values.symbols`), and what a number is."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .errors import ArgumentError

__all__ = [
    "broadcast_shapes",
    "cdiv",
    "contiguous_strides",
    "is_number",
    "next_power_of_2",
    "whole",
]


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not below `n` (1 for 0)."""
    return 1 << max(0, n - 1).bit_length()


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a C-contiguous array."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """NumPy's broadcasting.

    Raises:
        ArgumentError: the shapes do not fit together.
    """
    result: list[int] = []
    for axis in range(1, max((len(s) for s in shapes), default=0) + 1):
        length = 1
        for shape in shapes:
            own = shape[-axis] if len(shape) >= axis else 1
            if own == length or own == 1:
                continue
            if length != 1:
                lengths = sorted({int(s[-axis]) for s in shapes if len(s) >= axis} - {1})
                raise ArgumentError(
                    f"shapes {', '.join(str(tuple(s)) for s in shapes)} do not broadcast: axis "
                    f"-{axis} has lengths {lengths}. Lengths must be equal or 1."
                )
            length = own
        result.append(length)
    return tuple(reversed(result))


def whole(value: Any) -> int | None:
    """A whole number of Python or NumPy; None for anything else, a bool too."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def is_number(value: Any) -> bool:
    """A number or bool of Python, or a scalar of NumPy."""
    if isinstance(value, bool | int | float):
        return True
    return type(value).__module__ == "numpy" and (
        getattr(value, "shape", None) == () and value.dtype.kind in "biuf"
    )
