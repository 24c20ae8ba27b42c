"""From call to launches: places among elements in order, and counts by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xtarget.spec import (
    ABSENT,
    ArgumentError,
    ArrayType,
    Call,
    Input,
    Output,
    Plan,
    Scalar,
    Temporary,
    dtype_constant,
)

from .elementwise import compute_dtype
from .layouts import broadcast_strides, collapse
from .movement import integers
from .options import found, one_of
from .sorting import Sorting, flat, key_dtype, lane_launch

__all__ = ["bincount", "histc", "histogram", "isin", "search", "weighted"]


def _common(call: Call, *arrays: ArrayType) -> str:
    """The dtype that elements are compared in."""
    return call.rules.promote(*(array.dtype for array in arrays))


def search(
    ordered: int, right: Callable[[Call], bool], *, falling: bool = False
) -> Callable[[Call], Plan]:
    """The plan of searchsorted and its like.

    Args:
        ordered: the argument whose elements are in order; the other one has the values.
        right: from a call to whether a value belongs behind its equals.
        falling: the order may be the other one too, which the first and the last element say.
    """

    def plan(call: Call) -> Plan:
        x, values = call.array(ordered), call.array(1 - ordered)
        after = right(call)
        if not x.ndim or (x.ndim > 1 and x.shape[:-1] != values.shape[:-1]):
            raise ArgumentError(
                f"{call.kernel}: what is in order has shape {x.shape} and the values have shape "
                f"{values.shape}; it has to be one row, or a row for each row of the values."
            )
        out = call.output(values.shape, "int64")
        if not out.size:
            return Plan((out,), ())
        length = x.shape[-1]
        if x.ndim == 1:
            sx = (0,) * values.ndim
        else:
            sx = (*x.strides[:-1], 0)
        dtype = _common(call, x, values)
        space = collapse(values.shape, out.strides, values.strides, sx)
        launch = lane_launch(
            call,
            "searching:search",
            out.size,
            {
                "x": Input(ordered),
                "values": Input(1 - ordered),
                "out": Output(),
                "n": out.size,
                "length": length,
                "step": x.strides[-1],
                "steps": length.bit_length(),
                **space.named("so", "sv", "sx"),
            },
            {
                "RIGHT": after,
                "FALLING": falling,
                "T": dtype_constant(dtype),
                "K": dtype_constant(key_dtype(dtype)),
            },
        )
        return Plan((out,), (launch,))

    return plan


def side(call: Call) -> bool:
    """The option `side`."""
    return one_of(call, "side", ("left", "right")) == "right"


def _counts(call: Call, length: int, dtype: str = "int64") -> ArrayType:
    out = call.output((length,), dtype)
    if out.strides != (1,) and length > 1:
        raise ArgumentError(f"{call.kernel}: out is not C-contiguous. Give one that is.")
    return out


def _count(
    call: Call,
    source: str,
    out: ArrayType,
    args: dict[str, Any],
    constants: dict[str, Any] | None = None,
) -> Plan:
    """The plan of a kernel that counts the elements of the first array, one by one."""
    x = call.array(0)
    if not x.size:
        return Plan((out,), (), (), (0,))
    own = {"x": Input(0), "out": Output(), "n": x.size, **collapse(x.shape, x.strides).named("sx")}
    launch = lane_launch(call, f"searching:{source}", x.size, {**own, **args}, constants)
    return Plan((out,), (launch,), (), (0,))


def histogram(call: Call) -> Plan:
    """The plan of histogram: how many elements are between neighbouring edges."""
    x, edges = call.array(0), call.array(1)
    if edges.ndim != 1 or edges.size < 2:
        raise ArgumentError(
            f"{call.kernel}: edges has shape {edges.shape}; it needs one dimension, and two edges."
        )
    dtype = _common(call, x, edges)
    return _count(
        call,
        "histogram",
        _counts(call, edges.size - 1),
        {
            "edges": Input(1),
            "length": edges.size,
            "step": edges.strides[0],
            "steps": edges.size.bit_length(),
        },
        {"T": dtype_constant(dtype), "K": dtype_constant(key_dtype(dtype))},
    )


def histc(call: Call) -> Plan:
    """The plan of histc: how many elements are in `bins` bins of equal width."""
    x = call.array(0)
    (bins,) = integers(call, "bins", count=1)
    low, high = call.options["min"], call.options["max"]
    if bins < 1:
        raise ArgumentError(f"{call.kernel}: bins is {bins}; it has to be above 0.")
    if not low < high or high - low == float("inf"):
        raise ArgumentError(
            f"{call.kernel}: min is {low} and max is {high}; both are finite, and min is below max."
        )
    computed = compute_dtype(x.dtype)
    edges = {"low": Scalar(float(low), computed), "high": Scalar(float(high), computed)}
    constants = {"T": dtype_constant(computed)}
    return _count(call, "bins", _counts(call, bins), {"count": bins, **edges}, constants)


def bincount(call: Call) -> Plan:
    """The plan of bincount: how often each integer below `length` is there, or the sum of the
    weights at its places.
    """
    _, length = _counted(call)
    if len(call.args) < 2 or call.args[1] is ABSENT:
        return _count(call, "count", _counts(call, length), {"length": length})
    return _sums_in_order(call)


def _counted(call: Call) -> tuple[ArrayType, int]:
    """The integers that bincount counts, and below which number."""
    x = call.array(0)
    if not x.dtype.startswith(("int", "uint")):
        raise ArgumentError(f"{call.kernel}: index is {x.dtype}; it has to be integers.")
    length = found(call, "length")
    if length < 1:
        raise ArgumentError(
            f"{call.kernel}: length is {length}; it has to be above 0: one more than the largest "
            "integer that is counted."
        )
    return x, length


def weighted(call: Call) -> tuple[ArrayType, ArrayType, ArrayType]:
    """The integers of bincount, their weights and the result.

    Raises:
        ArgumentError: they do not fit.
    """
    x, length = _counted(call)
    weights = call.array(1)
    if weights.shape != x.shape or not weights.dtype.startswith(("float", "bfloat")):
        raise ArgumentError(
            f"{call.kernel}: weights is {weights.dtype} of shape {weights.shape}; it needs a "
            f"floating dtype, and the shape of index, {x.shape}."
        )
    return x, weights, _counts(call, length, weights.dtype)


def _sums_in_order(call: Call) -> Plan:
    """The plan of bincount with weights: the integers in order, and a sum for each."""
    x, weights, out = weighted(call)
    length = out.size
    if not x.size:
        return Plan((out,), (), (), (0,))
    one, source, before, temporaries = flat(call, x, Input(0), Temporary(0))
    sorting = Sorting(call, one, 0, one, source=source, temporaries=tuple(temporaries), whole=False)
    assert sorting.order is not None
    computed = compute_dtype(weights.dtype)
    # in the order of the indices, as the elements are numbered
    space = collapse(x.shape, weights.strides, keep_order=True)
    wide = {"uint32": -(2**31), "uint64": -(2**63)}
    launch = lane_launch(
        call,
        "searching:sums",
        length,
        {
            "keys": sorting.keys,
            "places": sorting.order,
            "weights": Input(1),
            "out": Output(),
            "n": x.size,
            "length": length,
            "steps": x.size.bit_length(),
            "total": x.size,
            **space.named("sw"),
            "so": 1,
        },
        {"TOP": wide.get(x.dtype, 0), "T": dtype_constant(computed)},
    )
    return Plan((out,), (*before, *sorting.launches, launch), tuple(sorting.temporaries))


def isin(call: Call) -> Plan:
    """The plan of isin: whether each element is among others."""
    x, others = call.array(0), call.array(1)
    if x.dtype != others.dtype:
        raise ArgumentError(
            f"{call.kernel}: x is {x.dtype} and the others are {others.dtype}; they need the same."
        )
    out = call.output(x.shape, "bool")
    invert = bool(call.options["invert"])
    if not x.size or not others.size:
        return Plan((out,), (), (), (invert,))
    one, source, before, temporaries = flat(call, others, Input(1), Temporary(0))
    sorting = Sorting(call, one, 0, one, source=source, temporaries=tuple(temporaries), whole=False)
    space = collapse(x.shape, out.strides, broadcast_strides(x, out.shape))
    launch = lane_launch(
        call,
        "searching:member",
        x.size,
        {
            "x": Input(0),
            "keys": sorting.keys,
            "out": Output(),
            "n": x.size,
            "total": others.size,
            "steps": others.size.bit_length(),
            **space.named("so", "sx"),
        },
        {"INVERT": invert, "T": dtype_constant(x.dtype), "K": dtype_constant(key_dtype(x.dtype))},
    )
    return Plan((out,), (*before, *sorting.launches, launch), tuple(sorting.temporaries))
