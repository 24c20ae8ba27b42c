"""Elements in order. nan is after all other numbers, zeros of both signs are equal, and equals stay
in the order of their indices, also where the order is descending.
"""

from __future__ import annotations

from typing import Any

from xtarget.spec import KernelSpec

from ..plans import sorting as plans
from ..plans.ranked import median, mode, quantile
from ..plans.topk import kthvalue, topk
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


def _numpy(name: str) -> Any:
    def reference(x: Any, **options: Any) -> Any:
        import warnings

        import numpy as np

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            x = np.asarray(x)
            return getattr(np, name)(x if x.dtype.kind == "f" else x.astype(float), **options)

    return reference


def _quantile(x: Any, q: Any = None, **options: Any) -> Any:
    return _numpy("quantile")(x, q=0.5 if q is None else q, **options)


def _mode(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    import numpy as np

    if isinstance(axis, tuple | list):  # of several one, behind the others
        gone = tuple(one % x.ndim for one in axis)
        front = [i for i in range(x.ndim) if i not in gone]
        form = [x.shape[i] for i in front]
        found = _mode(np.transpose(x, (*front, *gone)).reshape(*form, -1), -1)
        whole = [1 if i in gone else n for i, n in enumerate(x.shape)]
        return tuple(one.reshape(whole if keepdims else form) for one in found)

    def one(line: Any) -> Any:
        values, counts = np.unique(line, return_counts=True, equal_nan=False)
        return values[counts.argmax()], counts.max()

    rows = np.reshape(x, (1, -1)) if axis is None else np.moveaxis(x, axis, -1)
    found = [one(rows[place]) for place in np.ndindex(rows.shape[:-1])]
    shape = rows.shape[:-1] if axis is not None else ()
    if keepdims:
        shape = tuple(1 if axis in (None, i, i - x.ndim) else n for i, n in enumerate(x.shape))
    values = np.array([value for value, _ in found], x.dtype).reshape(shape)
    return values, np.array([count for _, count in found], np.int64).reshape(shape)


_ALL: Any = {"category": "sorting", "dtypes": ALL}
_KEPT: Any = {"axis": None, "keepdims": False}
_OPTIONS = {"axis": -1, "descending": False}

ROWS: tuple[KernelSpec, ...] = (
    row("sort", "x", plans.sort(values=True, indices=False), "elements in order along axis (None: "
        "of all)", _sort, alike(1), options=_OPTIONS, along="axis", **_ALL),
    row("argsort", "x", plans.sort(values=False, indices=True), "indices of the elements in order "
        "along axis (None: of all)", _argsort, alike(1), options=_OPTIONS, along="axis", **_ALL),
    row("sort_with_indices", "x", plans.sort(values=True, indices=True), "elements in order along "
        "axis, and their indices (torch's sort)", _both, alike(1), options=_OPTIONS, along="axis",
        **_ALL),
    row("msort", "x", plans.sort(values=True, indices=False, axis=0), "elements in order along the "
        "first axis", _msort, alike(1), options={"descending": False}, **_ALL),
    row("topk", "x", topk, "the k largest elements along axis (or smallest), in order, and "
        "their indices", _topk, alike(1), "top_k",
        options={"k": 1, "axis": -1, "largest": True, "sorted": True}, along="axis", **_ALL),
    row("median", "x", median(), "the element in the middle, or the mean of the two; nan if one is "
        "nan", _numpy("median"), alike(1), options=_KEPT, **_ALL),
    row("nanmedian", "x", median(ignore=True), "median of what is not nan", _numpy("nanmedian"),
        alike(1), options=_KEPT, **_ALL),
    row("quantile", "x", quantile, "what q (None: half) of elements are below: between two of them "
        "(linear), the lower, higher or nearest one, or their mean (midpoint)", _quantile,
        alike(1), options={"q": None, **_KEPT, "method": "linear"}, tolerance=(4, 4), **_ALL),
    row("mode", "x", mode, "the element that is there most often, the smallest of several, and how "
        "often; nan is equal to nothing", _mode, alike(1), options=_KEPT, **_ALL),
    row("kthvalue", "x", kthvalue, "the k-th smallest element along axis, and its index",
        _kthvalue, alike(1), options={"k": 1, "axis": -1, "keepdims": False}, **_ALL),
)  # fmt: skip
