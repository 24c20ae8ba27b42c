"""From call to launches: medians, quantiles, and what is there most often."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xtarget import spec

from .elementwise import compute_dtype, normal_axes
from .folds import is_floating
from .layouts import collapse, without_axes
from .movement import copy_launch
from .sorting import Sorting, lane_launch
from .vectors import array_and_axis

__all__ = ["median", "mode", "quantile"]

_METHODS = ("linear", "lower", "higher", "nearest", "midpoint")


class _Ranked:
    """Rows of the first argument along the option `axis` (None: all of it; several: along all of
    these), in order.
    """

    def __init__(self, call: spec.Call) -> None:
        self.call = call
        x = call.array(0)
        if not x.ndim and call.options["axis"] is not None:
            raise spec.ArgumentError(f"{call.kernel}: x has no dimensions; give axis=None.")
        axis = call.options["axis"]
        several = isinstance(axis, tuple | list)
        self.axes = normal_axes(call, axis, x.ndim) if several else ()
        if several and not self.axes:
            raise spec.ArgumentError(f"{call.kernel}: axis is {axis!r}; give an axis, or None.")
        if len(self.axes) > 1:
            found = _side_by_side(call, x, self.axes)
        else:
            found = array_and_axis(call, *self.axes)
        self.x, self.axis, self.source, self.before, temporaries = found
        if len(self.axes) < 2:
            self.axes = (self.axis,)
        # a number: expressions of the many runs of all elements would take a class seconds
        self.n = self.x.shape[self.axis].__index__()
        if call.options["axis"] is None:
            self.x = spec.ArrayType(self.x.dtype, (self.n,), self.x.strides)
        self.kept = without_axes(self.x.shape, (self.axis,))
        self.shape = self.kept
        if call.options["keepdims"]:
            everything = call.options["axis"] is None
            self.shape = tuple(
                1 if everything or i in self.axes else n for i, n in enumerate(x.shape)
            )
        self._temporaries = tuple(temporaries)

    def refuse_nothing(self) -> None:
        if not self.n:
            raise spec.ArgumentError(
                f"{self.call.kernel}: axis {self.call.options['axis']!r} of an array of shape "
                f"{self.call.array(0).shape} has no elements, and {self.call.kernel} of nothing is "
                "not defined."
            )

    def sorted(self) -> tuple[Sorting, spec.Temporary]:
        """The rows in order side by side, numbered as those of the result."""
        x, n = self.x, self.n
        steps = [n * step for step in spec.contiguous_strides(self.kept)]
        steps.insert(self.axis, 1)
        rows = spec.ArrayType(x.dtype, x.shape, tuple(steps))
        goal = spec.Temporary(len(self._temporaries))
        flat = spec.ArrayType(x.dtype, (x.size,), (1,))
        work = Sorting(
            self.call, x, self.axis, rows, source=self.source,
            temporaries=(*self._temporaries, flat), in_order=True,
        )  # fmt: skip
        work.finish(goal, None)
        return work, goal

    def steps(self, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of a result along the axes that are kept."""
        if len(strides) == len(self.kept):
            return strides
        if self.call.options["axis"] is None:
            return ()
        return without_axes(strides, self.axes)

    def between(
        self,
        x: spec.Temporary,
        out: spec.ArrayType,
        strides: tuple[int, ...],
        place: tuple[int, int, float],
        *,
        from_out: int = 0,
        median: bool = False,
        ignore: bool = False,
    ) -> spec.Launch:
        computed = compute_dtype(out.dtype)
        space = collapse(self.kept, self.steps(strides), keep_order=True)
        return lane_launch(
            self.call,
            "ranked:between",
            space.size,
            {
                "x": x,
                "out": spec.Output(),
                "n": space.size,
                "length": self.n,
                "low": place[0],
                "high": place[1],
                "weight": spec.Scalar(place[2], computed),
                "from_out": from_out,
                **space.named("so"),
            },
            {"MEDIAN": median, "IGNORE": ignore, "T": spec.dtype_constant(computed)},
        )


def _side_by_side(call: spec.Call, x: spec.ArrayType, axes: tuple[int, ...]) -> Any:
    """Return what `array_and_axis` gives, for a copy that has several axes as its last one."""
    kept, own = without_axes(x.shape, axes), tuple(x.shape[axis] for axis in axes)
    steps = (*without_axes(x.strides, axes), *(x.strides[axis] for axis in axes))
    shape = (*kept, math.prod(own))
    one = spec.ArrayType(x.dtype, shape, spec.contiguous_strides(shape))
    whole = (*kept, *own)
    goal = spec.Temporary(0)
    copies = copy_launch(
        call, spec.Input(0), whole, steps, spec.contiguous_strides(whole), out=goal
    )
    return one, len(kept), goal, copies, (one,)


def _result(dtype: str) -> str:
    return dtype if is_floating(dtype) else "float64"


def median(*, ignore: bool = False) -> Callable[[spec.Call], spec.Plan]:
    """The plan of median; `ignore`: of what is not nan."""

    def plan(call: spec.Call) -> spec.Plan:
        rows = _Ranked(call)
        out = call.output(rows.shape, _result(rows.x.dtype))
        if not out.size:
            return spec.Plan((out,), ())
        rows.refuse_nothing()
        work, goal = rows.sorted()
        places = ((rows.n - 1) // 2, rows.n // 2, 0.5)
        skips = ignore and is_floating(rows.x.dtype)
        work.launches.append(
            rows.between(goal, out, out.strides, places, median=True, ignore=skips)
        )
        return work.plan((out,), rows.before)

    return plan


def quantile(call: spec.Call) -> spec.Plan:
    """The plan of quantile: for each of `q`, which are the first axis if there are several."""
    rows = _Ranked(call)
    given, method = call.options["q"], call.options["method"]
    given = 0.5 if given is None else given
    several = isinstance(given, tuple | list)
    wanted = tuple(given) if isinstance(given, tuple | list) else (given,)
    for q in wanted:
        if isinstance(q, bool) or not isinstance(q, int | float) or not 0 <= q <= 1:
            raise spec.ArgumentError(
                f"{call.kernel}: q is {given!r}; it has to be a number from 0 to 1, or several."
            )
    if method not in _METHODS:
        raise spec.ArgumentError(
            f"{call.kernel}: method is {method!r}; it has to be one of "
            f"{', '.join(map(repr, _METHODS))}."
        )
    shape = (len(wanted), *rows.shape) if several else rows.shape
    out = call.output(shape, _result(rows.x.dtype))
    if not out.size:
        return spec.Plan((out,), ())
    rows.refuse_nothing()
    work, goal = rows.sorted()
    strides = out.strides[1:] if several else out.strides
    for number, q in enumerate(wanted):
        start = number * out.strides[0] if several else 0
        work.launches.append(
            rows.between(goal, out, strides, _place(q, rows.n, str(method)), from_out=start)
        )
    return work.plan((out,), rows.before)


def _place(q: float, n: int, method: str) -> tuple[int, int, float]:
    """Two places among `n`, and how far from the first to the second one."""
    last = n - 1
    at = q * last
    low = min(int(at), last)
    high = min(low + 1, last) if at > low else low
    if method == "lower":
        return low, low, 0.0
    if method == "higher":
        return high, high, 0.0
    if method == "nearest":
        one = min(round(at), last)
        return one, one, 0.0
    return low, high, 0.5 if method == "midpoint" else at - low


def mode(call: spec.Call) -> spec.Plan:
    """The plan of mode: the most frequent element along `axis`, and how often it is there."""
    rows = _Ranked(call)
    if call.out is not None:
        raise spec.ArgumentError(f"{call.kernel} gives two arrays. Leave out= out.")
    outs = tuple(
        spec.ArrayType(dtype, rows.shape, spec.contiguous_strides(rows.shape))
        for dtype in (rows.x.dtype, "int64")
    )
    if not outs[0].size:
        return spec.Plan(outs, ())
    rows.refuse_nothing()
    work, goal = rows.sorted()
    space = collapse(rows.kept, rows.steps(outs[0].strides), keep_order=True)
    work.launches.append(
        lane_launch(
            call,
            "ranked:mode",
            space.size,
            {
                "x": goal,
                "out": spec.Output(0),
                "count": spec.Output(1),
                "n": space.size,
                "length": rows.n,
                **space.named("so"),
            },
            walks=True,
        )
    )
    return work.plan(outs, rows.before)
