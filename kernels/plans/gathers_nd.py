"""From call to launches: slices taken from, and put to, places that rows of indices say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xtarget import spec

from .gathers import MODES, OPS, how_of, indices, rounded, sums_of
from .layouts import Space, collapse
from .movement import copied_view, copy_launch, flat_launch, integers

__all__ = ["embedding_backward", "gather_nd", "scatter_nd"]


def gather_nd(call: spec.Call) -> spec.Plan:
    """The plan of gather_nd: x[index[i]] for each row of the last axis of the indices."""
    x, index = call.array(0), indices(call, 1)
    depth = _depth(call, x, index)
    mode = call.options["mode"]
    if mode not in MODES:
        raise spec.ArgumentError(f"{call.kernel}: mode is {mode!r}; it has to be one of {MODES}.")
    rows, slice_ = index.shape[:-1], x.shape[depth:]
    shape = (*rows, *slice_)
    sx = (*(0,) * len(rows), *x.strides[depth:])
    if not depth:
        return copied_view(call, shape, sx)
    out = call.output(shape, x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    if 0 in x.shape[:depth]:
        raise spec.ArgumentError(
            f"{call.kernel}: nothing can be taken from an array of shape {x.shape}."
        )
    si = (*index.strides[:-1], *(0,) * len(slice_))
    space = collapse(shape, out.strides, sx, si)
    places: dict[str, spec.Argument] = {
        "index": spec.Input(1),
        "lengths": x.shape[:depth],
        "steps": x.strides[:depth],
        "last": index.strides[-1],
    }
    return spec.Plan((out,), (take_launch(call, out, space, places, mode),))


def take_launch(
    call: spec.Call,
    out: spec.ArrayType,
    space: Space,
    places: Mapping[str, spec.Argument],
    mode: str,
) -> spec.Launch:
    """The launch that takes the elements of the first array at `places`.

    Args:
        space: of the result, with the strides of it, of the array and of the indices.
        mode: what an index outside of the array means.
    """
    arrays = {"x": spec.Input(0), "out": spec.Output(), "n": out.size}
    args = {**arrays, **places, **space.named("so", "sx", "si")}
    return flat_launch(call, "take_nd", out.size, args, {"MODE": mode})


def _depth(call: spec.Call, x: spec.ArrayType, index: spec.ArrayType) -> int:
    """How many axes a row of indices is for."""
    if not index.ndim or index.shape[-1] > x.ndim:
        raise spec.ArgumentError(
            f"{call.kernel}: index has shape {index.shape}; the length of its last axis is the "
            f"number of axes that it is for, at most {x.ndim} here (shape {x.shape})."
        )
    return index.shape[-1].__index__()


def scatter_nd(*, new: bool) -> Callable[[spec.Call], spec.Plan]:
    """The plan of an array with slices of `source` at the places that rows of indices say.

    Args:
        new: the array is one of zeros, of the option `shape`, and slices are added; else it is the
            first argument, and the option `reduce` says.
    """

    def plan(call: spec.Call) -> spec.Plan:
        first = 0 if new else 1
        index, source = indices(call, first), call.array(first + 1)
        if new:
            shape = integers(call, "shape")
            if min(shape, default=0) < 0:
                raise spec.ArgumentError(
                    f"{call.kernel}: shape is {shape}; no length may be below 0."
                )
            dtype, how = source.dtype, "add"
            if dtype == "bool":
                raise spec.ArgumentError(
                    f"{call.kernel}: source is bool, of which there are no sums. Convert it."
                )
        else:
            x = call.array(0)
            shape, dtype, how = x.shape, x.dtype, how_of(call)
            if dtype == "bool" and how != "set":
                raise spec.ArgumentError(
                    f"{call.kernel}: x is bool, of which there are no sums. Convert it."
                )
            if source.dtype != dtype:
                raise spec.ArgumentError(
                    f"{call.kernel}: source is {source.dtype} and x is {dtype}; they need the same."
                )
        whole = spec.ArrayType(dtype, shape, spec.contiguous_strides(shape))
        depth = _depth(call, whole, index)
        rows, slice_ = index.shape[:-1], shape[depth:]
        if source.shape != (*rows, *slice_):
            raise spec.ArgumentError(
                f"{call.kernel}: index has shape {index.shape} and source {source.shape}; for an "
                f"array of shape {tuple(shape)} it needs {(*rows, *slice_)}, a slice for each row "
                "of indices."
            )
        out = call.output(shape, dtype)
        some = out.size and source.size
        sums = made, there, temporaries = sums_of(out, how if some else "set")
        launches: tuple[spec.Launch, ...] = ()
        if not new:
            launches = copy_launch(
                call, spec.Input(0), out.shape, x.strides, made.strides, out=there
            )
        init = (0,) if new else ()
        if not some:
            return spec.Plan((out,), launches, (), init)
        each = collapse(slice_, made.strides[depth:], source.strides[len(rows) :])
        over = collapse(rows, index.strides[:-1], source.strides[: len(rows)], keep_order=True)
        launch = flat_launch(
            call,
            "scatter_nd",
            each.size,
            {
                "index": spec.Input(first),
                "source": spec.Input(first + 1),
                "out": there,
                "n": each.size,
                "count": over.size,
                "lengths": out.shape[:depth],
                "steps": made.strides[:depth],
                "last": index.strides[-1],
                "rows": over.lengths,
                "ri": over.strides[0],
                "rs": over.strides[1],
                **each.named("so", "ss"),
            },
            {"OP": OPS[how]},
        )
        launches = (*launches, launch, *rounded(call, out, sums))
        if temporaries:
            return spec.Plan((out,), launches, temporaries, (), init)
        return spec.Plan((out,), launches, (), init)

    return plan


def embedding_backward(call: spec.Call) -> spec.Plan:
    """The plan of the gradient of an embedding: rows added where their indices say, in order."""
    grad, index = call.array(0), indices(call, 1)
    count, padding = (integers(call, name, count=1)[0] for name in ("rows", "padding"))
    if grad.shape[:-1] != index.shape or not grad.ndim or count < 0:
        raise spec.ArgumentError(
            f"{call.kernel}: grad has shape {grad.shape}, index {index.shape}, and rows is {count};"
            " grad needs a row for each index, and rows may not be below 0."
        )
    width = grad.shape[-1]
    out = call.output((count, width), grad.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    if not grad.size:
        return spec.Plan((out,), (), (), (0,))
    made, there, wide = sums_of(out, "add")
    over = collapse(index.shape, index.strides, grad.strides[:-1], keep_order=True)
    launch = flat_launch(
        call,
        "scatter_nd",
        width,
        {
            "index": spec.Input(1),
            "source": spec.Input(0),
            "out": there,
            "n": width,
            "count": over.size,
            "lengths": (count,),
            "steps": made.strides[:1],
            "last": 0,
            "rows": over.lengths,
            "ri": over.strides[0],
            "rs": over.strides[1],
            "shape": (),
            "ss": grad.strides[-1:],
            "so": made.strides[-1:],
        },
        {"OP": "add"},
    )
    launches = [launch, *rounded(call, out, (made, there, wide))]
    if 0 <= padding < count:  # torch's -1 is none
        none = spec.ArrayType(grad.dtype, (width,), (1,))
        wide = (*wide, none)
        launches += copy_launch(
            call,
            spec.Temporary(len(wide) - 1),
            (width,),
            (1,),
            out.strides[1:],
            from_out=padding * out.strides[0],
        )
    init = () if there != spec.Output() else (0,)
    return spec.Plan((out,), tuple(launches), wide, init, (0,) * len(wide))
