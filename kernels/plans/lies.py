"""Operators that move nothing: how their results lie in the memory of their argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from xtarget import spec

from .elementwise import normal_axes
from .layouts import without_axes
from .movement import integers

__all__ = ["SHAPES", "VIEWS", "Lies", "regrouped"]

Shape: TypeAlias = tuple[int, ...]


class Lies(NamedTuple):
    """A view of an array: shape, strides, and the offset of its first element."""

    shape: Sequence[int]
    strides: Sequence[int]
    start: int = 0


def flipped(call: spec.Call) -> Lies:
    """The view of flip: backwards along `axis` (None: all)."""
    x = call.array(0)
    axes = normal_axes(call, call.options["axis"], x.ndim)
    strides = [-s if i in axes else s for i, s in enumerate(x.strides)]
    start = 0
    for axis in axes:
        start += max(x.shape[axis] - 1, 0) * x.strides[axis]
    return Lies(x.shape, strides, start)


def permuted(call: spec.Call) -> Lies:
    """The view of permute: axes in the order `axes` (None: the reverse)."""
    x = call.array(0)
    given = call.options["axes"]
    order = tuple(reversed(range(x.ndim)))
    if given is not None:
        order = tuple(a % max(x.ndim, 1) for a in integers(call, "axes", count=x.ndim))
    if sorted(order) != list(range(x.ndim)):
        raise spec.ArgumentError(
            f"{call.kernel}: axes is {given!r}; it has to name each of the {x.ndim} axes once."
        )
    return _in_axes(x, order)


def rotated(call: spec.Call) -> Lies:
    """The view of rot90: turned `k` times by 90 degrees from the first of `axes` to the second."""
    x = call.array(0)
    (k,) = integers(call, "k", count=1)
    first, second = _two_axes(call, x.ndim, integers(call, "axes", count=2))
    shape, strides, start = list(x.shape), list(x.strides), 0
    # half a turn is both axes backwards; a quarter takes the axis that becomes the first backwards
    for axis in ((), (second,), (first, second), (first,))[k % 4]:
        start += max(shape[axis] - 1, 0) * strides[axis]
        strides[axis] = -strides[axis]
    if k % 2:
        for of in (shape, strides):
            of[first], of[second] = of[second], of[first]
    return Lies(shape, strides, start)


def swapped(call: spec.Call) -> Lies:
    """The view of swapaxes: `axis1` and `axis2` in each other's place."""
    x = call.array(0)
    pair = [integers(call, name, count=1)[0] for name in ("axis1", "axis2")]
    first, second = _axes_of(call, x.ndim, pair)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return _in_axes(x, order)


def displaced(call: spec.Call) -> Lies:
    """The view of moveaxis: the axes `source` at the places `destination`, the others in order."""
    x = call.array(0)
    sources, goals = (integers(call, name) for name in ("source", "destination"))
    if len(sources) != len(goals):
        raise spec.ArgumentError(
            f"{call.kernel}: source names {len(sources)} axes and destination {len(goals)}; they "
            "need as many."
        )
    from_, to = _axes_of(call, x.ndim, sources), _axes_of(call, x.ndim, goals)
    for name, axes in (("source", from_), ("destination", to)):
        if len({*axes}) < len(axes):
            raise spec.ArgumentError(
                f"{call.kernel}: {name} is {call.options[name]!r}, which names an axis twice."
            )
    order = [axis for axis in range(x.ndim) if axis not in from_]
    for goal, source in sorted(zip(to, from_, strict=True)):
        order.insert(goal, source)
    return _in_axes(x, order)


def _in_axes(x: spec.ArrayType, order: Sequence[int]) -> Lies:
    return Lies([x.shape[a] for a in order], [x.strides[a] for a in order])


def _axes_of(call: spec.Call, ndim: int, axes: Sequence[int]) -> list[int]:
    """Axes from 0 on, in the order and as often as they are given."""
    return [axis for one in axes for axis in normal_axes(call, one, ndim, several=False)]


def _two_axes(call: spec.Call, ndim: int, axes: Sequence[int]) -> list[int]:
    found = _axes_of(call, ndim, axes)
    if found[0] == found[1]:
        raise spec.ArgumentError(f"{call.kernel}: axes is {tuple(axes)}; it has to name two axes.")
    return found


def broadcasted(call: spec.Call) -> Lies:
    """The view of broadcast_to: repeated along axes of length 1, and in front, to `shape`."""
    x = call.array(0)
    shape = integers(call, "shape")
    missing = len(shape) - x.ndim
    if missing < 0 or any(
        own not in (1, wanted) for own, wanted in zip(x.shape, shape[missing:], strict=True)
    ):
        raise spec.ArgumentError(f"{call.kernel}: shape {x.shape} does not broadcast to {shape}.")
    own = [0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)]
    return Lies(shape, [0] * missing + own)


def sliced(call: spec.Call) -> Lies:
    """The view of strided_slice: x[starts:stops:steps], for each axis from the first on."""
    x = call.array(0)
    options = {name: call.options[name] for name in ("starts", "stops", "steps")}
    count = len(integers(call, "starts"))
    if count > x.ndim:
        raise spec.ArgumentError(
            f"{call.kernel}: {count} starts for an array of {x.ndim} dimensions."
        )
    starts = integers(call, "starts")
    stops = (
        integers(call, "stops", count=count) if options["stops"] is not None else (None,) * count
    )
    steps = integers(call, "steps", count=count) if options["steps"] is not None else (1,) * count
    if 0 in steps:
        raise spec.ArgumentError(f"{call.kernel}: steps is {options['steps']!r}; none may be 0.")
    shape, strides, place = list(x.shape), list(x.strides), 0
    for axis, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        first, last, by = slice(start, stop, step).indices(x.shape[axis].__index__())
        shape[axis] = len(range(first, last, by))
        strides[axis] *= by
        place += first * x.strides[axis] if shape[axis] else 0
    return Lies(shape, strides, place)


def squeezed(call: spec.Call) -> Lies:
    """The view of squeeze: without axes of length 1 (`axis` None: without all of them)."""
    x = call.array(0)
    if call.options["axis"] is None:
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    else:
        axes = normal_axes(call, call.options["axis"], x.ndim)
        for axis in axes:
            if x.shape[axis] != 1:
                raise spec.ArgumentError(
                    f"{call.kernel}: axis {axis} of an array of shape {x.shape} has length "
                    f"{x.shape[axis]}; only one of length 1 can go."
                )
    return Lies(without_axes(x.shape, axes), without_axes(x.strides, axes))


def expanded(call: spec.Call) -> Lies:
    """The view of expand_dims: with axes of length 1 that are at `axis` in the result."""
    x, axis = call.array(0), call.options["axis"]
    if axis is None:
        raise spec.ArgumentError(f"{call.kernel}: axis is None; it has to be an axis or several.")
    count = len(axis) if isinstance(axis, tuple | list) else 1
    axes = normal_axes(call, axis, x.ndim + count)
    shape, strides = list(x.shape), list(x.strides)
    for one in axes:
        shape.insert(one, 1)
        strides.insert(one, 0)
    return Lies(shape, strides)


def reshaped(call: spec.Call) -> Shape:
    """The shape that reshape gives; one length of the option may be -1: what is left."""
    x, shape = call.array(0), list(integers(call, "shape"))
    if shape.count(-1) > 1 or min(shape, default=0) < -1:
        raise spec.ArgumentError(
            f"{call.kernel}: shape is {tuple(shape)}; one length may be -1, and none below that."
        )
    known = 1
    for length in shape:
        known *= 1 if length == -1 else length
    if -1 in shape and known and not x.size % known:
        shape[shape.index(-1)] = x.size // known
        known = x.size
    if -1 in shape or known != x.size:
        raise spec.ArgumentError(
            f"{call.kernel}: an array of shape {x.shape} has {x.size} elements, which shape "
            f"{call.options['shape']!r} does not have."
        )
    return tuple(shape)


def flattened(call: spec.Call) -> Shape:
    """The shape that flatten gives: the axes from `start` to `end` as one."""
    x = call.array(0)
    if not x.ndim:
        return (1,)
    pair = [integers(call, name, count=1)[0] for name in ("start", "end")]
    if any(not -x.ndim <= axis < x.ndim for axis in pair):
        raise spec.ArgumentError(
            f"{call.kernel}: start and end are {pair[0]} and {pair[1]}, for an array of {x.ndim} "
            f"dimensions; they may be from {-x.ndim} to {x.ndim - 1}."
        )
    first, last = (axis % x.ndim for axis in pair)
    if first > last:
        raise spec.ArgumentError(f"{call.kernel}: start {pair[0]} is behind end {pair[1]}.")
    length = 1
    for n in x.shape[first : last + 1]:
        length *= n
    return (*x.shape[:first], length, *x.shape[last + 1 :])


def flattened_2d(call: spec.Call) -> Shape:
    """The shape that flatten_2d gives: a matrix, whose rows are the axes in front of `axis`."""
    x = call.array(0)
    (axis,) = integers(call, "axis", count=1)
    if not -x.ndim <= axis <= x.ndim:
        raise spec.ArgumentError(
            f"{call.kernel}: axis is {axis} for an array of {x.ndim} dimensions; it may be from "
            f"{-x.ndim} to {x.ndim}."
        )
    axis = axis + x.ndim if axis < 0 else axis
    sizes = [1, 1]
    for place, n in enumerate(x.shape):
        sizes[place >= axis] *= n
    return tuple(sizes)


def regrouped(x: spec.ArrayType, shape: Shape) -> Shape | None:
    """Strides with which the elements of an array are, in C order, an array of another shape; None:
    they have to be copied.
    """
    if not x.size:
        return spec.contiguous_strides(shape)
    runs: list[tuple[int, int]] = []  # axes that are one, each with its length and stride
    for n, stride in zip(x.shape, x.strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * stride:
            runs[-1] = runs[-1][0] * n, stride
        else:
            runs.append((n, stride))
    strides = []
    left, step = 1, 1
    for n in reversed(shape):
        if left == 1 and n != 1 and runs:
            left, step = runs.pop()
        if left % n:
            return None
        strides.append(step)
        left, step = left // n, step * n
    return tuple(reversed(strides))


#: By operator, the view of the first argument that it gives.
VIEWS: Mapping[str, Callable[[spec.Call], Lies]] = {
    "broadcast_to": broadcasted,
    "expand_dims": expanded,
    "flip": flipped,
    "moveaxis": displaced,
    "permute": permuted,
    "rot90": rotated,
    "squeeze": squeezed,
    "strided_slice": sliced,
    "swapaxes": swapped,
}
#: By operator, the shape in which it gives the elements of the first argument, in C order.
SHAPES: Mapping[str, Callable[[spec.Call], Shape]] = {
    "flatten": flattened,
    "flatten_2d": flattened_2d,
    "reshape": reshaped,
}
