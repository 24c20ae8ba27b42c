"""From call to launches: slices replaced, differences of neighbours, padding of the last axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xtarget import spec

from .elementwise import one_axis
from .gates import walk
from .layouts import without_axes
from .movement import copy_launch, integers, pad

__all__ = ["difference", "pad_last", "select_scatter", "slice_scatter"]


def _replaced(
    call: spec.Call, shape: Sequence[int], strides: Sequence[int], start: int, out: spec.ArrayType
) -> spec.Plan:
    """A copy of the first argument whose elements of a view are those of the second."""
    x, source = call.array(0), call.array(1)
    if source.shape != tuple(shape) or source.dtype != x.dtype:
        raise spec.ArgumentError(
            f"{call.kernel}: source has shape {source.shape} of {source.dtype}; what it replaces "
            f"has shape {tuple(shape)} of {x.dtype}."
        )
    launches = (
        *copy_launch(call, spec.Input(0), x.shape, x.strides, out.strides),
        *copy_launch(call, spec.Input(1), shape, source.strides, strides, from_out=start),
    )
    return spec.Plan((out,), launches)


def select_scatter(call: spec.Call) -> spec.Plan:
    """The plan of select_scatter: x with x[..., index, ...] replaced."""
    x = call.array(0)
    axis = one_axis(call, x.ndim)
    (index,) = integers(call, "index", count=1)
    length = x.shape[axis]
    if not -length <= index < length:
        raise spec.ArgumentError(
            f"{call.kernel}: index is {index} for axis {axis}, which has {length} elements."
        )
    out = call.output(x.shape, x.dtype)
    rest, strides = (without_axes(own, (axis,)) for own in (x.shape, out.strides))
    place = (index + length if index < 0 else index) * out.strides[axis]
    return _replaced(call, rest, strides, place, out)


def slice_scatter(call: spec.Call) -> spec.Plan:
    """The plan of slice_scatter: x with x[..., start:stop:step, ...] replaced."""
    x = call.array(0)
    axis = one_axis(call, x.ndim)
    given = [call.options[name] for name in ("start", "stop", "step")]
    for name, value in zip(("start", "stop", "step"), given, strict=True):
        if value is not None:
            integers(call, name, count=1)
    if given[2] is not None and given[2] < 1:
        raise spec.ArgumentError(f"{call.kernel}: step is {given[2]}; it has to be 1 or more.")
    first, last, by = slice(*given).indices(x.shape[axis].__index__())
    count = len(range(first, last, by))
    out = call.output(x.shape, x.dtype)
    shape = [count if i == axis else n for i, n in enumerate(x.shape)]
    strides = [s * by if i == axis else s for i, s in enumerate(out.strides)]
    return _replaced(call, shape, strides, first * out.strides[axis] if count else 0, out)


def difference(call: spec.Call) -> spec.Plan:
    """The plan of diff, as NumPy's: from each element of an axis to the next one, `n` times."""
    x = call.array(0)
    axis = one_axis(call, x.ndim)
    (times,) = integers(call, "n", count=1)
    if times < 0:
        raise spec.ArgumentError(f"{call.kernel}: n is {times}; it may not be below 0.")
    shapes = [
        tuple(max(n - by, 0) if i == axis else n for i, n in enumerate(x.shape))
        for by in range(min(times, x.shape[axis].__index__()) + 1)
    ]
    out = call.output(shapes[-1], x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    if not times:
        return spec.Plan((out,), copy_launch(call, spec.Input(0), x.shape, x.strides, out.strides))
    temporaries: list[spec.ArrayType] = []
    launches = []
    source: spec.Input | spec.Temporary = spec.Input(0)
    goal: spec.Output | spec.Temporary
    strides = x.strides
    for shape in shapes[1:]:
        if shape is shapes[-1]:
            goal, made = spec.Output(), out.strides
        else:
            made = spec.contiguous_strides(shape)
            temporaries.append(spec.ArrayType(x.dtype, shape, made))
            goal = spec.Temporary(len(temporaries) - 1)
        launches.append(
            walk(
                call,
                "movement:difference",
                {"x": source, "out": goal},
                {"step": strides[axis]},
                shape,
                {"so": made, "sx": strides},
                {},
            )
        )
        if isinstance(goal, spec.Temporary):
            source, strides = goal, made
    return spec.Plan((out,), tuple(launches), tuple(temporaries))


def pad_last(mode: str, rank: int) -> Callable[[spec.Call], spec.Plan]:
    """The plan of torch's paddings of the last `rank` axes, which `padding` says from the last axis
    on: a number for all, or what is before and after each.

    Args:
        mode: of `pad`.
    """

    def plan(call: spec.Call) -> spec.Plan:
        x = call.array(0)
        given = integers(call, "padding")
        pairs = given * (2 * rank) if len(given) == 1 else given
        if len(pairs) != 2 * rank or min(pairs) < 0 or x.ndim < rank:
            raise spec.ArgumentError(
                f"{call.kernel}: padding is {call.options['padding']!r} for an array of {x.ndim} "
                f"dimensions; it has to be a number from 0 on, or {rank} pairs of them, of the "
                "last axis first."
            )
        axes = zip(
            reversed(pairs[::2]), reversed(pairs[1::2]), x.shape[x.ndim - rank :], strict=True
        )
        width = [0, 0] * (x.ndim - rank)
        for before, after, length in axes:
            if mode == "reflect" and max(before, after) >= length:
                raise spec.ArgumentError(
                    f"{call.kernel}: padding is {call.options['padding']!r}; an axis of {length} "
                    f"elements has {max(length - 1, 0)} to mirror."
                )
            width += [before, after]
        return pad(replace(call, options={"width": tuple(width), "mode": mode, "value": 0}))

    return plan
