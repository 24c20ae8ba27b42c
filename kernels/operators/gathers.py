"""Elements taken from, and put to, places that an array of indices says.

Indices below 0 count from the end. No index reads or writes outside of an array: the option `mode`
says what one that is too large does, and `check` refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import gathers as plans
from ..plans.gathers_nd import embedding_backward, gather_nd, scatter_nd
from .row import alike, moving, row
from .rules import ALL, INTEGERS, NUMBERS

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _placed(index: Any, length: int, mode: str) -> Any:
    import numpy as np

    if mode == "wrap":
        return index % length
    index = np.where(index < 0, index + length, index)
    return np.clip(index, 0, length - 1)


def _taking(function: Callable[[Any, Any, Any, int], Any]) -> Callable[..., Any]:
    """A function of (numpy, array, indices within it, axis), with the option `mode`."""

    def reference(x: Any, index: Any, axis: int | None = 0, mode: str = "clip") -> Any:
        import numpy as np

        index = np.asarray(index).astype(np.int64)
        if axis is None:
            x, axis = np.reshape(x, -1), 0
        return function(np, x, _placed(index, x.shape[axis], mode), axis)

    return reference


def _embedding(index: Any, weight: Any, mode: str = "clip") -> Any:
    import numpy as np

    return weight[_placed(np.asarray(index).astype(np.int64), weight.shape[0], mode)]


def _gather(np: Any, x: Any, index: Any, axis: int) -> Any:
    part = tuple(slice(None) if i == axis % x.ndim else slice(n) for i, n in enumerate(index.shape))
    return np.take_along_axis(x[part], index, axis)


def _slices_of(np: Any, x: Any, index: Any, axis: int) -> Any:
    return np.take(x, index, axis)


#: torch's and ONNX's words for what `reduce` says.
_WORDS = {"none": "set", "sum": "add", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter(op: str | None, *, lines: bool = False) -> Callable[..., Any]:
    def reference(x: Any, index: Any, source: Any, axis: int = 0, reduce: str = "set") -> Any:
        import numpy as np

        out = np.array(x)
        how = op or _WORDS.get(reduce, reduce)
        if lines:
            form = [1] * x.ndim
            form[axis] = -1
            index = np.broadcast_to(index.reshape(form), source.shape)
        for place in np.ndindex(index.shape):
            own = int(index[place])
            own = own + x.shape[axis] if own < 0 else own
            if not 0 <= own < x.shape[axis]:
                continue
            goal = list(place)
            goal[axis] = own
            old, new = out[tuple(goal)], source[place]
            made = {"set": new, "add": old + new if how == "add" else new,
                    "prod": old * new if how == "prod" else new,
                    "amax": np.maximum(old, new), "amin": np.minimum(old, new)}  # fmt: skip
            out[tuple(goal)] = made[how]
        return out

    return reference


def _one_hot(index: Any, classes: int | None = None, dtype: str = "float32") -> Any:
    import numpy as np

    classes = int(np.max(index)) + 1 if classes is None else classes
    return (np.asarray(index)[..., None] == np.arange(classes)).astype(dtype)


def _sequence_mask(lengths: Any, longest: int | None = None, dtype: str = "bool") -> Any:
    import numpy as np

    longest = int(np.max(lengths)) if longest is None else longest
    return (np.arange(longest) < np.asarray(lengths)[..., None]).astype(dtype)


def _gather_nd(x: Any, index: Any, mode: str = "clip") -> Any:
    import numpy as np

    index = np.asarray(index).astype(np.int64)
    inside = np.ones(index.shape[:-1], bool)
    places = []
    for axis in range(index.shape[-1]):
        own = index[..., axis]
        if mode == "zero":
            inside &= (own >= -x.shape[axis]) & (own < x.shape[axis])
        places.append(_placed(own, x.shape[axis], "clip" if mode == "zero" else mode))
    found = x[tuple(places)] if places else np.broadcast_to(x, (*index.shape[:-1], *x.shape))
    form = (*inside.shape, *(1,) * (found.ndim - inside.ndim))
    return np.where(inside.reshape(form), found, np.zeros((), found.dtype))


def _scatter_nd_update(x: Any, index: Any, source: Any, reduce: str = "set") -> Any:
    import numpy as np

    out = np.array(x)
    index = np.asarray(index)
    for at in np.ndindex(index.shape[:-1]):
        own = [int(i) for i in index[at]]
        goal = tuple(i + n if i < 0 else i for i, n in zip(own, x.shape, strict=False))
        if all(0 <= i < n for i, n in zip(goal, x.shape, strict=False)):
            old, new = out[goal], source[at]
            made = {"set": lambda a, b: b, "add": np.add, "prod": np.multiply,
                    "amax": np.maximum, "amin": np.minimum}[_WORDS.get(reduce, reduce)]  # fmt: skip
            out[goal] = made(old, new)
    return out


def _scatter_nd(index: Any, source: Any, shape: Sequence[int] = (4,)) -> Any:
    import numpy as np

    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return _scatter_nd_update(np.zeros(shape, source.dtype), index, source, "add")


def _slices(shape: _Shape) -> Sequence[_Shape]:
    """Three slices along the first axis; an array without one has one place."""
    return [shape, (3, 1), (3, *shape[1:])] if shape else [shape, (3, 0), (3,)]


def _three(shape: _Shape) -> Sequence[_Shape]:
    return [shape, shape, shape]


def _with_lines(shape: _Shape) -> Sequence[_Shape]:
    return [shape, shape[:1], shape]


def _along_axis(shapes: Sequence[_Shape], options: Mapping[str, Any]) -> Mapping[int, _Shape]:
    """Indices along an axis of the first argument, where too large ones have no meaning."""
    x, axis = shapes[0], options["axis"]
    length = math.prod(x) if axis is None else x[axis]
    return {1: (length,)} if options.get("mode", "clip") == "clip" else {}


def _of_rows(shapes: Sequence[_Shape], options: Mapping[str, Any]) -> Mapping[int, _Shape]:
    """Indices for the rows of the second argument."""
    return {0: shapes[1][:1]} if options.get("mode") != "wrap" else {}


def _embedding_backward(grad: Any, index: Any, rows: int = 1, padding: int = -1) -> Any:
    import numpy as np

    made = np.zeros((rows, grad.shape[-1]), grad.dtype)
    flat = np.asarray(index).astype(np.int64).ravel()
    flat = np.where(flat < 0, flat + rows, flat)
    inside = (flat >= 0) & (flat < rows) & (flat != padding)
    np.add.at(made, flat[inside], grad.reshape(-1, grad.shape[-1])[inside])
    return made


def _nd(shapes: Sequence[_Shape], options: Mapping[str, Any]) -> Mapping[int, _Shape]:
    depth = shapes[1][-1]
    return {1: shapes[0][:depth]} if depth and options.get("mode", "clip") == "clip" else {}


def _nd_of_shape(shapes: Sequence[_Shape], options: Mapping[str, Any]) -> Mapping[int, _Shape]:
    shape = options["shape"]
    depth = shapes[0][-1]
    return {0: ((shape,) if isinstance(shape, int) else tuple(shape))[:depth]} if depth else {}


def _length(options: Mapping[str, Any]) -> int:
    shape = options["shape"]
    return int(shape[options["axis"]] if isinstance(shape, tuple | list) else shape)


def _gather_backward(grad: Any, index: Any, axis: int = 0, shape: Any = (1,)) -> Any:
    import numpy as np

    return _scatter("add")(np.zeros(shape, grad.dtype), index, grad, axis=axis)


_AXIS: Mapping[str, Any] = {"axis": 0, "mode": "clip"}
_INDEXED: Any = {"category": "movement", "dtypes": ALL, "apart": ("index",)}
_ALL: Any = {**_INDEXED, "bounds": _along_axis}
_NUMBERS: Any = {**_ALL, "dtypes": ALL[1:]}

_ROWS = (
    row("take", "x index", plans.take, "slices of x along axis, in the order of the indices; None "
        "(NumPy's and torch's take): elements of x, numbered in their order",
        _taking(_slices_of), lambda shape: [shape, (3, 2)], options={"axis": None, "mode": "clip"},
        **_ALL),
    row("index_select", "x index", plans.index_select, "slices of x along axis, in the order of "
        "the indices, which may have any shape (ONNX's Gather, TensorFlow's gather)",
        _taking(_slices_of), lambda shape: [shape or (1,), (3, 2)],
        "Gather onnx_gather tf.gather GatherV2 embedding_lookup", options=_AXIS, **_ALL),
    row("embedding", "index weight", plans.embedding, "rows of weight, in the order of the indices",
        _embedding, lambda shape: [shape, (max(min(shape), 1), 20)],
        options={"mode": "clip"}, **{**_ALL, "bounds": _of_rows}),
    row("gather", "x index", plans.gather, "for each place of the indices, the element of x that "
        "is there but for its place along axis (torch's gather, ONNX's GatherElements)",
        _taking(_gather), alike(2), "gather_elements", options=_AXIS, **_ALL),
    row("take_along_axis", "x index", plans.take_along_axis, "gather whose arguments broadcast",
        _taking(lambda np, x, index, axis: np.take_along_axis(x, index, axis)), alike(2),
        options=_AXIS, **_ALL),
    row("scatter", "x index source", plans.scatter("set"), "x with elements of source at the "
        "places along axis that the indices say; the last one of several for a place",
        _scatter("set"), _three, "scatter_elements put_along_axis", options={"axis": 0}, **_ALL),
    row("scatter_add", "x index source", plans.scatter("add"), "x and the elements of source whose "
        "indices say its place, added in their order (half types in float32)", _scatter("add"),
        _three, options={"axis": 0}, tolerance=(512, 512), **_NUMBERS),
    row("scatter_reduce", "x index source", plans.scatter(), "x and the elements of source whose "
        "indices say its place, by set, add, prod, amax or amin in their order", _scatter(None),
        _three, options={"axis": 0, "reduce": "set"}, tolerance=(512, 512), **_NUMBERS),
    row("index_add", "x index source", plans.scatter("add", lines=True), "x and slices of source "
        "along axis, each added to the slice that its index says (half types in float32)",
        _scatter("add", lines=True), _with_lines, options={"axis": 0}, tolerance=(512, 512),
        **_NUMBERS),
    row("index_copy", "x index source", plans.scatter("set", lines=True), "x with slices of source "
        "along axis in the place of those that the indices say", _scatter("set", lines=True),
        _with_lines, options={"axis": 0}, **_ALL),
    row("gather_nd", "x index", gather_nd, "x[index[i]] for each row of the last axis of the "
        "indices, as many axes as it has numbers", _gather_nd,
        lambda shape: [shape, (3, min(len(shape), 1))],
        "gather_nd_v2 GatherND", options={"mode": "clip"}, **{**_ALL, "bounds": _nd}),
    row("scatter_nd_update", "x index source", scatter_nd(new=False), "x with slices of source at "
        "the places that rows of indices say, by set, add, prod, amax or amin in their order; one "
        "for a place that there is not is left out", _scatter_nd_update,
        _slices, "scatternd ScatterND tensor_scatter_update", options={"reduce": "set"},
        tolerance=(512, 512), **{**_ALL, "bounds": _nd}),
    row("scatter_nd", "index source", scatter_nd(new=True), "slices of source added up in an array "
        "of zeros of a shape, at the places that rows of indices say", _scatter_nd,
        lambda shape: [(1, 1), (1,)], options={"shape": (4,)}, tolerance=(512, 512),
        **{**_NUMBERS, "bounds": _nd_of_shape}),
    row("sequence_mask", "lengths", plans.sequence_mask, "for each length, as many true ones of "
        "longest elements (None: as the longest of them), the rest false", _sequence_mask, alike(1),
        options={"longest": None, "dtype": "bool"}, found={"longest": (0, 0)},
        category="movement", dtypes=INTEGERS, apart=("lengths",)),
    row("one_hot", "index", plans.one_hot, "1 at the place of each index, 0 at those of the other "
        "classes (None: up to the largest)", _one_hot, alike(1), "onehot",
        options={"classes": None, "dtype": "float32"}, found={"classes": (0, 1)},
        category="movement", dtypes=INTEGERS, apart=("index",)),
    row("gather_backward", "grad index", plans.gather_backward, "gradient of gather: zeros of the "
        "shape of its argument, and grad added along axis where the indices say", _gather_backward,
        lambda shape: [(1,), (1,)], options={"axis": 0, "shape": (1,)}, tolerance=(512, 512),
        category="gradients", dtypes=NUMBERS, apart=("index",),
        bounds=lambda _, options: {1: (_length(options),)}),
    row("embedding_backward", "grad index", embedding_backward, "gradient of embedding by its "
        "rows: those of grad added where the indices say; padding: an index that adds nothing",
        _embedding_backward, lambda shape: [shape or (1,), (shape or (1,))[:-1]],
        "embedding_dense_backward", options={"rows": 1, "padding": -1}, tolerance=(512, 512),
        category="gradients", dtypes=NUMBERS, apart=("index",)),
)  # fmt: skip

ROWS: tuple[KernelSpec, ...] = moving(
    _ROWS,
    "scatter_add",
    "scatter_reduce",
    "index_add",
    "scatter_nd_update",
    "scatter_nd",
    "sequence_mask",
    "one_hot",
    "gather_backward",
    "embedding_backward",
)
