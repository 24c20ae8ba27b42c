"""From call to launches: distances between the rows of matrices."""

from __future__ import annotations

from xtarget import spec

from .elementwise import compute_dtype
from .folds import is_floating
from .layouts import broadcast_strides, collapse
from .pooling import flat

__all__ = ["between_rows", "within"]

_KINDS = {0.0: "count", 1.0: "sum", 2.0: "square", float("inf"): "most"}


def _launch(
    call: spec.Call,
    x: spec.ArrayType,
    y: spec.ArrayType,
    places: tuple[int, int],
    out: spec.ArrayType,
) -> spec.Launch:
    p = call.options["p"]
    if isinstance(p, bool) or not isinstance(p, int | float) or not p >= 0:
        raise spec.ArgumentError(f"{call.kernel}: p is {p!r}; it has to be a number from 0 on.")
    condensed = out.ndim < x.ndim
    kind = _KINDS.get(float(p), "power")
    computed = compute_dtype(out.dtype)
    shape = out.shape[:-2]
    own = () if condensed else out.strides[:-2]
    space = collapse(
        shape, own, broadcast_strides(_batch(x), shape), broadcast_strides(_batch(y), shape),
        keep_order=True,
    )  # fmt: skip
    rows, columns = x.shape[-2], y.shape[-2]
    number: dict[str, spec.Argument] = (
        {"p": spec.Scalar(float(p), computed)} if kind == "power" else {}
    )
    return flat(
        call,
        "distances:pairs",
        space.size * rows * columns,
        {"x": spec.Input(places[0]), "y": spec.Input(places[1]), "out": spec.Output()},
        {
            **number,
            "rows": rows,
            "columns": columns,
            "width": x.shape[-1],
            "batch": space.lengths,
            "so": space.strides[0],
            "sx": space.strides[1],
            "sy": space.strides[2],
            "xr": x.strides[-2],
            "xk": x.strides[-1],
            "yr": y.strides[-2],
            "yk": y.strides[-1],
            "orow": 0 if condensed else out.strides[-2],
            "oc": out.strides[-1],
        },
        {
            **({} if number else {"p": None}),
            "KIND": kind,
            "CONDENSED": condensed,
            "T": spec.dtype_constant(computed),
        },
    )


def _batch(array: spec.ArrayType) -> spec.ArrayType:
    return spec.ArrayType(array.dtype, array.shape[:-2], array.strides[:-2])


def _checked(call: spec.Call, array: spec.ArrayType, name: str, least: int) -> None:
    if array.ndim < least or not is_floating(array.dtype):
        raise spec.ArgumentError(
            f"{call.kernel}: {name} has shape {array.shape} of {array.dtype}; it needs "
            f"{least} dimensions, of floating numbers."
        )


def between_rows(call: spec.Call) -> spec.Plan:
    """The plan of cdist: from each row of x to each row of y."""
    x, y = call.array(0), call.array(1)
    for array, name in ((x, "x"), (y, "y")):
        _checked(call, array, name, 2)
    if x.shape[-1] != y.shape[-1]:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape} and y {y.shape}; their rows need as many "
            "elements."
        )
    batch = spec.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    dtype = call.rules.promote(x.dtype, y.dtype)
    out = call.output((*batch, x.shape[-2], y.shape[-2]), dtype)
    if not out.size:
        return spec.Plan((out,), ())
    return spec.Plan((out,), (_launch(call, x, y, (0, 1), out),))


def within(call: spec.Call) -> spec.Plan:
    """The plan of pdist: from each row of a matrix to each row behind it, one after the other."""
    x = call.array(0)
    if x.ndim != 2:
        raise spec.ArgumentError(
            f"{call.kernel}: x has {x.ndim} dimensions; it has to be a matrix. Use cdist for more."
        )
    _checked(call, x, "x", 2)
    rows = x.shape[0]
    out = call.output((rows * (rows - 1) // 2,), x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    return spec.Plan((out,), (_launch(call, x, x, (0, 0), out),))
