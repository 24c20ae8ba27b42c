"""From call to launches: segments, and bags of an embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xtarget import spec

from . import tuning
from .elementwise import compute_dtype
from .gathers import scatter_launch
from .layouts import collapse
from .movement import copy_launch
from .options import found, one_of

__all__ = ["embedding_bag", "segments", "unsorted_segment_sum"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
#: Numbers of a launch of `bags:bags` that some calls do not need.
_UNUSED = dict.fromkeys(
    ("each", "halvings", "index_step", "index_skip", "offset_step", "weight_step", "weight_skip"), 0
)


def _launch(
    call: spec.Call,
    x: spec.ArrayType,
    out: spec.ArrayType,
    arrays: dict[str, spec.Argument],
    numbers: dict[str, int],
    op: str,
    by: str,
) -> spec.Launch:
    space = collapse(x.shape[1:], out.strides[1:], x.strides[1:])
    sizes = tuning.flat(call.vendor)
    block = min(sizes.strided, 256)
    if tuning.outer_products(call.vendor):  # lanes without a column cost as much as the others
        block = min(block, spec.next_power_of_2(space.size))
    given: dict[str, spec.Argument] = {
        **_UNUSED,
        **numbers,
        "bags": out.shape[0],
        "length": x.shape[0],
        "columns": space.size,
        "shape": space.lengths,
        "step": x.strides[0],
        "out_step": out.strides[0],
        "sx": space.strides[1],
        "so": space.strides[0],
    }
    names = ("index", "offsets", "weights")
    return spec.Launch(
        "bags:bags",
        {**arrays, "out": spec.Output(), **given},
        {
            **{name: None for name in names if name not in arrays},
            "OP": op,
            "BY": by,
            "T": spec.dtype_constant(compute_dtype(x.dtype)),
            "BLOCK": block,
        },
        (out.shape[0] * spec.cdiv(space.size, block), 1, 1),
        num_warps=sizes.num_warps,
        loose=tuple(given),
    )


def _numbered(call: spec.Call, place: int, name: str, ndims: tuple[int, ...]) -> spec.ArrayType:
    """An argument of integers.

    Raises:
        ArgumentError: it has others, or other dimensions.
    """
    array = call.array(place)
    if not array.dtype.startswith(("int", "uint")) or array.ndim not in ndims:
        raise spec.ArgumentError(
            f"{call.kernel}: {name} has {array.ndim} dimensions of {array.dtype}; it has to be of "
            f"integers, with {' or '.join(map(str, ndims))}."
        )
    return array


def _segments(call: spec.Call) -> tuple[spec.ArrayType, spec.ArrayType, int]:
    """The array, the segment of each row, and how many segments there are."""
    x, index = call.array(0), _numbered(call, 1, "segment", (1,))
    if not x.ndim or index.shape != x.shape[:1]:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape} and segment {index.shape}; segment needs a "
            "number for each row of x."
        )
    count = found(call, "segments")
    if count < 0:
        raise spec.ArgumentError(f"{call.kernel}: segments is {count}; it may not be below 0.")
    return x, index, count


def segments(op: str) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a reduction of rows whose segments are sorted."""

    def plan(call: spec.Call) -> spec.Plan:
        x, index, count = _segments(call)
        if op == "mean" and x.dtype not in _FLOATS:
            raise spec.ArgumentError(
                f"{call.kernel} does not take {x.dtype}; it takes {', '.join(_FLOATS)}. Convert "
                "the argument first."
            )
        out = call.output((count, *x.shape[1:]), x.dtype)
        if not out.size:
            return spec.Plan((out,), ())
        numbers = {
            "count": x.shape[0],
            "halvings": x.shape[0].bit_length(),
            "index_step": index.strides[0],
        }
        arrays: dict[str, spec.Argument] = {"x": spec.Input(0), "index": spec.Input(1)}
        return spec.Plan((out,), (_launch(call, x, out, arrays, numbers, op, "segments"),))

    return plan


def unsorted_segment_sum(call: spec.Call) -> spec.Plan:
    """The plan of unsorted_segment_sum: rows added in their order, half types in float32."""
    x, index, count = _segments(call)
    out = call.output((count, *x.shape[1:]), x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    computed = compute_dtype(x.dtype)
    apart = computed != x.dtype
    strides = spec.contiguous_strides(out.shape) if apart else out.strides
    goal = spec.ArrayType(computed, out.shape, strides)
    launches: list[Any] = []
    if 0 not in x.shape:
        there = spec.Temporary() if apart else spec.Output()
        everywhere = (index.strides[0], *(0,) * (x.ndim - 1))
        strides = goal.strides, everywhere, x.strides
        launches.append(scatter_launch(call, there, 0, x.shape, strides, 0, count, "add"))
    if not apart:
        return spec.Plan((out,), tuple(launches), (), (0,))
    launches += copy_launch(call, spec.Temporary(), out.shape, goal.strides, out.strides)
    return spec.Plan((out,), tuple(launches), (goal,), (), (0,))


def embedding_bag(call: spec.Call) -> spec.Plan:
    """The plan of embedding_bag, as torch's."""
    index, weight = _numbered(call, 0, "index", (1, 2)), call.array(1)
    if weight.ndim != 2 or weight.dtype not in _FLOATS:
        raise spec.ArgumentError(
            f"{call.kernel}: weight has shape {weight.shape} of {weight.dtype}; it has to be a "
            "matrix of floating numbers, a row for each index."
        )
    op = one_of(call, "mode", ("mean", "sum", "max"))
    arrays: dict[str, spec.Argument] = {"x": spec.Input(1), "index": spec.Input(0)}
    numbers: dict[str, int] = {"count": index.size, "index_step": index.strides[-1]}
    given = len(call.args) > 2 and call.args[2] is not spec.ABSENT
    if given == (index.ndim == 2):
        raise spec.ArgumentError(
            f"{call.kernel}: index has {index.ndim} dimensions, and offsets "
            f"{'are' if given else 'are not'} given; a vector needs them, a matrix has a bag in "
            "each row."
        )
    if given:
        offsets = _numbered(call, 2, "offsets", (1,))
        bags, by = offsets.shape[0], "offsets"
        arrays["offsets"] = spec.Input(2)
        numbers["offset_step"] = offsets.strides[0]
    else:
        bags, by = index.shape[0], "each"
        numbers["each"] = index.shape[1]
        numbers["index_skip"] = index.strides[0] - index.shape[1] * index.strides[1]
    if len(call.args) > 3 and call.args[3] is not spec.ABSENT:
        factors = call.array(3)
        if factors.shape != index.shape or factors.dtype != weight.dtype or op != "sum":
            raise spec.ArgumentError(
                f"{call.kernel}: per_sample_weights has shape {factors.shape} of {factors.dtype}, "
                f"with mode {op!r}; it needs the shape of index, the dtype of weight, and mode "
                "'sum'."
            )
        arrays["weights"] = spec.Input(3)
        numbers["weight_step"] = factors.strides[-1]
        if not given:
            numbers["weight_skip"] = factors.strides[0] - factors.shape[1] * factors.strides[1]
    out = call.output((bags, weight.shape[1]), weight.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    if not weight.shape[0]:
        raise spec.ArgumentError(f"{call.kernel}: weight has shape {weight.shape}, so no row.")
    return spec.Plan((out,), (_launch(call, weight, out, arrays, numbers, op, by),))
