"""Shapes and strides made as simple as they can be, before a kernel sees them.

The device side (`indexing.offset`) takes a shape without its outermost length, which it does not
need, and strides that are one shorter when the innermost of them is 1: the compiler then knows that
neighbours lie side by side. So a contiguous array is `shape=()`, `strides=()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xtarget.spec import ArrayType, contiguous_strides

__all__ = [
    "Space",
    "broadcast_strides",
    "broadcasts",
    "collapse",
    "device_strides",
    "is_huge",
    "merge",
    "widened",
    "without_axes",
]

#: Elements from which on indices may need more than 32 bits (the runtime's limit).
_NARROW = 2**31 - 2**20
#: Axes of the spaces that general kernels take.
_RANKS = (2, 4, 8)


class Space(NamedTuple):
    """An index space of `size` elements, with the strides of each operand in it.

    `lengths` and `strides` are in the form that the device side takes.
    """

    size: int
    lengths: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    def named(self, *names: str) -> dict[str, tuple[int, ...]]:
        """Arguments of a launch: `shape`, and the strides of the first operands by these names."""
        strides = self.strides[: len(names)]
        return {"shape": self.lengths, **dict(zip(names, strides, strict=True))}


def broadcast_strides(arg: ArrayType, shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of `arg` when it is read as an array of `shape`: 0 along the axes it lacks."""
    missing = len(shape) - arg.ndim
    own = (
        0 if length == 1 and wanted != 1 else stride
        for length, stride, wanted in zip(arg.shape, arg.strides, shape[missing:], strict=True)
    )
    return (0,) * missing + tuple(own)


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether an array of `shape` can be read as one of the shape `to`."""
    missing = len(to) - len(shape)
    return missing >= 0 and all(
        own in (1, wanted) for own, wanted in zip(shape, to[missing:], strict=True)
    )


def without_axes(values: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """`values` without those at `axes`."""
    return tuple(value for axis, value in enumerate(values) if axis not in axes)


def merge(
    shape: Sequence[int], operands: Sequence[Sequence[int]], *, keep_order: bool = False
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The fewest axes that describe the same elements of all operands.

    Axes of length 1 go; neighbours that one step describes in every operand become one. Unless
    `keep_order`, axes are first sorted so that the first operand is walked in memory order, as may
    be done where every element is treated alike.
    """
    axes = [
        (length, tuple(strides[axis] for strides in operands))
        for axis, length in enumerate(shape)
        if length != 1
    ]
    if not keep_order:
        axes.sort(key=lambda axis: tuple(-abs(stride) for stride in axis[1]))
    merged: list[tuple[int, tuple[int, ...]]] = []
    for length, steps in axes:
        if merged and all(
            outer == inner * length for outer, inner in zip(merged[-1][1], steps, strict=True)
        ):
            merged[-1] = (merged[-1][0] * length, steps)
        else:
            merged.append((length, steps))
    lengths = tuple(length for length, _ in merged)
    return lengths, tuple(
        tuple(steps[operand] for _, steps in merged) for operand in range(len(operands))
    )


def device_strides(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides as the device side takes them: without a last stride of 1."""
    return strides[:-1] if strides and strides[-1] == 1 else strides


def collapse(shape: Sequence[int], *operands: Sequence[int], keep_order: bool = False) -> Space:
    """`shape` and the operands' strides, merged and in the device side's form."""
    lengths, strides = merge(shape, operands, keep_order=keep_order)
    size = 1
    for length in lengths:
        size *= length
    if not lengths:  # one element: a step of 0 keeps the alignment of what it is added to
        return Space(1, (), ((0,),) * len(operands))
    return Space(size, lengths[1:], tuple(device_strides(s) for s in strides))


def is_huge(*sizes: int) -> bool:
    """Whether an array of one of these numbers of elements needs 64-bit indices."""
    return any(size > _NARROW for size in sizes)


def widened(space: Space, ranks: Sequence[int] = _RANKS, *, full: bool = False) -> Space:
    """The space in a form that few kernels serve (`Call.general`): of as many axes as one of
    `ranks`, the outer ones of length 1, and with all strides; without the last ones where all
    operands' are 1, unless `full`.
    """
    axes = len(space.lengths) + 1
    outermost = space.size
    for length in space.lengths:
        outermost = outermost // length
    shape = (outermost, *space.lengths)
    # no strides at all number the elements in their order
    ordered = device_strides(contiguous_strides(shape))
    strides = tuple(own or ordered for own in space.strides)
    inner = not full and all(len(own) < axes for own in strides)
    rank = next((rank for rank in ranks if rank >= axes), axes)
    if not inner:
        strides = tuple(own if len(own) == axes else (*own, 1) for own in strides)
    lengths = (*(1,) * (rank - axes), *shape)[1:]
    return Space(space.size, lengths, tuple((*(0,) * (rank - axes), *own) for own in strides))
