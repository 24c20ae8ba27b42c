"""From call to launches: arrays that are views of another one, copied."""

from __future__ import annotations

from collections.abc import Sequence

from xtarget import spec

from .elementwise import normal_axes
from .layouts import without_axes
from .movement import copied_view, copy_launch, integers
from .scans import one_axis

__all__ = [
    "broadcast_to",
    "expand_dims",
    "flatten",
    "flatten_2d",
    "flip",
    "permute",
    "reshape",
    "reshape_as",
    "squeeze",
    "strided_slice",
    "unstack",
]


#: The most results of one call.
_MOST = 1024


def flip(call: spec.Call) -> spec.Plan:
    """The plan of flip: backwards along `axis` (None: all)."""
    x = call.array(0)
    axes = normal_axes(call, call.options["axis"], x.ndim)
    strides = [-s if i in axes else s for i, s in enumerate(x.strides)]
    start = 0
    for axis in axes:
        start += max(x.shape[axis] - 1, 0) * x.strides[axis]
    return copied_view(call, x.shape, strides, start)


def permute(call: spec.Call) -> spec.Plan:
    """The plan of permute: axes in the order `axes` (None: the reverse)."""
    x = call.array(0)
    given = call.options["axes"]
    order = tuple(reversed(range(x.ndim)))
    if given is not None:
        order = tuple(a % max(x.ndim, 1) for a in integers(call, "axes", count=x.ndim))
    if sorted(order) != list(range(x.ndim)):
        raise spec.ArgumentError(
            f"{call.kernel}: axes is {given!r}; it has to name each of the {x.ndim} axes once."
        )
    return copied_view(call, [x.shape[a] for a in order], [x.strides[a] for a in order])


def broadcast_to(call: spec.Call) -> spec.Plan:
    """The plan of broadcast_to: repeated along axes of length 1, and in front, to `shape`."""
    x = call.array(0)
    shape = integers(call, "shape")
    missing = len(shape) - x.ndim
    if missing < 0 or any(
        own not in (1, wanted) for own, wanted in zip(x.shape, shape[missing:], strict=True)
    ):
        raise spec.ArgumentError(f"{call.kernel}: shape {x.shape} does not broadcast to {shape}.")
    own = [0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)]
    return copied_view(call, shape, [0] * missing + own)


def strided_slice(call: spec.Call) -> spec.Plan:
    """The plan of strided_slice: x[starts:stops:steps], for each axis from the first on."""
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
    return copied_view(call, shape, strides, place)


def _in_order(call: spec.Call, shape: Sequence[int]) -> spec.Plan:
    """The elements of the first argument in C order, as an array of `shape`, which has as many."""
    x = call.array(0)
    out = call.output(tuple(shape), x.dtype)
    if out.contiguous:
        steps = spec.contiguous_strides(x.shape)
        launches = copy_launch(call, spec.Input(0), x.shape, x.strides, steps)
    elif x.contiguous:
        steps = spec.contiguous_strides(out.shape)
        launches = copy_launch(call, spec.Input(0), out.shape, steps, out.strides)
    else:
        between = spec.ArrayType(x.dtype, x.shape, spec.contiguous_strides(x.shape))
        steps = spec.contiguous_strides(out.shape)
        goal = spec.Temporary(0)
        launches = (
            *copy_launch(call, spec.Input(0), x.shape, x.strides, between.strides, out=goal),
            *copy_launch(call, goal, out.shape, steps, out.strides),
        )
        return spec.Plan((out,), launches, (between,))
    return spec.Plan((out,), launches)


def reshape(call: spec.Call) -> spec.Plan:
    """The plan of reshape: the elements in C order in another shape, of which one length may be -1:
    what is left.
    """
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
    return _in_order(call, shape)


def reshape_as(call: spec.Call) -> spec.Plan:
    """The plan of reshapeas: the elements of x in the shape of another array."""
    x, like = call.array(0), call.array(1)
    if x.size != like.size:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape} and like {like.shape}; they need as many "
            "elements."
        )
    return _in_order(call, like.shape)


def flatten(call: spec.Call) -> spec.Plan:
    """The plan of flatten: the axes from `start` to `end` as one."""
    x = call.array(0)
    if not x.ndim:
        return _in_order(call, (1,))
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
    return _in_order(call, (*x.shape[:first], length, *x.shape[last + 1 :]))


def flatten_2d(call: spec.Call) -> spec.Plan:
    """The plan of flatten_2d: a matrix, whose rows are the axes in front of `axis`."""
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
    return _in_order(call, sizes)


def squeeze(call: spec.Call) -> spec.Plan:
    """The plan of squeeze: without axes of length 1 (`axis` None: without all of them)."""
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
    return copied_view(call, without_axes(x.shape, axes), without_axes(x.strides, axes))


def expand_dims(call: spec.Call) -> spec.Plan:
    """The plan of expand_dims: with axes of length 1 that are at `axis` in the result."""
    x, axis = call.array(0), call.options["axis"]
    if axis is None:
        raise spec.ArgumentError(f"{call.kernel}: axis is None; it has to be an axis or several.")
    count = len(axis) if isinstance(axis, tuple | list) else 1
    axes = normal_axes(call, axis, x.ndim + count)
    shape, strides = list(x.shape), list(x.strides)
    for one in axes:
        shape.insert(one, 1)
        strides.insert(one, 0)
    return copied_view(call, shape, strides)


def unstack(call: spec.Call) -> spec.Plan:
    """The plan of unstack: the slices along `axis`, an array each."""
    x = call.array(0)
    axis = one_axis(call, x.ndim)
    if call.out is not None:
        raise spec.ArgumentError(f"{call.kernel} gives several arrays. Leave out= out.")
    count = x.shape[axis].__index__()
    if not 1 <= count <= _MOST:
        raise spec.ArgumentError(
            f"{call.kernel}: axis {axis} of an array of shape {x.shape} has {count} slices; from 1 "
            f"to {_MOST} can be results of one call. Take them by strided_slice."
        )
    shape, strides = without_axes(x.shape, (axis,)), without_axes(x.strides, (axis,))
    out = spec.ArrayType(x.dtype, shape, spec.contiguous_strides(shape))
    launches: list[spec.Launch] = []
    for number in range(count):
        place = number * x.strides[axis]
        launches += copy_launch(
            call, spec.Input(0), shape, strides, out.strides, out=spec.Output(number), from_x=place
        )
    return spec.Plan((out,) * count, tuple(launches))
