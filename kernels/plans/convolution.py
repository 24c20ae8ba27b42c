"""From call to launches: convolutions."""

from __future__ import annotations

from collections.abc import Callable

from xtarget import spec

from .convolved import convolved
from .problems import Operands, Problem, of_windows
from .windows import each_axis, fitting, ordered, padding_of, rank_of, three, turned

__all__ = ["convolution", "transposed_convolution"]


def _bias(call: spec.Call, channels: int, dtype: str) -> spec.Argument | None:
    """The argument `bias`, if it is given.

    Raises:
        ArgumentError: it is no vector of a number for each channel.
    """
    if len(call.args) < 3 or call.args[2] is spec.ABSENT:
        return None
    bias = call.array(2)
    if bias.shape != (channels,) or bias.dtype != dtype:
        raise spec.ArgumentError(
            f"{call.kernel}: bias has shape {bias.shape} of {bias.dtype}; it has to be ({channels},"
            f") of {dtype}: a number for each channel of the result."
        )
    if not bias.contiguous:
        raise spec.ArgumentError(
            f"{call.kernel}: the elements of bias are {bias.strides[0]} apart; they have to lie "
            "side by side. Give a contiguous copy."
        )
    return spec.Input(2)


def _groups(call: spec.Call, channels: int, what: str) -> int:
    groups = call.options["groups"]
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise spec.ArgumentError(
            f"{call.kernel}: groups is {groups!r}; it has to be an integer from 1 on."
        )
    if channels % groups:
        raise spec.ArgumentError(
            f"{call.kernel}: {what} has {channels} channels, which {groups} groups do not divide."
        )
    return groups


def _weight(call: spec.Call, rank: int, dtype: str) -> spec.ArrayType:
    weight = call.array(1)
    if weight.dtype != dtype:
        raise spec.ArgumentError(
            f"{call.kernel}: x is {dtype} and weight is {weight.dtype}; they need the same. "
            "Convert one."
        )
    if weight.ndim != rank + 2 or 0 in weight.shape:
        raise spec.ArgumentError(
            f"{call.kernel}: weight has shape {weight.shape}; it needs {rank + 2} dimensions, as x "
            "has, and no length of 0."
        )
    return weight


def convolution(
    rank: int | None = None, *, depthwise: bool = False
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a convolution.

    Args:
        rank: axes that windows slide over; None: one to three.
        depthwise: there is a group for each channel.
    """

    def plan(call: spec.Call) -> spec.Plan:
        x = ordered(call, call.array(0))
        own = rank_of(call, x.ndim, rank)
        weight = _weight(call, own, x.dtype)
        samples, channels, *lengths = x.shape
        groups = channels if depthwise else _groups(call, channels, "x")
        if not groups or weight.shape[1] * groups != channels:
            raise spec.ArgumentError(
                f"{call.kernel}: weight has shape {weight.shape}: for {groups} groups that is "
                f"{weight.shape[1] * groups} channels, and x has {channels}."
            )
        if weight.shape[0] % groups:
            raise spec.ArgumentError(
                f"{call.kernel}: weight has shape {weight.shape}, whose {weight.shape[0]} channels "
                f"{groups} groups do not divide."
            )
        windows = fitting(call, tuple(lengths), weight.shape[2:])
        given = call.output(turned(call, (samples, weight.shape[0], *windows.out)), x.dtype)
        bias = _bias(call, weight.shape[0], x.dtype)
        if not given.size:
            return spec.Plan((given,), ())
        problem = of_windows(x, weight, ordered(call, given), windows, groups)
        return _plan(call, problem, bias, x.dtype, given)

    return plan


def _plan(
    call: spec.Call, problem: Problem, bias: spec.Argument | None, dtype: str, out: spec.ArrayType
) -> spec.Plan:
    """The plan of a convolution of the first argument with the second."""
    arrays = Operands(spec.Input(0), spec.Input(1), bias, spec.Output(), dtype, [])
    launches = convolved(call, problem, arrays)
    return spec.Plan((out,), tuple(launches), tuple(arrays.temporaries))


def transposed_convolution(rank: int | None = None) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a transposed convolution: the gradient of a convolution by its input."""

    def plan(call: spec.Call) -> spec.Plan:
        x = ordered(call, call.array(0))
        own = rank_of(call, x.ndim, rank)
        weight = _weight(call, own, x.dtype)
        samples, channels, *lengths = x.shape
        groups = _groups(call, channels, "x")
        if weight.shape[0] != channels:
            raise spec.ArgumentError(
                f"{call.kernel}: weight has shape {weight.shape} for {weight.shape[0]} channels, "
                f"and x has {channels}."
            )
        kernel = weight.shape[2:]
        stride, dilation = each_axis(call, "stride", own), each_axis(call, "dilation", own)
        more = each_axis(call, "output_padding", own, 0)
        if isinstance(call.options["padding"], str):
            raise spec.ArgumentError(
                f"{call.kernel}: padding is {call.options['padding']!r}; it has to be numbers."
            )
        before, after = padding_of(call, tuple(lengths), kernel, stride, dilation)
        shape = []
        for i, n in enumerate(lengths):
            if more[i] >= max(stride[i], dilation[i]):
                raise spec.ArgumentError(
                    f"{call.kernel}: output_padding is {more[i]} for a stride of {stride[i]} and a "
                    f"dilation of {dilation[i]}; it has to be below one of them."
                )
            reach = (n - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1
            length = reach + more[i] - before[i] - after[i]
            if n < 1 or length < 1:
                raise spec.ArgumentError(
                    f"{call.kernel}: the result is empty: an axis of {n} gives "
                    f"{length} elements. Give less padding."
                )
            shape.append(length)
        rows, sw = weight.shape[1], weight.strides
        given = call.output(turned(call, (samples, rows * groups, *shape)), x.dtype)
        bias = _bias(call, rows * groups, x.dtype)
        if not given.size:
            return spec.Plan((given,), ())
        out = ordered(call, given)
        problem = Problem(
            own,
            samples,
            groups,
            rows,
            channels // groups,
            three(shape, 1),
            three(lengths, 1),
            three(kernel, 1),
            (1, 1, 1),
            three([-b for b in before], 0),
            three([-d for d in dilation], 1),
            three(stride, 1),
            (*x.strides[:2], *three(x.strides[2:], 0)),
            (channels // groups * sw[0], sw[1], sw[0], *three(sw[2:], 0)),
            (*out.strides[:2], *three(out.strides[2:], 0)),
        )
        return _plan(call, problem, bias, x.dtype, given)

    return plan
