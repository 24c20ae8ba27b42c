"""From call to launches: kernels over rows of several arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xtarget.spec import (
    Argument,
    ArgumentError,
    ArrayType,
    Call,
    Input,
    Launch,
    Output,
    Plan,
    Scalar,
    Temporary,
    cdiv,
    contiguous_strides,
    dtype_constant,
    next_power_of_2,
)

from . import tuning
from .layouts import Space, collapse, without_axes
from .plans import compute_dtype
from .plans_folds import step
from .plans_reduction import Work
from .plans_scans import one_axis

__all__ = [
    "add_norm",
    "log_softmax_backward",
    "norm_backward",
    "rows_launch",
    "softmax_backward",
    "vector",
]


def rows_launch(
    call: Call,
    source: str,
    addresses: Mapping[str, Argument],
    along: Mapping[str, ArrayType],
    axis: int,
    dtype: str,
    *,
    beside: Mapping[str, ArrayType] | None = None,
    numbers: Mapping[str, Argument] | None = None,
    constants: Mapping[str, Any] | None = None,
    whole: bool = True,
) -> Launch:
    """One launch over the rows that lie along `axis` of arrays of one shape.

    Args:
        addresses: the pointers among the parameters, in their order; None: there is none.
        along: the arrays that have the axis, by first letter of their parameters.
        beside: those that lack it.
        dtype: the type to compute in.
        whole: the kernel walks rows; else it takes one element of each.
    """
    first = next(iter(along.values()))
    n = first.shape[axis]
    others = [*(beside or {}).values()]
    letters = [*along, *(beside or {})]
    rows = collapse(
        without_axes(first.shape, (axis,)),
        *(without_axes(array.strides, (axis,)) for array in along.values()),
        *(array.strides for array in others),
    )
    sizes = tuning.rows(call.vendor)
    wide = 2 if dtype == "float64" else 1
    strides = {letter: array.strides[axis] for letter, array in along.items()}
    tile: dict[str, Any] = {"BLOCK_M": sizes.tile}
    count = sizes.tile
    if whole:
        steps = sizes.step // wide
        block_n = min(next_power_of_2(n), steps)
        block_m = max(1, sizes.tile // wide // block_n)
        if abs(strides["x"]) != 1 and rows.size > 1:  # lanes go across rows
            block_m = max(block_m, 16)
            block_n = min(block_n, max(1, steps // block_m))
        tile = {"BLOCK_M": block_m, "BLOCK_N": block_n}
        count = block_m * block_n * wide
    given = {name: value for name, value in addresses.items() if value is not None}
    absent = {name: None for name, value in addresses.items() if value is None}
    return Launch(
        source,
        {
            **given,
            "m": rows.size,
            "n": n,
            **(numbers or {}),
            "shape": rows.lengths,
            **{f"s{letter}": own for letter, own in zip(letters, rows.strides, strict=True)},
            **{f"c{letter}": own for letter, own in strides.items() if own != 1},
        },
        {
            **absent,
            **{f"c{letter}": 1 for letter, own in strides.items() if own == 1},
            **tile,
            **({"T": dtype_constant(dtype)} if dtype else {}),
            **(constants or {}),
        },
        (cdiv(rows.size, tile["BLOCK_M"]), 1, 1),
        num_warps=min(sizes.max_warps, max(1, next_power_of_2(count // sizes.per_warp))),
    )


def _alike(call: Call, *names: str) -> tuple[ArrayType, ArrayType]:
    """The first two arguments, which have one shape.

    Raises:
        ArgumentError: they have not.
    """
    first, second = call.array(0), call.array(1)
    if first.shape != second.shape:
        raise ArgumentError(
            f"{call.kernel}: {names[0]} has shape {first.shape} and {names[1]} has shape "
            f"{second.shape}; they need the same."
        )
    return first, second


def _softmax_backward(log: bool) -> Callable[[Call], Plan]:
    def plan(call: Call) -> Plan:
        d, y = _alike(call, "grad", "output")
        axis = one_axis(call, y.ndim)
        out = call.output(y.shape, call.rules.promote(d.dtype, y.dtype))
        if not out.size:
            return Plan((out,), ())
        launch = rows_launch(
            call,
            "gradients:softmax_backward",
            {"d": Input(0), "x": Input(1), "out": Output()},
            {"d": d, "x": y, "o": out},
            axis,
            compute_dtype(out.dtype),
            constants={"LOG": log},
        )
        return Plan((out,), (launch,))

    return plan


softmax_backward = _softmax_backward(False)
log_softmax_backward = _softmax_backward(True)


def vector(
    call: Call, index: int, n: int, name: str = "weight"
) -> tuple[Argument | None, dict[str, Any], dict[str, Any]]:
    """An argument with an element for each of `n`, which may be left out: its address, and its
    stride as a number or a constant.

    Raises:
        ArgumentError: it has another shape.
    """
    stride_of = f"s{name[0]}"
    if index >= len(call.args):
        return None, {}, {stride_of: 0}
    array = call.array(index)
    if array.shape != (n,):
        raise ArgumentError(f"{call.kernel}: {name} has shape {array.shape}; it needs ({n},).")
    stride = array.strides[0]
    number = {} if stride == 1 else {stride_of: stride}
    return Input(index), number, {stride_of: 1} if stride == 1 else {}


def _normalized(call: Call, *names: str) -> tuple[ArrayType, ArrayType, int]:
    """The first two arguments, of one shape, and how long the rows are that are normalized.

    Raises:
        ArgumentError: their shapes differ, or have no dimension.
    """
    first, second = _alike(call, *names)
    if not first.ndim:
        raise ArgumentError(f"{call.kernel}: x has no dimension to normalize.")
    return first, second, first.shape[-1]


def norm_backward(rms: bool) -> Callable[[Call], Plan]:
    """The plan of the gradients of layer_norm (or rms_norm): of x, of the weight, of the bias."""

    def plan(call: Call) -> Plan:
        d, x, n = _normalized(call, "grad", "x")
        weight, number, constant = vector(call, 2, n)
        dtype = call.rules.promote(*(arg.dtype for arg in call.args))
        outs = [ArrayType(dtype, x.shape, contiguous_strides(x.shape))]
        outs += [ArrayType(dtype, (n,), (1,))] * (1 if rms else 2)
        if call.out is not None:
            raise ArgumentError(
                f"{call.kernel} gives {len(outs)} arrays, for which one out is not enough. Leave "
                "it out."
            )
        if not x.size:
            return Plan(tuple(outs), (), (), (0,) * len(outs))
        computed = compute_dtype(dtype)
        m = x.size // n
        launch = rows_launch(
            call,
            "gradients:norm_backward",
            {
                "d": Input(0),
                "x": Input(1),
                "weight": weight,
                "out": Output(),
                "scaled": Temporary(),
            },
            {"d": d, "x": x, "o": outs[0]},
            x.ndim - 1,
            computed,
            numbers={"eps": Scalar(float(call.options["eps"]), computed), **number},
            constants={"RMS": rms, **constant},
        )
        temporary = ArrayType(computed, (m, n), contiguous_strides((m, n)))
        columns = Space(n, (), ((), ()))
        work = Work(call, columns, Space(m, (), ((n,),)), x=Temporary())
        work.temporaries.append(temporary)
        work.launches.append(launch)
        work.reduce(Output(1), *[step(computed)] * 3)
        if not rms:
            rows = collapse(d.shape[:-1], d.strides[:-1])
            work.read(Input(0), collapse((n,), (d.strides[-1],), (1,)), rows)
            work.reduce(Output(2), *[step(computed)] * 3)
        return work.plan(*outs)

    return plan


def add_norm(rms: bool) -> Callable[[Call], Plan]:
    """The plan of layer_norm (or rms_norm) of the sum of two arrays, which is a result too."""

    def plan(call: Call) -> Plan:
        x, residual, n = _normalized(call, "x", "residual")
        weight, number, constant = vector(call, 2, n)
        bias, second, other = (None, {}, {"sb": 0}) if rms else vector(call, 3, n, "bias")
        dtype = call.rules.promote(*(arg.dtype for arg in call.args))
        whole = call.rules.promote(x.dtype, residual.dtype)
        if call.out is not None:
            raise ArgumentError(f"{call.kernel} gives two arrays. Leave out= out.")
        outs = [ArrayType(kind, x.shape, contiguous_strides(x.shape)) for kind in (dtype, whole)]
        if not x.size:
            return Plan(tuple(outs), ())
        computed = compute_dtype(dtype)
        launch = rows_launch(
            call,
            "added:add_norm",
            {
                "x": Input(0),
                "residual": Input(1),
                "weight": weight,
                "bias": bias,
                "out": Output(0),
                "total": Output(1),
            },
            {"x": x, "r": residual, "o": outs[0], "t": outs[1]},
            x.ndim - 1,
            computed,
            numbers={"eps": Scalar(float(call.options["eps"]), computed), **number, **second},
            constants={"RMS": rms, **constant, **other},
        )
        return Plan(tuple(outs), (launch,))

    return plan
