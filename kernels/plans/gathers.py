"""From call to launches: elements taken from, and put to, places that an array of indices says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from xtarget import spec

from .constants import dtype_option
from .elementwise import one_axis
from .layouts import broadcast_strides, collapse, without_axes
from .movement import copy_launch, flat_launch, integers
from .options import found

__all__ = [
    "MODES",
    "OPS",
    "PLACES",
    "embedding",
    "gather",
    "gather_backward",
    "index_select",
    "indices",
    "one_hot",
    "rounded",
    "scatter",
    "scatter_launch",
    "sequence_mask",
    "sums_of",
    "take",
    "take_along_axis",
]

_Ints = tuple[int, ...]
#: A shape, and the strides of array and indices in it.
_Places = tuple[_Ints, _Ints, _Ints]
MODES = ("clip", "wrap", "zero")


def indices(call: spec.Call, place: int) -> spec.ArrayType:
    """An argument of indices.

    Raises:
        ArgumentError: it has none.
    """
    index = call.array(place)
    if not index.dtype.startswith(("int", "uint")):
        raise spec.ArgumentError(
            f"{call.kernel}: the indices are {index.dtype}; they have to be integers."
        )
    return index


def _taken(
    call: spec.Call,
    x: spec.ArrayType,
    places: tuple[int, int],
    shape: _Ints,
    sx: _Ints,
    si: _Ints,
    length: int,
    step: int,
    mode: str,
    source: spec.Argument | None = None,
) -> spec.Plan:
    """The plan of a launch of `movement:take`.

    Args:
        places: of the array and of the indices among the arguments.
        shape: of the result; `sx` and `si` are the strides of both in it.
        length, step: of the axis that indices count along.
        source: where the array lies; None: it is the argument.
    """
    if mode not in MODES:
        raise spec.ArgumentError(f"{call.kernel}: mode is {mode!r}; it has to be one of {MODES}.")
    out = call.output(shape, x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    if not length:
        raise spec.ArgumentError(
            f"{call.kernel}: nothing can be taken from an axis of length 0 (shape {x.shape})."
        )
    space = collapse(shape, out.strides, sx, si)
    launch = flat_launch(
        call,
        "take",
        out.size,
        {
            "x": spec.Input(places[0]) if source is None else source,
            "index": spec.Input(places[1]),
            "out": spec.Output(),
            "n": out.size,
            "length": length,
            "step": step,
            **space.named("so", "sx", "si"),
        },
        {"MODE": mode},
    )
    return spec.Plan((out,), (launch,))


def _slices(call: spec.Call, axis: int) -> _Places:
    x, index = call.array(0), indices(call, 1)
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    sx = (*x.strides[:axis], *(0,) * index.ndim, *x.strides[axis + 1 :])
    si = (*(0,) * axis, *index.strides, *(0,) * (x.ndim - axis - 1))
    return shape, sx, si


def _take(call: spec.Call, places: tuple[int, int], axis: int, mode: str) -> spec.Plan:
    x = call.array(places[0])
    own = replace(call, args=(x, indices(call, places[1])))
    return _taken(call, x, places, *_slices(own, axis), x.shape[axis], x.strides[axis], mode)


def take(call: spec.Call) -> spec.Plan:
    """The plan of take: x[..., index, ...] along `axis`; None: of all elements in their order."""
    x, mode = call.array(0), call.options["mode"]
    if call.options["axis"] is not None:
        return _take(call, (0, 1), one_axis(call, x.ndim), mode)
    index = indices(call, 1)
    space = index.shape, (0,) * index.ndim, index.strides, x.size, 1
    if x.contiguous:
        return _taken(call, x, (0, 1), *space, mode)
    packed = spec.ArrayType(x.dtype, x.shape, spec.contiguous_strides(x.shape))
    goal = spec.Temporary()
    plan = _taken(call, packed, (0, 1), *space, mode, source=goal)
    if not plan.launches:
        return plan
    copies = copy_launch(call, spec.Input(0), x.shape, x.strides, packed.strides, out=goal)
    return spec.Plan(plan.outputs, (*copies, *plan.launches), (packed,))


def embedding(call: spec.Call) -> spec.Plan:
    """The plan of embedding: the rows of a table that the indices say."""
    if call.array(1).ndim != 2:
        raise spec.ArgumentError(
            f"{call.kernel}: weight has shape {call.array(1).shape}; it has to be a matrix, a row "
            "for each index."
        )
    return _take(call, (1, 0), 0, call.options["mode"])


def _elements(call: spec.Call, axis: int) -> _Places:
    x, index = call.array(0), indices(call, 1)
    fits = index.ndim == x.ndim and all(
        own <= n for i, (own, n) in enumerate(zip(index.shape, x.shape, strict=True)) if i != axis
    )
    if not fits:
        raise spec.ArgumentError(
            f"{call.kernel}: index has shape {index.shape}, which does not fit in x of shape "
            f"{x.shape}, except along axis {axis}. For whole slices, as ONNX's Gather "
            "gives them, run index_select."
        )
    return index.shape, tuple(0 if i == axis else s for i, s in enumerate(x.strides)), index.strides


def _along_axis(call: spec.Call, axis: int) -> _Places:
    x, index = call.array(0), indices(call, 1)
    if index.ndim != x.ndim:
        raise spec.ArgumentError(
            f"{call.kernel}: index has {index.ndim} dimensions and x has {x.ndim}; they need as "
            "many."
        )
    others = spec.broadcast_shapes(
        without_axes(x.shape, (axis,)), without_axes(index.shape, (axis,))
    )
    shape = (*others[:axis], index.shape[axis], *others[axis:])
    flat = spec.ArrayType(x.dtype, (*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.strides)
    sx = tuple(0 if i == axis else s for i, s in enumerate(broadcast_strides(flat, shape)))
    return shape, sx, broadcast_strides(index, shape)


#: By operator, where the elements lie that it takes of its first argument along an axis.
PLACES: Mapping[str, Callable[[spec.Call, int], _Places]] = {
    "embedding": _slices,
    "gather": _elements,
    "index_select": _slices,
    "take": _slices,
    "take_along_axis": _along_axis,
}


def _by_axis(operator: str) -> Callable[[spec.Call], spec.Plan]:
    def plan(call: spec.Call) -> spec.Plan:
        x = call.array(0)
        axis = one_axis(call, x.ndim)
        found = PLACES[operator](call, axis)
        mode = call.options["mode"]
        return _taken(call, x, (0, 1), *found, x.shape[axis], x.strides[axis], mode)

    return plan


#: The plan of index_select: `take` along one axis.
index_select = _by_axis("index_select")
#: The plan of gather, as torch's: x[i][index[i][j]][k] for each element of the indices.
gather = _by_axis("gather")
#: The plan of take_along_axis, as NumPy's: `gather` whose arguments broadcast.
take_along_axis = _by_axis("take_along_axis")


OPS = {"set": "set", "add": "add", "prod": "multiply", "amax": "max", "amin": "min"}
#: torch's and ONNX's words for them.
_WORDS = {"none": "set", "sum": "add", "mul": "prod", "max": "amax", "min": "amin"}


def how_of(call: spec.Call) -> str:
    """The option `reduce`, as a name of `OPS`.

    Raises:
        ArgumentError: it is none.
    """
    given = call.options["reduce"]
    how: str = _WORDS.get(given, given) if isinstance(given, str) else given
    if how not in OPS:
        raise spec.ArgumentError(
            f"{call.kernel}: reduce is {given!r}; it has to be one of {tuple(OPS)}."
        )
    return how


_Sums = tuple[spec.ArrayType, spec.Output | spec.Temporary, tuple[spec.ArrayType, ...]]


def sums_of(out: spec.ArrayType, how: str) -> _Sums:
    """Where sums and products for `out` are made, what it is to a launch, and the temporaries: half
    types are summed in float32 and rounded once, as torch's, for a sum of many would stand still.
    """
    if out.dtype not in ("float16", "bfloat16") or how not in ("add", "prod"):
        return out, spec.Output(), ()
    wide = spec.ArrayType("float32", out.shape, spec.contiguous_strides(out.shape))
    return wide, spec.Temporary(), (wide,)


def rounded(call: spec.Call, out: spec.ArrayType, sums: _Sums) -> tuple[spec.Launch, ...]:
    """The launch that rounds `sums_of`; there is none where they are in their place."""
    made, there, temporaries = sums
    if not temporaries:
        return ()
    return copy_launch(call, there, out.shape, made.strides, out.strides)


def gather_backward(call: spec.Call) -> spec.Plan:
    """The plan of the gradient of gather: zeros of `shape`, to which the elements of the gradient
    are added where the indices say.
    """
    shape = integers(call, "shape")
    if min(shape, default=0) < 0:
        raise spec.ArgumentError(f"{call.kernel}: shape is {shape}; no length may be below 0.")
    zeros = spec.ArrayType(call.array(0).dtype, shape, spec.contiguous_strides(shape))
    return scatter("add", onto=zeros)(call)


def scatter(
    op: str | None = None, *, lines: bool = False, onto: spec.ArrayType | None = None
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of scatter: `x` with elements of `source` where the indices say.

    Args:
        op: what is done with the element that is there; None: the option `reduce` says.
        lines: the indices are a vector, and say where whole slices go.
        onto: zeros of this form are in the place of x; the arguments are source and indices.
    """
    at = 2 if onto is None else 0

    def plan(call: spec.Call) -> spec.Plan:
        x, index, source = onto or call.array(0), indices(call, 1), call.array(at)
        axis = one_axis(call, x.ndim)
        how = op or how_of(call)
        if source.dtype != x.dtype:
            raise spec.ArgumentError(
                f"{call.kernel}: source is {source.dtype} and x is {x.dtype}; they need the same."
            )
        if lines:
            wanted = (*x.shape[:axis], index.size, *x.shape[axis + 1 :])
            fits = index.ndim == 1 and source.shape == wanted
            said = f"index a vector, and source shape {wanted}"
            shape = wanted
            si = tuple(index.strides[0] if i == axis else 0 for i in range(x.ndim)) if fits else ()
        else:
            shape = index.shape
            limits = [
                (n, own)
                for i, (n, own) in enumerate(zip(shape, x.shape, strict=False))
                if i != axis
            ]
            fits = index.ndim == x.ndim == source.ndim and all(n <= own for n, own in limits)
            fits = fits and all(n <= own for n, own in zip(shape, source.shape, strict=True))
            said = f"an index that fits into both, except into x along axis {axis}"
            si = index.strides
        if not fits:
            raise spec.ArgumentError(
                f"{call.kernel}: x has shape {x.shape}, index {index.shape}, source "
                f"{source.shape}; it needs {said}."
            )
        out = call.output(x.shape, x.dtype)
        some = out.size and 0 not in shape
        sums = made, there, temporaries = sums_of(out, how if some else "set")
        launches: list[Any] = []
        if onto is None:
            launches += copy_launch(
                call, spec.Input(0), x.shape, x.strides, made.strides, out=there
            )
        if some:
            strides = made.strides, si, source.strides
            launches.append(
                scatter_launch(call, there, at, shape, strides, axis, x.shape[axis], OPS[how])
            )
        launches += rounded(call, out, sums)
        begun = () if onto is None else (0,)
        if temporaries:
            return spec.Plan((out,), tuple(launches), temporaries, (), begun)
        return spec.Plan((out,), tuple(launches), (), begun)

    return plan


def scatter_launch(
    call: spec.Call,
    out: spec.Output | spec.Temporary,
    source: int,
    shape: _Ints,
    strides: tuple[_Ints, _Ints, _Ints],
    axis: int,
    length: int,
    op: str,
) -> spec.Launch:
    """Put elements of an argument to where the indices, which are argument 1, say along an axis.

    Args:
        source: the argument's place.
        shape: of the source.
        strides: of `out`, the indices and the source in that shape.
        length: of `out` along the axis.
        op: what is done with the element that is there (a value of `OPS`).
    """
    rest = without_axes(shape, (axis,))
    space = collapse(rest, *(without_axes(each, (axis,)) for each in strides))
    step, index_step, source_step = (each[axis] for each in strides)
    return flat_launch(
        call,
        "scatter",
        space.size,
        {
            "index": spec.Input(1),
            "source": spec.Input(source),
            "out": out,
            "n": space.size,
            "count": shape[axis],
            "length": length,
            "step": step,
            "index_step": index_step,
            "source_step": source_step,
            **space.named("so", "si", "ss"),
        },
        {"OP": op},
    )


def one_hot(call: spec.Call) -> spec.Plan:
    """The plan of one_hot: for each index, as many elements as there are classes, one of them 1."""
    return _classes(call, "classes", least=1, below=False)


def sequence_mask(call: spec.Call) -> spec.Plan:
    """The plan of sequence_mask: for each length, as many true elements, the rest false."""
    return _classes(call, "longest", least=0, below=True)


def _classes(call: spec.Call, option: str, *, least: int, below: bool) -> spec.Plan:
    index = indices(call, 0)
    classes = found(call, option)
    if classes < least:
        raise spec.ArgumentError(
            f"{call.kernel}: {option} is {classes!r}; it has to be an integer from {least} on."
        )
    out = call.output((*index.shape, classes), dtype_option(call))
    if not out.contiguous:
        raise spec.ArgumentError(f"{call.kernel}: out is not C-contiguous. Give one that is.")
    if not out.size:
        return spec.Plan((out,), ())
    strides = (*index.strides, 0)
    space = collapse(out.shape, out.strides, strides, keep_order=True)
    launch = flat_launch(
        call,
        "one_hot",
        out.size,
        {
            "index": spec.Input(0),
            "out": spec.Output(),
            "n": out.size,
            "classes": classes,
            "shape": space.lengths,
            "si": space.strides[1],
        },
        {"BELOW": below},
    )
    return spec.Plan((out,), (launch,))
