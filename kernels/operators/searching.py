"""Places among elements in order, and counts by them. nan is behind all other numbers."""

from __future__ import annotations

from typing import Any

from xtarget.spec import KernelSpec

from ..plans import in_order
from ..plans import searching as plans
from .row import alike, implementation, row
from .rules import ALL, FLOATS

__all__ = ["IMPLEMENTATIONS", "ROWS"]


def _searchsorted(x: Any, values: Any, side: str = "left") -> Any:
    import numpy as np

    if x.ndim == 1:
        return np.searchsorted(x, values, side)
    flat = zip(x.reshape(-1, x.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True)
    return np.reshape([np.searchsorted(one, own, side) for one, own in flat], values.shape)


def _bucketize(x: Any, boundaries: Any, right: bool = False) -> Any:
    return _searchsorted(boundaries, x, "right" if right else "left")


def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    side = "left" if right else "right"
    if bins.ndim == 1 and bins.size and bins[0] > bins[-1]:
        return bins.size - _searchsorted(bins[::-1], x, side)
    return _searchsorted(bins, x, side)


def _histogram(x: Any, edges: Any) -> Any:
    import numpy as np

    # NumPy puts nan into the last bin
    return np.histogram(x[x == x], edges)[0]


def _histc(x: Any, bins: int = 100, min: float = 0.0, max: float = 1.0) -> Any:
    import numpy as np

    kind = np.float64 if x.dtype == np.float64 else np.float32
    x = x.astype(kind)
    own = x[(x >= kind(min)) & (x <= kind(max))]
    place = (own - kind(min)) / (kind(max) - kind(min)) * kind(bins)
    return np.bincount(np.minimum(place.astype(np.int64), bins - 1), minlength=bins)


def _bincount(index: Any, weights: Any = None, length: int | None = None) -> Any:
    import numpy as np

    index = np.reshape(index, -1)
    length = int(index.max()) + 1 if length is None else length
    inside = (index >= 0) & (index < length)
    given = None if weights is None else np.reshape(weights, -1)[inside]
    return np.bincount(index[inside].astype(np.int64), given, length)


def _isin(x: Any, others: Any, invert: bool = False) -> Any:
    import numpy as np

    return np.isin(x, others, invert=invert)


def _values(shape: tuple[int, ...]) -> Any:
    return [shape[-1:] or (1,), shape]


_ALL: Any = {"category": "search", "dtypes": ALL}

ROWS: tuple[KernelSpec, ...] = (
    row("searchsorted", "ordered values", plans.search(0, plans.side), "index where each value "
        "belongs among elements in order: before its equals, or behind them (side='right')",
        _searchsorted, _values, options={"side": "left"}, **_ALL),
    row("bucketize", "values boundaries", plans.search(1, lambda call: bool(call.options["right"])),
        "number of boundaries below each value (right: and of those that are equal)", _bucketize,
        lambda shape: _values(shape)[::-1], options={"right": False}, **_ALL),
    row("digitize", "values bins", plans.search(1, lambda call: not call.options["right"],
        falling=True), "number of bins that begin at or below each value (right: below); of "
        "falling ones, those above it (right: at or above)", _digitize,
        lambda shape: _values(shape)[::-1], options={"right": False}, **_ALL),
    row("histogram", "x edges", plans.histogram, "number of elements between neighbouring edges; "
        "the last edge is of the last bin", _histogram, lambda shape: [shape, (9,)], **_ALL),
    row("histc", "x", plans.histc, "number of elements in each of bins of equal width from "
        "min to max", _histc, alike(1),
        options={"bins": 100, "min": 0.0, "max": 1.0}, category="search", dtypes=FLOATS,
        exact=True),
    row("bincount", "index weights?", plans.bincount, "how often each integer below length (None: "
        "up to the largest) is there, or the sum of the weights at its places, added in their "
        "order", _bincount, alike(1), options={"length": None}, found={"length": (0, 1)},
        apart=("index",), tolerance=(512, 512), **_ALL),
    row("isin", "x others", plans.isin, "whether each element is among others (invert: is not)",
        _isin, alike(2), "in1d", options={"invert": False}, **_ALL),
)  # fmt: skip

IMPLEMENTATIONS: tuple[KernelSpec, ...] = (
    implementation("bincount", ROWS, "in_order", in_order.bincount_in_order, "weights are added "
        "where they belong as they come, by one block: no sort, which a CPU's few blocks are slow "
        "at", ("cpu",), preferred=True),
)  # fmt: skip
