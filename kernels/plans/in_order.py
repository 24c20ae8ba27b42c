"""From call to launches: sums by integers on processors with few blocks at a time."""

from __future__ import annotations

from xtarget import spec

from .elementwise import compute_dtype
from .layouts import collapse
from .movement import copy_launch
from .searching import bincount, weighted

__all__ = ["bincount_in_order"]


def bincount_in_order(call: spec.Call) -> spec.Plan:
    """The plan of bincount with weights, added where they belong as they come."""
    if len(call.args) < 2 or call.args[1] is spec.ABSENT:
        return bincount(call)
    x, weights, out = weighted(call)
    if not x.size:
        return spec.Plan((out,), (), (), (0,))
    computed = compute_dtype(weights.dtype)
    apart = computed != weights.dtype
    space = collapse(x.shape, x.strides, weights.strides, keep_order=True)
    launch = spec.Launch(
        "in_order:add_weights",
        {
            "index": spec.Input(0),
            "weights": spec.Input(1),
            "out": spec.Temporary() if apart else spec.Output(),
            "n": x.size,
            "length": out.size,
            "shape": space.lengths,
            "si": space.strides[0],
            "sw": space.strides[1],
        },
        {"T": spec.dtype_constant(computed)},
        (1, 1, 1),
        num_warps=1,
        loose=("n", "length", "shape", "si", "sw"),
    )
    if not apart:
        return spec.Plan((out,), (launch,), (), (0,))
    goal = spec.ArrayType(computed, out.shape, (1,))
    copies = copy_launch(call, spec.Temporary(), out.shape, (1,), out.strides)
    return spec.Plan((out,), (launch, *copies), (goal,), (), (0,))
