"""Windows over NumPy arrays: what the references of convolutions and pooling share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["each", "first_channels", "last_channels", "places", "planes", "sides", "taken"]

_Shape = tuple[int, ...]


def each(value: Any, rank: int) -> tuple[int, ...]:
    """One number for each axis."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    return values * rank if len(values) == 1 else values


def sides(
    padding: Any, lengths: Sequence[int], reach: Sequence[int], stride: Sequence[int]
) -> list[tuple[int, int]]:
    """The padding before and after each axis."""
    if padding == "valid":
        padding = 0
    if padding == "same":
        whole = [
            max((-(-n // s) - 1) * s + r - n, 0)
            for n, r, s in zip(lengths, reach, stride, strict=True)
        ]
        return [(w // 2, w - w // 2) for w in whole]
    values = each(padding, len(lengths))
    if len(values) == len(lengths):
        return [(v, v) for v in values]
    return list(zip(values[::2], values[1::2], strict=True))


def places(
    np: Any, counts: Sequence[int], stride: Sequence[int], dilation: Sequence[int], tap: _Shape
) -> tuple[slice, ...]:
    """Where the elements of one tap are in an array with its padding."""
    return tuple(
        slice(k * d, k * d + (n - 1) * s + 1, s)
        for k, d, n, s in zip(tap, dilation, counts, stride, strict=True)
    )


def taken(
    np: Any,
    padded: Any,
    counts: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Iterator[tuple[_Shape, Any]]:
    """Each tap of a window, and what all windows have there."""
    for tap in itertools.product(*map(range, kernel)):
        yield tap, padded[(..., *places(np, counts, stride, dilation, tap))]


def first_channels(np: Any, x: Any, last: bool) -> Any:
    """The array with channels second."""
    return np.moveaxis(x, -1, 1) if last else x


def last_channels(np: Any, x: Any, last: bool) -> Any:
    """The array as the caller has it, from one with channels second."""
    return np.moveaxis(x, 1, -1) if last else x


def planes(rank: int, channels: int = 2) -> Callable[[_Shape], _Shape]:
    """From any shape to one of a few samples, channels, and `rank` axes, as long as the last ones
    of that shape; no sample where it has no element.
    """

    def shape(given: _Shape) -> _Shape:
        tail = given[-rank:]
        lengths = (*(1,) * (rank - len(tail)), *(max(n, 1) for n in tail))
        return (0 if 0 in given else 2 if max(lengths) < 1000 else 1, channels, *lengths)

    return shape
