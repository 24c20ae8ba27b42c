"""From call to launches: pooling, and im2col and col2im."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xtarget import spec

from . import tuning
from .elementwise import compute_dtype
from .folds import fold as folded
from .folds import total
from .lanes import lanes
from .windows import Windows, each_axis, fitting, ordered, rank_of, three, turned

__all__ = ["adaptive", "col2im", "everything", "im2col", "pool"]

_Ints = tuple[int, ...]


def flat(
    call: spec.Call,
    source: str,
    size: int,
    arrays: dict[str, spec.Argument | None],
    numbers: dict[str, spec.Argument],
    constants: dict[str, Any],
) -> spec.Launch:
    """One launch of a kernel that takes BLOCK of `n` elements a block, each by an address of its
    own; arrays that are None are constants.
    """
    sizes = tuning.flat(call.vendor)
    changing = (name for name, value in numbers.items() if not isinstance(value, spec.Scalar))
    return lanes(
        source,
        size,
        sizes.strided,
        {**arrays, "n": size, **numbers},
        constants,
        num_warps=sizes.num_warps,
        loose=("n", *changing),
    )


def five(array: spec.ArrayType) -> _Ints:
    """Strides of samples, channels and three axes."""
    return (*array.strides[:2], *three(array.strides[2:], 0))


def _axes(lengths: _Ints, windows: Windows) -> dict[str, spec.Argument]:
    return {
        "tap_count": math.prod(windows.kernel),
        "out_shape": three(windows.out, 1),
        "in_shape": three(lengths, 1),
        "kernel": three(windows.kernel, 1),
        "stride": three(windows.stride, 1),
        "before": three(windows.before, 0),
        "dilation": three(windows.dilation, 1),
    }


def _pooled(
    call: spec.Call, x: spec.ArrayType, windows: Windows, op: str, *, covering: bool = False
) -> spec.Plan:
    """Args:
    covering: the windows cover the axes, which `windows.out` says how many do.
    """
    shape = turned(call, (*x.shape[:2], *windows.out))
    indexed = bool(call.options.get("return_indices"))
    if indexed and call.out is not None:
        raise spec.ArgumentError(
            f"{call.kernel} gives two arrays, for which one out is not enough. Leave it out."
        )
    outs = [call.output(shape, x.dtype)]
    if indexed:
        outs.append(spec.ArrayType("int64", shape, spec.contiguous_strides(shape)))
    if not outs[0].size:
        return spec.Plan(tuple(outs), ())
    out = ordered(call, outs[0])
    computed = compute_dtype(x.dtype)
    number: dict[str, spec.Argument] = {"p": _power(call, computed)} if op == "power" else {}
    launch = flat(
        call,
        "pooling:pool",
        out.size,
        {"x": spec.Input(0), "out": spec.Output(), "index": spec.Output(1) if indexed else None},
        {
            **number,
            "channels": x.shape[1],
            **_axes(x.shape[2:], windows),
            "after": three(windows.after, 0),
            "sx": five(x),
            "so": five(out),
        },
        {
            **({} if number else {"p": None}),
            "OP": op,
            "ADAPTIVE": covering,
            "INSIDE": not call.options.get("count_include_pad", True),
            "T": spec.dtype_constant(computed),
        },
    )
    return spec.Plan(tuple(outs), (launch,))


def _power(call: spec.Call, dtype: str) -> spec.Scalar:
    p = call.options["p"]
    if isinstance(p, bool) or not isinstance(p, int | float) or not p > 0:
        raise spec.ArgumentError(f"{call.kernel}: p is {p!r}; it has to be a number above 0.")
    return spec.Scalar(float(p), dtype)


def pool(op: str, rank: int | None = None) -> Callable[[spec.Call], spec.Plan]:
    """The plan of pooling by windows.

    Args:
        op: of `pooling:pool`.
        rank: axes that windows slide over; None: one to three.
    """

    def plan(call: spec.Call) -> spec.Plan:
        x = ordered(call, call.array(0))
        own = rank_of(call, x.ndim, rank)
        kernel = each_axis(call, "kernel", own)
        windows = fitting(call, x.shape[2:], kernel, ceil=bool(call.options["ceil_mode"]))
        for k, d, b, a in zip(kernel, windows.dilation, windows.before, windows.after, strict=True):
            if 2 * max(b, a) > d * (k - 1) + 1:
                raise spec.ArgumentError(
                    f"{call.kernel}: padding is {call.options['padding']!r} for windows of "
                    f"{d * (k - 1) + 1}; it may be half of a window at most, so that each has an "
                    "element."
                )
        return _pooled(call, x, windows, op)

    return plan


def adaptive(op: str, rank: int | None = None) -> Callable[[spec.Call], spec.Plan]:
    """The plan of pooling by as many windows as the option `size` says, which cover the axes."""
    whole = everything(op)

    def plan(call: spec.Call) -> spec.Plan:
        x = ordered(call, call.array(0))
        own = rank_of(call, x.ndim, rank)
        size = each_axis(call, "size", own)
        if 0 in x.shape[2:]:
            raise spec.ArgumentError(
                f"{call.kernel}: x has shape {call.array(0).shape}; there is nothing to pool."
            )
        if size == (1,) * own and not call.options.get("return_indices"):
            return whole(call)
        # no window is longer than this
        kernel = tuple(
            spec.cdiv(n, o) + (0 if n % o == 0 else 1)
            for n, o in zip(x.shape[2:], size, strict=True)
        )
        none, one = (0,) * own, (1,) * own
        return _pooled(call, x, Windows(kernel, one, one, none, none, size), op, covering=True)

    return plan


def everything(op: str) -> Callable[[spec.Call], spec.Plan]:
    """The plan of pooling by one window: a reduction."""
    reduce = (
        total(lambda _, dtype: dtype, FINISH="mean")
        if op == "mean"
        else folded("max", lambda _, dtype: dtype)
    )

    def plan(call: spec.Call) -> spec.Plan:
        ndim = call.array(0).ndim
        rank_of(call, ndim, None)
        axes = range(1, ndim - 1) if call.options["channels_last"] else range(2, ndim)
        return reduce(replace(call, options={"axis": tuple(axes), "keepdims": True}))

    return plan


def im2col(call: spec.Call) -> spec.Plan:
    """The plan of im2col: (samples, channels * taps, windows)."""
    x = call.array(0)
    own = rank_of(call, x.ndim, None)
    windows = fitting(call, x.shape[2:], each_axis(call, "kernel", own))
    rows = x.shape[1] * math.prod(windows.kernel)
    out = call.output((x.shape[0], rows, math.prod(windows.out)), x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    launch = flat(
        call,
        "pooling:unfold",
        out.size,
        {"x": spec.Input(0), "out": spec.Output()},
        {
            "channels": x.shape[1],
            **_axes(x.shape[2:], windows),
            "sx": five(x),
            "so": out.strides,
        },
        {},
    )
    return spec.Plan((out,), (launch,))


def col2im(call: spec.Call) -> spec.Plan:
    """The plan of col2im: im2col backwards, where windows that overlap are added."""
    x = call.array(0)
    size = call.options["size"]
    own = len(size) if isinstance(size, tuple | list) else 2
    if x.ndim != 3 or not 1 <= own <= 3:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape} and size is {size!r}; x has to be (samples, "
            "channels * taps, windows), and size one to three lengths."
        )
    lengths = each_axis(call, "size", own)
    windows = fitting(call, lengths, each_axis(call, "kernel", own))
    taps, count = math.prod(windows.kernel), math.prod(windows.out)
    if x.shape[1] % taps or x.shape[2] != count:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape}; windows of {taps} elements over {lengths} are "
            f"{count}, so it has to be (samples, a multiple of {taps}, {count})."
        )
    channels = x.shape[1] // taps
    out = call.output((x.shape[0], channels, *lengths), x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    axes = _axes(lengths, windows)
    axes["windows"] = axes.pop("out_shape")
    axes["out_shape"] = axes.pop("in_shape")
    launch = flat(
        call,
        "pooling:fold",
        out.size,
        {"x": spec.Input(0), "out": spec.Output()},
        {"channels": channels, **axes, "sx": x.strides, "so": five(out)},
        {"T": spec.dtype_constant(compute_dtype(x.dtype))},
    )
    return spec.Plan((out,), (launch,))
