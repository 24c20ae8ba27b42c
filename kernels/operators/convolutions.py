"""Convolutions: x is (samples, channels, one to three axes), weight (channels of the result,
channels of x in a group, taps); of transposed ones (channels of x, channels of the result in a
group, taps).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import convolution as plans
from ..plans.convolution_gradients import convolution_backward
from .references import by_torch
from .row import row
from .rules import FLOATS
from .windows import each, first_channels, last_channels, planes, sides, taken

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _sum(
    np: Any, padded: Any, weight: Any, counts: Any, stride: Any, dilation: Any, groups: int
) -> Any:
    """A convolution of what needs no padding any more."""
    samples, channels = padded.shape[:2]
    rows = weight.shape[0]
    grouped = weight.reshape(groups, rows // groups, *weight.shape[1:])
    total = np.zeros((samples, groups, rows // groups, *counts), np.result_type(padded, weight))
    for tap, part in taken(np, padded, counts, weight.shape[2:], stride, dilation):
        part = part.reshape(samples, groups, channels // groups, *counts)
        total += np.einsum("ngc...,gmc->ngm...", part, grouped[(..., *tap)])
    return total.reshape(samples, rows, *counts)


def _added(np: Any, made: Any, bias: Any) -> Any:
    return made if bias is None else made + bias.reshape(-1, *(1,) * (made.ndim - 2))


def _convolution(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int | None = 1, channels_last: bool = False,
) -> Any:  # fmt: skip
    import numpy as np

    x = first_channels(np, x, channels_last)
    rank = x.ndim - 2
    stride, dilation, kernel = each(stride, rank), each(dilation, rank), weight.shape[2:]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    added = sides(padding, x.shape[2:], reach, stride)
    counts = [
        (n + sum(own) - r) // s + 1
        for n, own, r, s in zip(x.shape[2:], added, reach, stride, strict=True)
    ]
    padded = np.pad(x, [(0, 0), (0, 0), *added])
    groups = x.shape[1] if groups is None else groups
    made = _sum(np, padded, weight, counts, stride, dilation, groups)
    return last_channels(np, _added(np, made, bias), channels_last)


def _depthwise(x: Any, weight: Any, bias: Any = None, **options: Any) -> Any:
    return _convolution(x, weight, bias, groups=None, **options)


def _transposed(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, dilation: Any = 1, groups: int = 1, channels_last: bool = False,
) -> Any:  # fmt: skip
    """A convolution by the turned weights of elements with zeros between them."""
    import numpy as np

    x = first_channels(np, x, channels_last)
    rank = x.ndim - 2
    stride, dilation, more = each(stride, rank), each(dilation, rank), each(output_padding, rank)
    reach = [d * (k - 1) for k, d in zip(weight.shape[2:], dilation, strict=True)]
    cut = sides(padding, x.shape[2:], reach, stride)
    spread = [
        (n - 1) * s + 1 + 2 * r + m
        for n, s, r, m in zip(x.shape[2:], stride, reach, more, strict=True)
    ]
    wide = np.zeros((*x.shape[:2], *spread), x.dtype)
    where = tuple(
        slice(r, r + (n - 1) * s + 1, s) for n, s, r in zip(x.shape[2:], stride, reach, strict=True)
    )
    wide[(..., *where)] = x
    inner = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    turned = np.flip(np.swapaxes(inner, 1, 2), tuple(range(3, 3 + rank)))
    turned = turned.reshape(-1, *turned.shape[2:])
    counts = [n - r for n, r in zip(spread, reach, strict=True)]
    made = _sum(np, wide, turned, counts, (1,) * rank, dilation, groups)
    part = tuple(slice(b, n - a) for (b, a), n in zip(cut, counts, strict=True))
    return last_channels(np, _added(np, made[(..., *part)], bias), channels_last)


def _shapes(rank: int, *, depthwise: bool = False) -> Callable[[_Shape], Sequence[_Shape]]:
    """Four channels of three, or six of each of three, and windows of at most three elements."""
    whole = planes(rank, 3)

    def examples(shape: _Shape) -> Sequence[_Shape]:
        x = whole(shape)
        kernel = tuple(min(n, 3) for n in x[2:])
        return [x, (6, 1, *kernel) if depthwise else (4, 3, *kernel), (6 if depthwise else 4,)]

    return examples


def _shapes_turned(rank: int) -> Callable[[_Shape], Sequence[_Shape]]:
    plain = _shapes(rank)

    def examples(shape: _Shape) -> Sequence[_Shape]:
        x, weight, bias = plain(shape)
        return [x, (3, 4, *weight[2:]), bias]

    return examples


def _backward(
    torch: Any, grad: Any, x: Any, weight: Any, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1, channels_last: bool = False,
) -> Any:  # fmt: skip
    """By the input a transposed convolution; by the weights torch's own, of `x` with its zeros."""
    rank = weight.ndim - 2
    stride, dilation = each(stride, rank), each(dilation, rank)
    if channels_last:
        grad, x = (torch.movedim(one, -1, 1) for one in (grad, x))
    reach = [d * (k - 1) + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    added = sides(padding, x.shape[2:], reach, stride)
    numbers = [n for pair in added for n in pair]
    left = [
        n - ((count - 1) * s + r - sum(own))
        for n, count, s, r, own in zip(
            x.shape[2:], grad.shape[2:], stride, reach, added, strict=True
        )
    ]
    by_x = torch.as_tensor(
        _transposed(grad.numpy(), weight.numpy(), None, stride, numbers, left, dilation, groups)
    )
    start = torch.nn.functional.pad(x, [n for pair in reversed(added) for n in pair])
    weight = weight.detach().requires_grad_()
    made = getattr(torch.nn.functional, f"conv{rank}d")(
        start, weight, None, stride, 0, dilation, groups
    )
    (by_weight,) = torch.autograd.grad(made, weight, grad)
    by_bias = grad.sum((0, *range(2, grad.ndim)))
    return torch.movedim(by_x, 1, -1) if channels_last else by_x, by_weight, by_bias


def _with_gradient(shape: _Shape) -> Sequence[_Shape]:
    x, weight, _ = _shapes(2)(shape)
    made = (n - k + 1 for n, k in zip(x[2:], weight[2:], strict=True))
    return [(x[0], weight[0], *made), x, weight]


_OPTIONS: Any = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "channels_last": False}
_DEPTHWISE: Any = {name: value for name, value in _OPTIONS.items() if name != "groups"}
_TURNED: Any = {
    "stride": 1, "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1,
    "channels_last": False,
}  # fmt: skip
#: As of a matrix product: one unit for each product in the worst case.
_ALL: Any = {"category": "convolution", "dtypes": FLOATS, "tolerance": (8, 64)}
_SUM = "sum over the channels of a group and the taps of windows of x, times weight; + bias"
_NAMES = {
    None: "Conv convolution",
    1: "",
    2: "Conv2D conv2D",
    3: "Conv3D conv3dnew Conv3dNew",
}
_TURNED_NAMES = {
    None: "ConvTranspose",
    1: "deconv1d",
    2: "deconv2d",
    3: "deconv3d",
}

ROWS: tuple[KernelSpec, ...] = (
    *(
        row(f"conv{rank}d" if rank else "conv", "x weight bias?", plans.convolution(rank),
            f"{_SUM}: {rank or '1 to 3'} axes", _convolution, _shapes(rank or 2), names,
            options=_OPTIONS, **_ALL)
        for rank, names in _NAMES.items()
    ),
    row("depthwise_conv2d", "x weight bias?", plans.convolution(2, depthwise=True), "conv2d with a "
        "group for each channel of x", _depthwise, _shapes(2, depthwise=True),
        "conv_depthwise2d", options=_DEPTHWISE, **_ALL),
    *(
        row(f"conv_transpose{rank}d" if rank else "conv_transpose", "x weight bias?",
            plans.transposed_convolution(rank), "each element of x times weight, added where the "
            f"windows of a convolution with these options are; + bias: {rank or '1 to 3'} axes",
            _transposed, _shapes_turned(rank or 2), names, options=_TURNED, **_ALL)
        for rank, names in _TURNED_NAMES.items()
    ),
    row("convolution_backward", "grad x weight", convolution_backward, "gradients of conv: of x, "
        "of the weights, of the bias", by_torch(_backward), _with_gradient,
        "conv1d_backward conv2d_backward conv3d_backward conv1d_bp conv2d_bp conv3d_bp",
        options=_OPTIONS, **{**_ALL, "category": "gradients", "tolerance": (64, 64)}),
)  # fmt: skip
