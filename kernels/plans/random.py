"""From call to launches: numbers drawn by Philox (`philox`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xtarget import spec

from .elementwise import compute_dtype
from .folds import outputs
from .layouts import collapse
from .movement import by_index, integers
from .options import one_of
from .sorting import Sorting, lane_launch

__all__ = ["bernoulli", "draw", "dropout", "floats", "like", "randint", "randperm", "seeds"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
#: Kind, and parameters as the device function takes them.
_Drawn = tuple[str, float, float]


def seeds(call: spec.Call) -> dict[str, Any]:
    """The options `seed` and `offset`."""
    found = []
    for name in ("seed", "offset"):
        (value,) = integers(call, name, count=1)
        if value < 0:
            raise spec.ArgumentError(
                f"{call.kernel}: {name} is {value}; it has to be from 0 to {2**63 - 1}."
            )
        found.append(value)
    return {"seed": spec.Scalar(found[0], "int64"), "start": spec.Scalar(found[1], "int64")}


def _shape(call: spec.Call) -> tuple[int, ...]:
    shape = integers(call, "shape")
    if min(shape, default=0) < 0:
        raise spec.ArgumentError(f"{call.kernel}: shape is {shape}; no length may be below 0.")
    return shape


def draw(
    call: spec.Call,
    out: spec.ArrayType,
    goal: spec.Output | spec.Temporary,
    kind: str,
    low: spec.Scalar,
    high: spec.Scalar,
) -> spec.Launch:
    """The launch that draws all of an array, whose elements are numbered in the order of their
    indices.
    """
    wide = out.itemsize == 8 or kind in ("integer", "bits")
    groups = spec.cdiv(out.size, 2 if wide else 4)
    space = collapse(out.shape, out.strides, keep_order=True)
    computed = compute_dtype(out.dtype)
    return lane_launch(
        call,
        "philox:draw",
        groups,
        {
            "out": goal,
            "n": out.size,
            "groups": groups,
            **seeds(call),
            "low": low,
            "high": high,
            **space.named("so"),
        },
        {"KIND": kind, "WIDE": wide, "T": spec.dtype_constant(computed)},
    )


def _number(call: spec.Call, name: str) -> float:
    value = call.options[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or value - value != 0:
        raise spec.ArgumentError(
            f"{call.kernel}: {name} is {value!r}; it has to be a finite number."
        )
    return float(value)


def floats(parameters: Callable[[spec.Call], _Drawn]) -> Callable[[spec.Call], spec.Plan]:
    """The plan of floating numbers of the options `shape` and `dtype`."""
    return lambda call: _drawn(call, _shape(call), one_of(call, "dtype", _FLOATS), parameters)


def like(parameters: Callable[[spec.Call], _Drawn]) -> Callable[[spec.Call], spec.Plan]:
    """The plan of floating numbers in the form of an array."""
    return lambda call: _drawn(call, call.array(0).shape, call.array(0).dtype, parameters)


def _drawn(
    call: spec.Call,
    shape: tuple[int, ...],
    dtype: str,
    parameters: Callable[[spec.Call], _Drawn],
) -> spec.Plan:
    kind, low, high = parameters(call)
    seeds(call)
    out = call.output(shape, dtype)
    if not out.size:
        return spec.Plan((out,), ())
    computed = compute_dtype(out.dtype)
    launch = draw(
        call, out, spec.Output(), kind, spec.Scalar(low, computed), spec.Scalar(high, computed)
    )
    return spec.Plan((out,), (launch,))


def unit(call: spec.Call) -> _Drawn:
    return "uniform", 0.0, 1.0


def uniform(call: spec.Call) -> _Drawn:
    low, high = _number(call, "low"), _number(call, "high")
    if low > high:
        raise spec.ArgumentError(
            f"{call.kernel}: low is {low} and high is {high}; low is the smaller."
        )
    return "uniform", low, high - low


def normal(call: spec.Call) -> _Drawn:
    mean, std = _number(call, "mean"), _number(call, "std")
    if std < 0:
        raise spec.ArgumentError(f"{call.kernel}: std is {std}; it may not be below 0.")
    return "normal", mean, std


def exponential(call: spec.Call) -> _Drawn:
    rate = _number(call, "rate")
    if rate <= 0:
        raise spec.ArgumentError(f"{call.kernel}: rate is {rate}; it has to be above 0.")
    return "exponential", 0.0, rate


def _limits(dtype: str) -> tuple[int, int]:
    bits = int(dtype.lstrip("uint"))
    return (0, 2**bits) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))


def randint(call: spec.Call) -> spec.Plan:
    """The plan of randint: integers from `low` to below `high`."""
    dtype = one_of(call, "dtype", _INTEGERS)
    least, end = _limits(dtype)
    (low,), (high,) = integers(call, "low", count=1), integers(call, "high", count=1)
    if not least <= low < high <= end:
        raise spec.ArgumentError(
            f"{call.kernel}: from {low} to below {high} are not integers of {dtype}; low has to be "
            f"below high, and both within {least} to {end}."
        )
    seeds(call)
    out = call.output(_shape(call), dtype)
    if not out.size:
        return spec.Plan((out,), ())
    span = spec.Scalar(high - low, "uint64")
    launch = draw(call, out, spec.Output(), "integer", spec.Scalar(low, "int64"), span)
    return spec.Plan((out,), (launch,))


def randperm(call: spec.Call) -> spec.Plan:
    """The plan of randperm: the integers below `n` in the order of as many drawn numbers."""
    (n,) = integers(call, "n", count=1)
    if n < 0:
        raise spec.ArgumentError(f"{call.kernel}: n is {n}; it may not be below 0.")
    seeds(call)
    out = call.output((n,), "int64")
    if not n:
        return spec.Plan((out,), ())
    keys = spec.ArrayType("int64", (n,), (1,))
    none = spec.Scalar(0, "int64")
    first = draw(call, keys, spec.Temporary(0), "bits", none, spec.Scalar(0, "uint64"))
    sorting = Sorting(call, keys, 0, out, source=spec.Temporary(0), temporaries=(keys,))
    sorting.finish(None, spec.Output())
    return sorting.plan((out,), (first,))


def bernoulli(call: spec.Call) -> spec.Plan:
    """The plan of bernoulli: 1 with the probability that `x` says."""
    computed = spec.dtype_constant(compute_dtype(call.array(0).dtype))
    return by_index(call, lane_launch, "philox:toss", seeds(call), {"T": computed})


def dropout(call: spec.Call) -> spec.Plan:
    """The plan of dropout: each element 0 with the probability `p`, else times 1 / (1 - p); and
    which are kept.
    """
    x = call.array(0)
    return _dropped(call, outputs(call, x.shape, x.dtype, "bool"))


def dropout_alone(call: spec.Call) -> spec.Plan:
    """The plan of dropout that does not say which are kept."""
    x = call.array(0)
    return _dropped(call, (call.output(x.shape, x.dtype),))


def _dropped(call: spec.Call, outs: tuple[spec.ArrayType, ...]) -> spec.Plan:
    x = call.array(0)
    p = _number(call, "p")
    if not 0 <= p <= 1:
        raise spec.ArgumentError(f"{call.kernel}: p is {p}; it has to be from 0 to 1.")
    seeds(call)
    if not outs[0].size:
        return spec.Plan(outs, ())
    groups = spec.cdiv(x.size, 4)
    space = collapse(x.shape, x.strides, *(out.strides for out in outs), keep_order=True)
    computed = compute_dtype(x.dtype)
    masked = len(outs) > 1
    launch = lane_launch(
        call,
        "philox:drop",
        groups,
        {
            "x": spec.Input(0),
            "out": spec.Output(0),
            "kept": spec.Output(1) if masked else None,
            "n": x.size,
            "groups": groups,
            **seeds(call),
            "limit": spec.Scalar(round(p * 2**32), "int64"),
            "scale": spec.Scalar(1 / (1 - p) if p < 1 else 0.0, computed),
            "sk": None,
            **space.named("sx", "so", *(("sk",) if masked else ())),
        },
        {"T": spec.dtype_constant(computed)},
    )
    return spec.Plan(outs, (launch,))
