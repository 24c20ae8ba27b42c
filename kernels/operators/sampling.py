"""Tokens drawn from logits; random as `randoms` says: by `seed`, and `offset` for the first row,
each row taking one counter.
"""

from __future__ import annotations

from typing import Any

from xtarget.spec import KernelSpec

from ..plans import sampling as plans
from .randoms import philox
from .row import alike, row
from .rules import ALL, FLOATS
from .sorting import in_order

__all__ = ["ROWS"]


def _token_sample(
    logits: Any,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: int = 0,
    offset: int = 0,
) -> Any:
    import numpy as np

    rows = np.reshape(logits, (-1, logits.shape[-1]))
    order = in_order(rows, -1, True)
    if temperature == 0:
        return order[:, 0].reshape(logits.shape[:-1])
    order = order[:, : top_k or None]
    sorted_ = np.take_along_axis(rows, order, -1)
    top = sorted_[:, :1]
    apart = np.where(sorted_ == top, 0, (sorted_ - top) / temperature)
    weight = np.where(sorted_ > -np.inf, np.exp(apart), 0)  # of nan, too
    before = np.cumsum(weight, -1) - weight
    stays = (weight >= min_p) & (before < top_p * weight.sum(-1, keepdims=True))
    stays[:, 0] = True
    weight = np.where(stays, weight, 0)
    number = (philox(seed, offset, len(rows))[:, :1] >> np.uint64(8)) * 2.0**-24
    passed = np.sum(stays & (np.cumsum(weight, -1) <= number * weight.sum(-1, keepdims=True)), -1)
    place = np.minimum(passed, stays.sum(-1) - 1)
    return np.take_along_axis(order, place[:, None], -1).reshape(logits.shape[:-1])


def _in_top_k(x: Any, target: Any, k: int = 1) -> Any:
    import numpy as np

    inside = (target >= 0) & (target < x.shape[-1])
    own = np.take_along_axis(x, np.where(inside, target, 0)[..., None], -1)
    larger = (x > own) | ((x != x) & (own == own))  # nan is larger than all numbers
    return inside & (np.sum(larger, -1) < k) & (own == own)[..., 0]


def _with_targets(shape: tuple[int, ...]) -> Any:
    return [shape, shape[:-1]]


ROWS: tuple[KernelSpec, ...] = (
    row("token_sample", "logits", plans.token_sample, "the index of one logit of each row, drawn "
        "by softmax(logits / temperature) of the top_k largest, of the likeliest up to top_p, and "
        "of those that have min_p of the largest probability; temperature 0: the largest",
        _token_sample, alike(1),
        options={"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 0,
                 "offset": 0}, category="sampling", dtypes=FLOATS),
    row("in_top_k", "x target", plans.in_top_k, "whether fewer than k of a row are larger than the "
        "element that its target names", _in_top_k, _with_targets, options={"k": 1},
        apart=("target",), category="sampling", dtypes=ALL),
)  # fmt: skip
