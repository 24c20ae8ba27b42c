"""From call to launches: arrays that are views of another one, copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xtarget import spec

from .elementwise import one_axis
from .layouts import without_axes
from .lies import SHAPES, VIEWS
from .movement import copied_view, copy_launch

__all__ = [
    "broadcast_to",
    "expand_dims",
    "flatten",
    "flatten_2d",
    "flip",
    "moveaxis",
    "permute",
    "reshape",
    "reshape_as",
    "rot90",
    "squeeze",
    "strided_slice",
    "swapaxes",
    "unstack",
]


#: The most results of one call.
_MOST = 1024


def _copied(operator: str) -> Callable[[spec.Call], spec.Plan]:
    """The plan of an operator that gives a copy of a view."""
    lies = VIEWS[operator]

    def plan(call: spec.Call) -> spec.Plan:
        return copied_view(call, *lies(call))

    return plan


broadcast_to = _copied("broadcast_to")
expand_dims = _copied("expand_dims")
flip = _copied("flip")
moveaxis = _copied("moveaxis")
permute = _copied("permute")
rot90 = _copied("rot90")
squeeze = _copied("squeeze")
strided_slice = _copied("strided_slice")
swapaxes = _copied("swapaxes")


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


def _in_shape(operator: str) -> Callable[[spec.Call], spec.Plan]:
    """The plan of an operator that gives the elements in another shape."""
    shape = SHAPES[operator]

    def plan(call: spec.Call) -> spec.Plan:
        return _in_order(call, shape(call))

    return plan


flatten = _in_shape("flatten")
flatten_2d = _in_shape("flatten_2d")
reshape = _in_shape("reshape")


def reshape_as(call: spec.Call) -> spec.Plan:
    """The plan of reshapeas: the elements of x in the shape of another array."""
    x, like = call.array(0), call.array(1)
    if x.size != like.size:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape} and like {like.shape}; they need as many "
            "elements."
        )
    return _in_order(call, like.shape)


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
