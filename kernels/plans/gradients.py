"""From call to launches: kernels over rows of several arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xtarget import spec

from . import tuning
from .elementwise import compute_dtype, one_axis
from .folds import Sum
from .lanes import parted
from .layouts import Space, collapse, without_axes
from .reduction import Work

__all__ = [
    "add_norm",
    "alike",
    "log_softmax_backward",
    "norm_backward",
    "rows_launch",
    "softmax_backward",
    "vector",
]


def rows_launch(
    call: spec.Call,
    source: str,
    addresses: Mapping[str, spec.Argument],
    along: Mapping[str, spec.ArrayType],
    axis: int,
    dtype: str,
    *,
    beside: Mapping[str, spec.ArrayType] | None = None,
    numbers: Mapping[str, spec.Argument] | None = None,
    constants: Mapping[str, Any] | None = None,
    whole: bool = True,
    groups: bool = False,
    piece: bool = False,
) -> spec.Launch:
    """One launch over the rows that lie along `axis` of arrays of one shape.

    Args:
        addresses: the pointers among the parameters, in their order; None: there is none.
        along: the arrays that have the axis, by first letter of their parameters.
        beside: those that lack it.
        dtype: the type to compute in.
        whole: the kernel walks rows; else it takes one element of each.
        groups: it has a constant GROUP: elements of a long row that a lane takes at once.
        piece: it takes a row in one piece (`in_one_piece`).
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
        steps = (sizes.piece if piece else sizes.step) // wide
        block_n = min(tuning.length_of_tile(call, n), steps)
        block_m = max(1, sizes.tile // wide // block_n)
        if abs(strides["x"]) != 1 and rows.size > 1:  # lanes go across rows
            block_m = max(block_m, 16)
            block_n = min(block_n, max(1, steps // block_m))
        tile = {"BLOCK_M": block_m, "BLOCK_N": block_n}
        count = block_m * block_n * wide
    warps = min(sizes.max_warps, max(1, spec.next_power_of_2(count // sizes.per_warp)))
    if groups:
        tile["GROUP"] = 0
        if sizes.group and strides["x"] == 1 and n >= sizes.group.columns * sizes.group.elements:
            columns, elements, warps = sizes.group
            tile = {"BLOCK_M": 1, "BLOCK_N": columns // wide, "GROUP": elements}
    given, absent = parted(addresses)
    return spec.Launch(
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
            **({"T": spec.dtype_constant(dtype)} if dtype else {}),
            **(constants or {}),
        },
        (spec.cdiv(rows.size, tile["BLOCK_M"]), 1, 1),
        num_warps=warps,
    )


def in_one_piece(call: spec.Call, n: int, stride: int, dtype: str) -> bool:
    """Whether rows of `n` elements, `stride` apart, are kept in registers, not read again."""
    sizes = tuning.rows(call.vendor)
    wide = 2 if dtype == "float64" else 1
    return not (tuning.is_general(call) or sizes.walks) and stride == 1 and n * wide <= sizes.piece


def alike(call: spec.Call, *names: str) -> tuple[spec.ArrayType, spec.ArrayType]:
    """The first two arguments, which have one shape.

    Raises:
        ArgumentError: they have not.
    """
    first, second = call.array(0), call.array(1)
    if first.shape != second.shape:
        raise spec.ArgumentError(
            f"{call.kernel}: {names[0]} has shape {first.shape} and {names[1]} has shape "
            f"{second.shape}; they need the same."
        )
    return first, second


def _softmax_backward(log: bool) -> Callable[[spec.Call], spec.Plan]:
    def plan(call: spec.Call) -> spec.Plan:
        d, y = alike(call, "grad", "output")
        axis = one_axis(call, y.ndim)
        out = call.output(y.shape, call.rules.promote(d.dtype, y.dtype))
        if not out.size:
            return spec.Plan((out,), ())
        launch = rows_launch(
            call,
            "gradients:softmax_backward",
            {"d": spec.Input(0), "x": spec.Input(1), "out": spec.Output()},
            {"d": d, "x": y, "o": out},
            axis,
            compute_dtype(out.dtype),
            constants={"LOG": log},
        )
        return spec.Plan((out,), (launch,))

    return plan


softmax_backward = _softmax_backward(False)
log_softmax_backward = _softmax_backward(True)


def vector(
    call: spec.Call, index: int, n: int, name: str = "weight"
) -> tuple[spec.Argument | None, dict[str, Any], dict[str, Any]]:
    """An argument with an element for each of `n`, which may be left out: its address, and its
    stride as a number or a constant.

    Raises:
        ArgumentError: it has another shape.
    """
    stride_of = f"s{name[0]}"
    if index >= len(call.args) or call.args[index] is spec.ABSENT:
        return None, {}, {stride_of: 0}
    array = call.array(index)
    if array.shape != (n,):
        raise spec.ArgumentError(f"{call.kernel}: {name} has shape {array.shape}; it needs ({n},).")
    stride = array.strides[0]
    number = {} if stride == 1 else {stride_of: stride}
    return spec.Input(index), number, {stride_of: 1} if stride == 1 else {}


def _normalized(call: spec.Call, *names: str) -> tuple[spec.ArrayType, spec.ArrayType, int]:
    """The first two arguments, of one shape, and how long the rows are that are normalized.

    Raises:
        ArgumentError: their shapes differ, or have no dimension.
    """
    first, second = alike(call, *names)
    if not first.ndim:
        raise spec.ArgumentError(f"{call.kernel}: x has no dimension to normalize.")
    return first, second, first.shape[-1]


def norm_backward(rms: bool) -> Callable[[spec.Call], spec.Plan]:
    """The plan of the gradients of layer_norm (or rms_norm): of x, of the weight, of the bias."""

    def plan(call: spec.Call) -> spec.Plan:
        d, x, n = _normalized(call, "grad", "x")
        weight, number, constant = vector(call, 2, n)
        dtype = call.rules.promote(*(arg.dtype for arg in call.args))
        outs = [spec.ArrayType(dtype, x.shape, spec.contiguous_strides(x.shape))]
        outs += [spec.ArrayType(dtype, (n,), (1,))] * (1 if rms else 2)
        if call.out is not None:
            raise spec.ArgumentError(
                f"{call.kernel} gives {len(outs)} arrays, for which one out is not enough. Leave "
                "it out."
            )
        if not x.size:
            return spec.Plan(tuple(outs), (), (), (0,) * len(outs))
        computed = compute_dtype(dtype)
        m = x.size // n
        launch = rows_launch(
            call,
            "gradients:norm_backward",
            {
                "d": spec.Input(0),
                "x": spec.Input(1),
                "weight": weight,
                "out": spec.Output(),
                "scaled": spec.Temporary(),
            },
            {"d": d, "x": x, "o": outs[0]},
            x.ndim - 1,
            computed,
            numbers={"eps": spec.Scalar(float(call.options["eps"]), computed), **number},
            constants={"RMS": rms, **constant},
        )
        temporary = spec.ArrayType(computed, (m, n), spec.contiguous_strides((m, n)))
        columns = Space(n, (), ((), ()))
        work = Work(call, columns, Space(m, (), ((n,),)), x=spec.Temporary())
        work.temporaries.append(temporary)
        work.launches.append(launch)
        work.reduce(spec.Output(1), *[Sum(computed).step()] * 3)
        if not rms:
            rows = collapse(d.shape[:-1], d.strides[:-1])
            work.read(spec.Input(0), collapse((n,), (d.strides[-1],), (1,)), rows)
            work.reduce(spec.Output(2), *[Sum(computed).step()] * 3)
        return work.plan(*outs)

    return plan


def add_norm(rms: bool) -> Callable[[spec.Call], spec.Plan]:
    """The plan of layer_norm (or rms_norm) of the sum of two arrays, which is a result too."""

    def plan(call: spec.Call) -> spec.Plan:
        x, residual, n = _normalized(call, "x", "residual")
        weight, number, constant = vector(call, 2, n)
        bias, second, other = (None, {}, {"sb": 0}) if rms else vector(call, 3, n, "bias")
        dtype = call.rules.promote(*(arg.dtype for arg in call.args))
        whole = call.rules.promote(x.dtype, residual.dtype)
        if call.out is not None:
            raise spec.ArgumentError(f"{call.kernel} gives two arrays. Leave out= out.")
        outs = [
            spec.ArrayType(kind, x.shape, spec.contiguous_strides(x.shape))
            for kind in (dtype, whole)
        ]
        if not x.size:
            return spec.Plan(tuple(outs), ())
        computed = compute_dtype(dtype)
        piece = in_one_piece(call, n, x.strides[-1], computed)
        launch = rows_launch(
            call,
            "added:add_norm_whole" if piece else "added:add_norm",
            {
                "x": spec.Input(0),
                "residual": spec.Input(1),
                "weight": weight,
                "bias": bias,
                "out": spec.Output(0),
                "total": spec.Output(1),
            },
            {"x": x, "r": residual, "o": outs[0], "t": outs[1]},
            x.ndim - 1,
            computed,
            numbers={"eps": spec.Scalar(float(call.options["eps"]), computed), **number, **second},
            constants={"RMS": rms, **constant, **other},
            piece=piece,
        )
        return spec.Plan(tuple(outs), (launch,))

    return plan
