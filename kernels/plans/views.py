"""From call to launches: arrays that are views of another one, copied."""

from __future__ import annotations

from xtarget import spec

from .elementwise import normal_axes
from .movement import copied_view, integers

__all__ = ["broadcast_to", "diagonal", "flip", "permute", "strided_slice"]


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


def diagonal(call: spec.Call) -> spec.Plan:
    """The plan of diagonal: NumPy's, of the last two axes unless `axis1` and `axis2` say others."""
    x = call.array(0)
    pair = tuple(integers(call, name)[0] for name in ("axis1", "axis2"))
    if any(not -x.ndim <= a < x.ndim for a in pair) or (pair[0] - pair[1]) % x.ndim == 0:
        raise spec.ArgumentError(
            f"{call.kernel}: axes {pair} of an array of {x.ndim} dimensions; they have to be two "
            "of its axes."
        )
    one, other = (a % x.ndim for a in pair)
    (k,) = integers(call, "offset")
    rows, columns = x.shape[one], x.shape[other]
    length = max(0, min(rows, columns - k) if k >= 0 else min(rows + k, columns))
    start = (k * x.strides[other] if k >= 0 else -k * x.strides[one]) if length else 0
    left = [i for i in range(x.ndim) if i not in (one, other)]
    return copied_view(
        call,
        [*(x.shape[i] for i in left), length],
        [*(x.strides[i] for i in left), x.strides[one] + x.strides[other]],
        start,
    )
