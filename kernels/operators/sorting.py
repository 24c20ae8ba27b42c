"""Elements in order. nan is after all other numbers, zeros of both signs are equal, and equals stay
in the order of their indices, also where the order is descending.
"""

from __future__ import annotations

from typing import Any

from xtarget.spec import KernelSpec

from ..plans import sorting as plans
from .row import alike, row
from .rules import ALL

__all__ = ["ROWS", "in_order"]


def in_order(x: Any, axis: int | None, descending: bool) -> Any:
    """numpy.argsort, stable, and of what is descending too."""
    import numpy as np

    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    x = np.reshape(x, -1) if axis is None else x
    axis = 0 if axis is None else axis
    # the last of the reversed array is the first of equals
    order = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - order


def _along(x: Any, order: Any, axis: int | None) -> Any:
    import numpy as np

    if axis is None:
        return np.reshape(x, -1)[order]
    return np.take_along_axis(x, order, axis)


def _argsort(x: Any, axis: int | None = -1, descending: bool = False) -> Any:
    return in_order(x, axis, descending)


def _sort(x: Any, axis: int | None = -1, descending: bool = False) -> Any:
    return _along(x, in_order(x, axis, descending), axis)


def _both(x: Any, axis: int | None = -1, descending: bool = False) -> Any:
    order = in_order(x, axis, descending)
    return _along(x, order, axis), order


def _msort(x: Any, descending: bool = False) -> Any:
    return _sort(x, 0, descending)


def _topk(x: Any, k: int = 1, axis: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    import numpy as np

    order = in_order(x, axis, largest).take(range(k), axis)
    return np.take_along_axis(x, order, axis), order


def _kthvalue(x: Any, k: int = 1, axis: int = -1, keepdims: bool = False) -> Any:
    import numpy as np

    order = in_order(x, axis, False).take([k - 1], axis)
    found = np.take_along_axis(x, order, axis)
    return (found, order) if keepdims else (np.squeeze(found, axis), np.squeeze(order, axis))


_ALL: Any = {"category": "sorting", "dtypes": ALL}
_OPTIONS = {"axis": -1, "descending": False}

ROWS: tuple[KernelSpec, ...] = (
    row("sort", "x", plans.sort(values=True, indices=False), "elements in order along axis (None: "
        "of all)", _sort, alike(1), options=_OPTIONS, **_ALL),
    row("argsort", "x", plans.sort(values=False, indices=True), "indices of the elements in order "
        "along axis (None: of all)", _argsort, alike(1), options=_OPTIONS, **_ALL),
    row("sort_with_indices", "x", plans.sort(values=True, indices=True), "elements in order along "
        "axis, and their indices (torch's sort)", _both, alike(1), options=_OPTIONS, **_ALL),
    row("msort", "x", plans.sort(values=True, indices=False, axis=0), "elements in order along the "
        "first axis", _msort, alike(1), options={"descending": False}, **_ALL),
    row("topk", "x", plans.topk, "the k largest elements along axis (or smallest), in order, and "
        "their indices", _topk, alike(1), "top_k",
        options={"k": 1, "axis": -1, "largest": True, "sorted": True}, **_ALL),
    row("kthvalue", "x", plans.kthvalue, "the k-th smallest element along axis, and its index",
        _kthvalue, alike(1), options={"k": 1, "axis": -1, "keepdims": False}, **_ALL),
)  # fmt: skip
