"""Gradients of pooling. Each takes the gradient of the result first, then what was pooled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import pooling_gradients as plans
from .references import by_torch
from .row import row
from .rules import FLOATS
from .windows import each, first_channels, last_channels, planes, sides, taken

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _first(torch: Any, x: Any, last: bool) -> Any:
    return torch.movedim(x, -1, 1) if last else x


def _through(
    pooled: Callable[..., Any],
) -> Callable[..., Any]:
    """The gradient of a function of (torch, x with channels second, options) by its input."""

    def reference(torch: Any, grad: Any, x: Any, *rest: Any, **options: Any) -> Any:
        last = options.pop("channels_last", False)
        start = _first(torch, x, last).detach().requires_grad_()
        made = pooled(torch, start, _first(torch, grad, last), *rest, **options)
        (found,) = torch.autograd.grad(made, start, _first(torch, grad, last))
        return torch.movedim(found, 1, -1) if last else found

    return reference


def _mean(
    torch: Any, x: Any, grad: Any, kernel: Any = 2, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Any:  # fmt: skip
    rank = x.ndim - 2
    pool = getattr(torch.nn.functional, f"avg_pool{rank}d")
    stride = None if stride is None else each(stride, rank)
    return pool(x, each(kernel, rank), stride, each(padding, rank), ceil_mode, count_include_pad)


def _adaptive(torch: Any, x: Any, grad: Any) -> Any:
    return getattr(torch.nn.functional, f"adaptive_avg_pool{x.ndim - 2}d")(x, grad.shape[2:])


def _largest(
    grad: Any, x: Any, index: Any, kernel: Any = 2, stride: Any = None, padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False, channels_last: bool = False,
) -> Any:  # fmt: skip
    """Tap by tap of all windows; what an index says of another window's element is lost."""
    import numpy as np

    x, grad, index = (first_channels(np, one, channels_last) for one in (x, grad, index))
    lengths, counts, rank = x.shape[2:], grad.shape[2:], x.ndim - 2
    kernel, dilation = each(kernel, rank), each(dilation, rank)
    stride = kernel if stride is None else each(stride, rank)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    wide = [
        (b, max((count - 1) * s + r - n - b, a))
        for n, (b, a), count, s, r in zip(
            lengths, sides(padding, lengths, reach, stride), counts, stride, reach, strict=True
        )
    ]
    flat = np.arange(int(np.prod(lengths))).reshape(lengths)
    numbers = np.pad(flat, wide, constant_values=-1)
    made = np.zeros((*x.shape[:2], flat.size), grad.dtype)
    for _, own in taken(np, numbers, counts, kernel, stride, dilation):
        chosen = (index == own) & (own >= 0)
        places = np.broadcast_to(np.where(own < 0, 0, own), grad.shape).reshape(*x.shape[:2], -1)
        values = np.where(chosen, grad, 0).reshape(places.shape)
        for sample, channel in np.ndindex(x.shape[:2]):
            np.add.at(made[sample, channel], places[sample, channel], values[sample, channel])
    return last_channels(np, made.reshape(x.shape), channels_last)


def _halves(shape: _Shape) -> Sequence[_Shape]:
    """Of windows of two elements, side by side."""
    front, channels, *lengths = planes(2)(shape)
    whole = [max(n, 2) for n in lengths]
    return [(front, channels, *(n // 2 for n in whole)), (front, channels, *whole)]


def _with_index(shape: _Shape) -> Sequence[_Shape]:
    grad, x = _halves(shape)
    return [grad, x, grad]


def _names(plain: str) -> str:
    return " ".join(f"{plain}{rank}d_backward" for rank in (1, 2, 3))


_ALL: Any = {"category": "gradients", "dtypes": FLOATS, "tolerance": (16, 16)}
_OPTIONS: Any = {"kernel": 2, "stride": None, "padding": 0}

ROWS: tuple[KernelSpec, ...] = (
    row("max_pool_backward", "grad x index", plans.largest, "gradient of max_pool, whose index "
        "within the axes says which element each window's goes to", _largest, _with_index,
        f"{_names('max_pool')} max_pool2d_with_indices_backward max_pool3d_with_indices_backward "
        "maxpool2d_bp maxpool3d_bp",
        options={**_OPTIONS, "dilation": 1, "ceil_mode": False, "channels_last": False},
        apart=("x", "index"), **{**_ALL, "dtypes": (*FLOATS, "int32", "int64")}),
    row("avg_pool_backward", "grad x", plans.mean, "gradient of avg_pool",
        by_torch(_through(_mean)), _halves, f"{_names('avg_pool')} avgpool2d_bp avgpool3d_bp",
        options={**_OPTIONS, "ceil_mode": False, "count_include_pad": True, "channels_last": False},
        apart=("x",), **_ALL),
    row("adaptive_avg_pool_backward", "grad x", plans.adaptive_mean, "gradient of "
        "adaptive_avg_pool, by the shape of grad", by_torch(_through(_adaptive)), _halves,
        _names("adaptive_avg_pool"), options={"channels_last": False}, apart=("x",), **_ALL),
)  # fmt: skip
