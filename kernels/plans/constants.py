"""From call to launches: arrays that are made of numbers alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from xtarget import spec

from .bits import NARROW, kind_of, saturated
from .elementwise import compute_dtype
from .layouts import collapse
from .movement import flat_launch, integers
from .options import one_of

__all__ = [
    "arange", "dtype_option", "eye", "fill", "fill_like", "linspace", "logspace", "scalar",
]  # fmt: skip

_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)


def dtype_option(call: spec.Call, *, narrow: bool = False) -> str:
    """The option `dtype`.

    Args:
        narrow: floats of 8 bits will do too.

    Raises:
        ArgumentError: it is none.
    """
    return one_of(call, "dtype", (*_DTYPES, *NARROW) if narrow else _DTYPES)


def _number(call: spec.Call, name: str) -> Any:
    """An option that is a number.

    Raises:
        ArgumentError: it is none.
    """
    value = call.options[name]
    if not isinstance(value, int | float):
        raise spec.ArgumentError(f"{call.kernel}: {name} is {value!r}; it has to be a number.")
    return value


def fill(value: int | None = None) -> Any:
    """The plan of full (or of zeros, of ones): an array of `shape`."""

    def plan(call: spec.Call) -> spec.Plan:
        shape = integers(call, "shape")
        if min(shape, default=0) < 0:
            raise spec.ArgumentError(f"{call.kernel}: shape is {shape}; no length may be below 0.")
        out = call.output(shape, dtype_option(call, narrow=True))
        return _filled(call, out, value)

    return plan


def scalar(call: spec.Call) -> spec.Plan:
    """The plan of scalar_tensor: an array without dimensions."""
    return _filled(call, call.output((), dtype_option(call, narrow=True)), None)


def _filled(call: spec.Call, out: Any, value: int | None) -> spec.Plan:
    number = _number(call, "value") if value is None else value
    floating = out.dtype.startswith(("float", "bfloat"))
    if not floating and (
        isinstance(number, float) or (out.dtype == "bool" and number not in (0, 1))
    ):
        raise spec.ArgumentError(
            f"{call.kernel}: the value {number!r} does not fit into {out.dtype}."
        )
    return spec.Plan((out,), (), (), (saturated(number, out.dtype),))


def fill_like(value: int | None = None) -> Any:
    """The plan of full_like (or of zeros_like, of ones_like)."""

    def plan(call: spec.Call) -> spec.Plan:
        x = call.array(0)
        return _filled(call, call.output(x.shape, x.dtype), value)

    return plan


def eye(call: spec.Call) -> spec.Plan:
    """The plan of eye: 1 on a diagonal of a matrix."""
    (rows,) = integers(call, "rows")
    columns = rows if call.options["columns"] is None else integers(call, "columns", count=1)[0]
    (k,) = integers(call, "k")
    if rows < 0 or columns < 0:
        raise spec.ArgumentError(f"{call.kernel}: {rows} x {columns} is not a matrix.")
    out = call.output((rows, columns), dtype_option(call, narrow=True))
    if not out.size:
        return spec.Plan((out,), ())
    space = collapse(out.shape, out.strides, keep_order=True)
    launch = flat_launch(
        call,
        "diagonal",
        out.size,
        {
            "out": spec.Output(),
            "n": out.size,
            "columns": columns,
            "k": k,
            **space.named("so"),
        },
        {"KIND": kind_of(out.dtype)},
    )
    return spec.Plan((out,), (_by_bits(launch, out),))


def _by_bits(launch: spec.Launch, out: spec.ArrayType) -> spec.Launch:
    """A launch that writes floats of 8 bits as their bytes."""
    return replace(launch, bits=("out",)) if out.dtype in NARROW else launch


def _sequence(
    call: spec.Call,
    length: int,
    dtype: str,
    start: Any,
    step: Any,
    last: Any = None,
    base: float | None = None,
) -> spec.Plan:
    out = call.output((length,), dtype)
    if not length:
        return spec.Plan((out,), ())
    computed = "float32" if dtype in NARROW else compute_dtype(dtype)
    whole = not computed.startswith("float")
    if whole and not all(float(v).is_integer() for v in (start, step, last or 0)):
        raise spec.ArgumentError(
            f"{call.kernel}: its numbers are not all integers, as {dtype} needs."
        )
    wide = "int64" if whole else computed
    numbers = [
        None if v is None else spec.Scalar(int(v) if whole else v, wide)
        for v in (start, step, last)
    ]
    launch: spec.Launch = flat_launch(
        call,
        "sequence",
        length,
        {
            "out": spec.Output(),
            "n": length,
            "start": numbers[0],
            "step": numbers[1],
            "last": numbers[2],
            "base": None if base is None else spec.Scalar(base, computed),
            "shape": (),
            "so": out.strides if out.strides != (1,) else (),
        },
        {"T": spec.dtype_constant(wide), "KIND": kind_of(dtype)},
    )
    return spec.Plan((out,), (_by_bits(launch, out),))


def arange(call: spec.Call) -> spec.Plan:
    """The plan of arange: start, start + step, ... below stop."""
    start, stop, step = (_number(call, name) for name in ("start", "stop", "step"))
    if step == 0 or not all(math.isfinite(v) for v in (start, stop, step)):
        raise spec.ArgumentError(
            f"{call.kernel}: from {start} to {stop} by {step} is not a sequence; step is not 0, "
            "and all are finite."
        )
    length = max(0, math.ceil((stop - start) / step))
    return _sequence(call, length, dtype_option(call, narrow=True), start, step)


def linspace(call: spec.Call) -> spec.Plan:
    """The plan of linspace: `count` numbers from start to stop."""
    return _between(call, None)


def logspace(call: spec.Call) -> spec.Plan:
    """The plan of logspace: `count` powers of `base`."""
    base = float(_number(call, "base"))
    if not base > 0:
        raise spec.ArgumentError(f"{call.kernel}: base is {base}; it has to be above 0.")
    return _between(call, base)


def _between(call: spec.Call, base: float | None) -> spec.Plan:
    start, stop = _number(call, "start"), _number(call, "stop")
    (count,) = integers(call, "count")
    if count < 0:
        raise spec.ArgumentError(f"{call.kernel}: count is {count}; it may not be below 0.")
    ends = bool(call.options["endpoint"])
    pieces = count - 1 if ends else count
    dtype = dtype_option(call, narrow=True)
    if not compute_dtype(dtype).startswith("float"):
        raise spec.ArgumentError(f"{call.kernel}: dtype is {dtype}; it has to be a floating one.")
    step = (stop - start) / pieces if pieces > 0 else 0.0
    last = float(stop) if ends and count > 1 else None
    return _sequence(call, count, dtype, float(start), float(step), last, base)
