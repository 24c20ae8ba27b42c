"""From call to launches: the first few of rows in order."""

from __future__ import annotations

from xtarget import spec

from .elementwise import one_axis
from .folds import outputs
from .layouts import without_axes
from .movement import integers
from .sorting import Sorting

__all__ = ["kthvalue", "topk"]


def _number(call: spec.Call, name: str, least: int, most: int, what: str) -> int:
    (value,) = integers(call, name, count=1)
    if not least <= value <= most:
        raise spec.ArgumentError(
            f"{call.kernel}: {name} is {value}; it has to be from {least} to {most}, {what}."
        )
    return value


def topk(call: spec.Call) -> spec.Plan:
    """The plan of topk: the `k` largest (or smallest) along `axis`, in order, and their indices."""
    x = call.array(0)
    axis = one_axis(call, x.ndim)
    n = x.shape[axis]
    k = _number(call, "k", 0, n, "the length of the axis")
    outs = outputs(call, (*x.shape[:axis], k, *x.shape[axis + 1 :]), x.dtype, "int64")
    if not outs[0].size:
        return spec.Plan(outs, ())
    sorting = Sorting(call, x, axis, outs[0], descending=bool(call.options["largest"]), keep=k)
    sorting.finish(spec.Output(0), spec.Output(1), count=k)
    return sorting.plan(outs)


def kthvalue(call: spec.Call) -> spec.Plan:
    """The plan of kthvalue: the `k`-th smallest along `axis`, and its index."""
    x = call.array(0)
    axis = one_axis(call, x.ndim)
    k = _number(call, "k", 1, x.shape[axis], "the length of the axis")
    full = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    shape = full if call.options["keepdims"] else without_axes(full, (axis,))
    outs = outputs(call, shape, x.dtype, "int64")
    if not outs[0].size:
        return spec.Plan(outs, ())
    rows = spec.ArrayType(x.dtype, full, spec.contiguous_strides(full))
    sorting = Sorting(call, x, axis, rows, keep=k)
    sorting.finish(spec.Output(0), spec.Output(1), first=k - 1, count=1)
    return sorting.plan(outs)
