"""From call to launches: several arrays in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xtarget import spec

from .elementwise import one_axis
from .movement import copy_launch

__all__ = ["beside", "concat", "stack"]


def _arrays(call: spec.Call) -> list[spec.ArrayType]:
    return [call.array(index) for index in range(len(call.args))]


def _dtype(call: spec.Call) -> str:
    return call.rules.promote(*(arg.dtype for arg in call.args))


def concat(call: spec.Call) -> spec.Plan:
    """The plan of concat: arrays one after the other along `axis`."""
    arrays = _arrays(call)
    return _joined(call, arrays, one_axis(call, arrays[0].ndim))


def beside(axis: int) -> Callable[[spec.Call], spec.Plan]:
    """The plan of hstack, vstack and dstack: along this axis, of arrays with axes of length 1 where
    they have too few dimensions. hstack joins vectors along the only one.
    """

    def plan(call: spec.Call) -> spec.Plan:
        given = _arrays(call)
        arrays = [_at_least(array, 3 if axis == 2 else 1 if axis == 1 else 2) for array in given]
        return _joined(call, arrays, 0 if arrays[0].ndim == 1 else axis)

    return plan


def _at_least(array: spec.ArrayType, ndim: int) -> spec.ArrayType:
    """An array with so many dimensions, as NumPy's atleast_1d to atleast_3d."""
    shape, strides = array.shape, array.strides
    while len(shape) < ndim:
        if len(shape) == 2:  # the third one comes last
            shape, strides = (*shape, 1), (*strides, 0)
        else:
            shape, strides = (1, *shape), (0, *strides)
    return spec.ArrayType(array.dtype, shape, strides)


def _joined(call: spec.Call, arrays: Sequence[spec.ArrayType], axis: int) -> spec.Plan:
    shape = list(arrays[0].shape)
    for number, array in enumerate(arrays[1:], 2):
        others = [n for i, n in enumerate(array.shape) if i != axis]
        if array.ndim != len(shape) or others != [n for i, n in enumerate(shape) if i != axis]:
            raise spec.ArgumentError(
                f"{call.kernel}: argument {number} has shape {array.shape}, and the first one has "
                f"shape {arrays[0].shape}; they need the same except along axis {axis}."
            )
        shape[axis] += array.shape[axis]
    out = call.output(shape, _dtype(call))
    launches: list[spec.Launch] = []
    place = 0
    for index, array in enumerate(arrays):
        launches += copy_launch(
            call, spec.Input(index), array.shape, array.strides, out.strides, from_out=place
        )
        place += array.shape[axis] * out.strides[axis]
    return spec.Plan((out,), tuple(launches))


def stack(call: spec.Call) -> spec.Plan:
    """The plan of stack: arrays of one shape along a new axis."""
    arrays = _arrays(call)
    first = arrays[0]
    for number, array in enumerate(arrays[1:], 2):
        if array.shape != first.shape:
            raise spec.ArgumentError(
                f"{call.kernel}: argument {number} has shape {array.shape}, and the first one has "
                f"shape {first.shape}; they need the same."
            )
    axis = one_axis(call, first.ndim + 1)
    shape = (*first.shape[:axis], len(arrays), *first.shape[axis:])
    out = call.output(shape, _dtype(call))
    strides = (*out.strides[:axis], *out.strides[axis + 1 :])
    launches: list[spec.Launch] = []
    for index, array in enumerate(arrays):
        place = index * out.strides[axis]
        launches += copy_launch(
            call, spec.Input(index), array.shape, array.strides, strides, from_out=place
        )
    return spec.Plan((out,), tuple(launches))
