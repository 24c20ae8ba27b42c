"""From call to launches: colours of images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xtarget.spec import (
    Argument,
    ArgumentError,
    Call,
    Input,
    Output,
    Plan,
    Scalar,
    contiguous_strides,
    dtype_constant,
)

from .elementwise import compute_dtype, one_axis
from .folds import Sum
from .gates import walk
from .layouts import collapse, without_axes
from .reduction import Work

__all__ = ["colours", "contrast"]


def _amount(call: Call, name: str, dtype: str) -> Scalar:
    value = call.options[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentError(f"{call.kernel}: {name} is {value!r}; it has to be a number.")
    return Scalar(float(value), dtype)


def colours(op: str, amount: str = "") -> Callable[[Call], Plan]:
    """The plan of what is done to each place's colour by itself.

    Args:
        op: of `images:colours`.
        amount: the option that says how much.
    """

    def plan(call: Call) -> Plan:
        x = call.array(0)
        axis = one_axis(call, x.ndim)
        if x.shape[axis] != 3:
            raise ArgumentError(
                f"{call.kernel}: x has shape {x.shape}, so {x.shape[axis]} colours along axis "
                f"{axis}; it needs three."
            )
        computed = compute_dtype(x.dtype)
        count = 1 if op == "grey" else 3
        out = call.output(tuple(count if i == axis else n for i, n in enumerate(x.shape)), x.dtype)
        numbers: dict[str, Argument] = {"step": x.strides[axis], "out_step": out.strides[axis]}
        if amount:
            numbers["amount"] = _amount(call, amount, computed)
        if not out.size:
            return Plan((out,), ())
        launch = walk(
            call,
            "images:colours",
            {"x": Input(0), "out": Output()},
            numbers,
            without_axes(x.shape, (axis,)),
            {"so": without_axes(out.strides, (axis,)), "sx": without_axes(x.strides, (axis,))},
            {
                **({} if amount else {"amount": None}),
                "OP": op,
                "T": dtype_constant(computed),
            },
        )
        return Plan((out,), (launch,))

    return plan


def contrast(call: Call) -> Plan:
    """The plan of adjust_contrast: what differs from the mean of each channel, times `factor`."""
    given = call.array(0)
    if given.ndim < 3:
        raise ArgumentError(
            f"{call.kernel}: x has {given.ndim} dimensions; it needs three or more: images, and "
            "their rows, columns and channels."
        )
    axes = (given.ndim - 3, given.ndim - 2)
    if not call.options["channels_last"]:
        axes = (given.ndim - 2, given.ndim - 1)
    out = call.output(given.shape, given.dtype)
    computed = compute_dtype(given.dtype)
    amount = _amount(call, "factor", computed)
    if not out.size:
        return Plan((out,), ())
    shape = without_axes(given.shape, axes)
    kept = collapse(
        shape, without_axes(given.strides, axes), contiguous_strides(shape), keep_order=True
    )
    reduced = collapse(tuple(given.shape[a] for a in axes), tuple(given.strides[a] for a in axes))
    work = Work(replace(call, out=None), kept, reduced)
    mean = work.temporary(computed)
    Sum(computed, FINISH="mean", count=reduced.size).into(work, mean)
    own = list(contiguous_strides(shape))
    over = tuple(0 if axis in axes else own.pop(0) for axis in range(given.ndim))
    launch = walk(
        call,
        "images:contrast",
        {"x": Input(0), "mean": mean, "out": Output()},
        {"amount": amount},
        given.shape,
        {"so": out.strides, "sx": given.strides, "sm": over},
        {"T": dtype_constant(computed)},
    )
    return Plan((out,), (*work.launches, launch), tuple(work.temporaries))
