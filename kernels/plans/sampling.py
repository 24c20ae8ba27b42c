"""From call to launches: tokens of rows of logits."""

from __future__ import annotations

from typing import Any

from xtarget import spec

from . import tuning_order
from .elementwise import compute_dtype
from .layouts import collapse
from .movement import integers
from .random import seeds
from .sorting import Sorting, key_dtype, lane_launch

__all__ = ["in_top_k", "token_sample"]


def _number(call: spec.Call, name: str, low: float, high: float, what: str) -> float:
    value = call.options[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise spec.ArgumentError(f"{call.kernel}: {name} is {value!r}; it has to be {what}.")
    return float(value)


def token_sample(call: spec.Call) -> spec.Plan:
    """The plan of token_sample: for each row of logits, the index of one that is drawn."""
    x = call.array(0)
    if not x.ndim or not x.shape[-1]:
        raise spec.ArgumentError(
            f"{call.kernel}: logits have shape {x.shape}; the last axis has to have an element for "
            "each token."
        )
    n = x.shape[-1]
    temperature = _number(call, "temperature", 0.0, 1e30, "from 0 (the largest) to 1e30")
    top_p = _number(call, "top_p", 0.0, 1.0, "from 0 to 1")
    min_p = _number(call, "min_p", 0.0, 1.0, "from 0 to 1")
    (k,) = integers(call, "top_k", count=1)
    if k < 0:
        raise spec.ArgumentError(
            f"{call.kernel}: top_k is {k}; it has to be above 0, or 0 for all."
        )
    given = seeds(call)
    out = call.output(x.shape[:-1], "int64")
    if not out.size:
        return spec.Plan((out,), ())
    keep = n if k == 0 or k >= n else k
    if temperature == 0.0:
        keep, temperature = 1, 1.0
    full = (*x.shape[:-1], 1)
    rows = spec.ArrayType("int64", full, (*out.strides, 1))
    sorting = Sorting(
        call, x, x.ndim - 1, rows, descending=True, keep=keep, whole=False, in_order=True
    )
    assert sorting.order is not None
    space = collapse(x.shape[:-1], x.strides[:-1], out.strides, keep_order=True)
    computed = compute_dtype(x.dtype)
    sizes = tuning_order.sorts(call.vendor)
    args: dict[str, Any] = {
        "x": spec.Input(0),
        "places": sorting.order,
        "out": spec.Output(),
        "count": keep,
        "total": sorting.total,
        "heat": spec.Scalar(1.0 / temperature, computed),
        "top_p": spec.Scalar(top_p, computed),
        "min_p": spec.Scalar(min_p, computed),
        **given,
        **space.named("sx", "so"),
        "cx": x.strides[-1],
    }
    launch = spec.Launch(
        "sampling:sample",
        args,
        {"T": spec.dtype_constant(computed), "BLOCK": sizes.block},
        (space.size, 1, 1),
        num_warps=sizes.num_warps,
    )
    return spec.Plan((out,), (*sorting.launches, launch), tuple(sorting.temporaries))


def in_top_k(call: spec.Call) -> spec.Plan:
    """The plan of in_top_k: whether the class of each row is among its `k` largest."""
    x, target = call.array(0), call.array(1)
    if not x.ndim or target.shape != x.shape[:-1] or not target.dtype.startswith(("int", "uint")):
        raise spec.ArgumentError(
            f"{call.kernel}: target is {target.dtype} of shape {target.shape}; it needs integers, "
            f"one for each row of the predictions of shape {x.shape}."
        )
    (k,) = integers(call, "k", count=1)
    out = call.output(target.shape, "bool")
    if not out.size or not x.shape[-1]:
        return spec.Plan((out,), (), (), (False,))
    space = collapse(target.shape, out.strides, x.strides[:-1], target.strides)
    computed = compute_dtype(x.dtype)
    launch = lane_launch(
        call,
        "sampling:in_top",
        out.size,
        {
            "x": spec.Input(0),
            "target": spec.Input(1),
            "out": spec.Output(),
            "m": out.size,
            "n": x.shape[-1],
            "k": k,
            **space.named("so", "sx", "st"),
            "cx": x.strides[-1],
        },
        {"T": spec.dtype_constant(computed), "K": spec.dtype_constant(key_dtype(computed))},
    )
    return spec.Plan((out,), (launch,))
