"""Rows that belong together, to one row: segments of an array, and bags of an embedding.

How many segments there are is an option, which a call finds where it is not told (one more than the
largest): a shape that depends on values has no place in a plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import bags as plans
from .row import row
from .rules import FLOATS, INTEGERS, NUMBERS

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _rows(op: str) -> Callable[..., Any]:
    def reference(x: Any, segment: Any, segments: int | None = None) -> Any:
        import numpy as np

        count = int(segment.max()) + 1 if segments is None else segments
        made = np.zeros((count, *x.shape[1:]), x.dtype)
        for number in range(count):
            own = x[segment == number]
            if len(own):
                made[number] = getattr(np, op)(own, 0)
        return made

    return reference


def _bags(
    index: Any, weight: Any, offsets: Any = None, per_sample_weights: Any = None,
    mode: str = "mean",
) -> Any:  # fmt: skip
    import numpy as np

    if offsets is None:
        ends = np.arange(len(index) + 1) * index.shape[1]
    else:
        ends = np.append(offsets, index.size)
    flat = np.reshape(index, -1)
    factors = None if per_sample_weights is None else np.reshape(per_sample_weights, (-1, 1))
    made = np.zeros((len(ends) - 1, weight.shape[1]), weight.dtype)
    for bag, (first, last) in enumerate(itertools.pairwise(ends)):
        own = flat[first:last].astype(np.int64)
        own = np.clip(np.where(own < 0, own + len(weight), own), 0, len(weight) - 1)
        taken = weight[own]
        if factors is not None:
            taken = taken * factors[first:last]
        if len(taken):
            made[bag] = getattr(np, mode)(taken, 0)
    return made


def _segmented(shape: _Shape) -> Sequence[_Shape]:
    whole = shape or (1,)
    return [whole, whole[:1]]


def _table(shape: _Shape) -> Sequence[_Shape]:
    n = max(shape, default=1)
    return [(0 if 0 in shape else min(n, 64), 3), (max(min(shape, default=1), 1), 20)]


_ALL: Any = {
    "category": "segment", "apart": ("segment",), "options": {"segments": None}, "dtypes": NUMBERS,
    "found": {"segments": (1, 1)},
}  # fmt: skip

ROWS: tuple[KernelSpec, ...] = (
    row("segment_sum", "x segment", plans.segments("sum"), "sums of the rows of each segment; "
        "segment has the number of each row's, sorted", _rows("sum"), _segmented,
        tolerance=(512, 512), **_ALL),
    row("segment_mean", "x segment", plans.segments("mean"), "means of the rows of each segment, 0 "
        "where there is none; segment is sorted", _rows("mean"), _segmented, tolerance=(512, 512),
        **_ALL),
    row("segment_max", "x segment", plans.segments("max"), "the largest of the rows of each "
        "segment, 0 where there is none; segment is sorted", _rows("max"), _segmented, **_ALL),
    row("segment_min", "x segment", plans.segments("min"), "the smallest of the rows of each "
        "segment, 0 where there is none; segment is sorted", _rows("min"), _segmented, **_ALL),
    row("unsorted_segment_sum", "x segment", plans.unsorted_segment_sum, "sums of the rows of each "
        "segment, added in their order; segment below 0 counts from the end, and outside of the "
        "segments adds nothing", _rows("sum"), _segmented, tolerance=(512, 512), **_ALL),
    row("embedding_bag", "index weight offsets? per_sample_weights?", plans.embedding_bag, "the "
        "mean, sum or maximum of those rows of weight that the indices of a bag say, 0 of an empty "
        "one; bags begin at offsets, or are the rows of index", _bags, _table,
        options={"mode": "mean"}, category="segment", apart=("index", "offsets"),
        bounds=lambda shapes, _: {0: shapes[1][:1]},
        dtypes=INTEGERS + FLOATS, tolerance=(512, 512)),
)  # fmt: skip
