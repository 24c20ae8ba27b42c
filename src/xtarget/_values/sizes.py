"""Small arithmetic on sizes, which may be symbolic (`_values.symbols`)."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import ArgumentError

__all__ = ["broadcast_shapes", "cdiv", "contiguous_strides", "next_power_of_2"]


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
