"""Distances between the rows of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import distances as plans
from .row import row
from .rules import FLOATS

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _norm(gaps: Any, p: float) -> Any:
    import numpy as np

    if p == 0:
        return (gaps != 0).sum(-1).astype(gaps.dtype)
    if p == float("inf"):
        return gaps.max(-1, initial=0)
    return np.sqrt((gaps**2).sum(-1)) if p == 2 else (gaps**p).sum(-1) ** (1 / p)


def _between(x: Any, y: Any, p: float = 2.0) -> Any:
    import numpy as np

    return _norm(np.abs(x[..., :, None, :] - y[..., None, :, :]), p)


def _within(x: Any, p: float = 2.0) -> Any:
    import numpy as np

    first, second = np.triu_indices(len(x), 1)
    return _norm(np.abs(x[first] - x[second]), p)


def _matrix(shape: _Shape) -> _Shape:
    return shape if len(shape) > 1 else (2, *(shape or (1,)))


def _two(shape: _Shape) -> Sequence[_Shape]:
    x = _matrix(shape)
    return [x, (*x[:-2], 3, x[-1])]


_ALL: Any = {
    "category": "linear algebra", "dtypes": FLOATS, "options": {"p": 2.0}, "tolerance": (64, 64),
}  # fmt: skip

ROWS: tuple[KernelSpec, ...] = (
    row("cdist", "x y", plans.between_rows, "(sum |x_i - y_j|^p)^(1/p) of each row of x and each "
        "row of y; p 0: in how many elements they differ, inf: the most", _between, _two,
        "pairwise_distances cdist_forward", **_ALL),
    row("pdist", "x", plans.within, "cdist of each row of a matrix and each row behind it, one "
        "after the other", _within, lambda shape: [_matrix(shape)[-2:]], "pdist_forward", **_ALL),
)  # fmt: skip
