"""From call to launches: gradients of pooling."""

from __future__ import annotations

import math

from xtarget import spec

from .elementwise import compute_dtype
from .folds import is_floating
from .gathers import indices
from .pooling import five, flat
from .windows import Windows, each_axis, fitting, ordered, rank_of, three, turned

__all__ = ["adaptive_mean", "largest", "mean"]


def _unpooled(
    call: spec.Call, windows: Windows, index: spec.ArrayType | None, *, covering: bool = False
) -> spec.Plan:
    """Args:
    covering: the windows cover the axes; `windows.kernel` is how many hold one element.
    """
    grad, x = ordered(call, call.array(0)), ordered(call, call.array(1))
    if not is_floating(grad.dtype):
        raise spec.ArgumentError(f"{call.kernel}: grad is {grad.dtype}; it has to be floating.")
    shape = (*x.shape[:2], *windows.out)
    if grad.shape != shape:
        raise spec.ArgumentError(
            f"{call.kernel}: grad has shape {call.array(0).shape}; for x of shape "
            f"{call.array(1).shape} and these windows it has to be {turned(call, shape)}."
        )
    if index is not None and index.shape != shape:
        raise spec.ArgumentError(
            f"{call.kernel}: index has shape {call.array(2).shape}; it needs that of grad, "
            f"{call.array(0).shape}."
        )
    out = call.output(call.array(1).shape, grad.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    if not grad.size:
        return spec.Plan((out,), (), (), (0,))
    own = ordered(call, out)
    launch = flat(
        call,
        "pooling:unpool",
        own.size,
        {
            "grad": spec.Input(0),
            "index": None if index is None else spec.Input(2),
            "out": spec.Output(),
        },
        {
            "channels": x.shape[1],
            "tap_count": math.prod(windows.kernel),
            "out_shape": three(x.shape[2:], 1),
            "windows": three(windows.out, 1),
            "kernel": three(windows.kernel, 1),
            "stride": three(windows.stride, 1),
            "before": three(windows.before, 0),
            "after": three(windows.after, 0),
            "dilation": three(windows.dilation, 1),
            "sg": five(grad),
            "si": (0,) * 5 if index is None else five(index),
            "so": five(own),
        },
        {
            "ADAPTIVE": covering,
            "INSIDE": not call.options.get("count_include_pad", True),
            "T": spec.dtype_constant(compute_dtype(grad.dtype)),
        },
    )
    return spec.Plan((out,), (launch,))


def _windows(call: spec.Call) -> Windows:
    x = ordered(call, call.array(1))
    rank = rank_of(call, x.ndim, None)
    kernel = each_axis(call, "kernel", rank)
    return fitting(call, x.shape[2:], kernel, ceil=bool(call.options["ceil_mode"]))


def largest(call: spec.Call) -> spec.Plan:
    """The plan of the gradient of max_pool: each window's goes to the element that `index` says."""
    indices(call, 2)
    return _unpooled(call, _windows(call), ordered(call, call.array(2)))


def mean(call: spec.Call) -> spec.Plan:
    """The plan of the gradient of avg_pool."""
    return _unpooled(call, _windows(call), None)


def adaptive_mean(call: spec.Call) -> spec.Plan:
    """The plan of the gradient of adaptive_avg_pool, whose `size` is that of `grad`."""
    grad, x = ordered(call, call.array(0)), ordered(call, call.array(1))
    rank = rank_of(call, x.ndim, None)
    if grad.ndim != x.ndim or 0 in x.shape[2:]:
        raise spec.ArgumentError(
            f"{call.kernel}: grad has shape {call.array(0).shape} for x of shape "
            f"{call.array(1).shape}; it needs as many dimensions, and x elements."
        )
    size = grad.shape[2:]
    holding = tuple(spec.cdiv(o, n) + 1 for o, n in zip(size, x.shape[2:], strict=True))
    none, one = (0,) * rank, (1,) * rank
    return _unpooled(call, Windows(holding, one, one, none, none, size), None, covering=True)
