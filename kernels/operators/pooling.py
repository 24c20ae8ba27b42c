"""Pooling: what windows over the last axes of (samples, channels, one to three axes) hold, to one
element; and im2col and col2im, which put windows side by side and back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import pooling as plans
from .row import row
from .rules import ALL, FLOATS, NUMBERS
from .windows import each, first_channels, last_channels, places, planes, sides, taken

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _flat_places(np: Any, shape: Any) -> Any:
    return np.broadcast_to(np.arange(int(np.prod(shape[2:]))).reshape(shape[2:]), shape)


def _largest(np: Any, parts: Any, numbers: Any) -> tuple[Any, Any]:
    """The largest of several arrays; and its number."""
    values, numbers = np.stack(parts), np.stack(numbers)
    which = _which(np, values, 0)
    return tuple(np.take_along_axis(a, which, 0)[0] for a in (values, numbers))


def _which(np: Any, values: Any, axis: int) -> Any:
    """The index of the largest element along an axis: of equals the first, of NaN the last, as
    torch has it. The axis stays."""
    lost = values != values
    last = values.shape[axis] - 1 - np.flip(lost, axis).argmax(axis, keepdims=True)
    return np.where(lost.any(axis, keepdims=True), last, values.argmax(axis, keepdims=True))


def _of(op: str, *, indexed: bool = False) -> Callable[..., Any]:
    def reference(
        x: Any, kernel: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, count_include_pad: bool = True, return_indices: bool = indexed,
        p: float = 2.0, channels_last: bool = False,
    ) -> Any:  # fmt: skip
        import numpy as np

        x = first_channels(np, x, channels_last)
        lengths, rank = x.shape[2:], x.ndim - 2
        kernel, dilation = each(kernel, rank), each(dilation, rank)
        stride = kernel if stride is None else each(stride, rank)
        reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
        added = sides(padding, lengths, reach, stride)
        counts, more = [], []
        for n, (b, a), r, s in zip(lengths, added, reach, stride, strict=True):
            free = n + b + a - r
            count = free // s + 1
            if ceil_mode and free % s and count * s < n + b:
                count += 1
            counts.append(count)
            more.append((b, a, max((count - 1) * s + r - n - b, a)))
        wide = [(0, 0), (0, 0), *((b, beyond) for b, _, beyond in more)]
        here = np.pad(np.ones(x.shape, bool), wide)
        within = np.pad(
            np.pad(np.ones(x.shape), [(0, 0), (0, 0), *((b, a) for b, a, _ in more)],
                   constant_values=1),
            [(0, 0), (0, 0), *((0, beyond - a) for _, a, beyond in more)],
        )  # fmt: skip

        def all_taps(array: Any) -> Any:
            return [part for _, part in taken(np, array, counts, kernel, stride, dilation)]

        if op == "max":
            least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
            found = _largest(
                np,
                all_taps(np.pad(x, wide, constant_values=least)),
                all_taps(np.pad(_flat_places(np, x.shape), wide)),
            )
            found = tuple(last_channels(np, one, channels_last) for one in found)
            return found if return_indices else found[0]
        if op == "power":
            made = sum(np.abs(part) ** p for part in all_taps(np.pad(x, wide))) ** (1 / p)
        else:
            weights = within if count_include_pad else here.astype(float)
            made = sum(all_taps(np.pad(x, wide))) / sum(all_taps(weights))
        return last_channels(np, made, channels_last)

    return reference


def _covering(op: str) -> Callable[..., Any]:
    def reference(
        x: Any, size: Any = 1, return_indices: bool = False, channels_last: bool = False
    ) -> Any:
        import numpy as np

        x = first_channels(np, x, channels_last)
        lengths, size = x.shape[2:], each(size, x.ndim - 2)
        made = np.zeros((*x.shape[:2], *size), x.dtype)
        index = np.zeros(made.shape, np.int64)
        for window in itertools.product(*map(range, size)):
            part = tuple(
                slice(o * n // s, -(-(o + 1) * n // s))
                for o, n, s in zip(window, lengths, size, strict=True)
            )
            held = x[(..., *part)]
            held = held.reshape(*x.shape[:2], int(np.prod(held.shape[2:])))
            number = _flat_places(np, x.shape)[(..., *part)].reshape(held.shape)
            if op == "mean":
                made[(..., *window)] = held.mean(-1)
                continue
            which = _which(np, held, -1)
            made[(..., *window)] = np.take_along_axis(held, which, -1)[..., 0]
            index[(..., *window)] = np.take_along_axis(number, which, -1)[..., 0]
        made, index = (last_channels(np, one, channels_last) for one in (made, index))
        return (made, index) if return_indices else made

    return reference


def _everything(op: str) -> Callable[..., Any]:
    def reference(x: Any, channels_last: bool = False) -> Any:
        axes = tuple(range(1, x.ndim - 1) if channels_last else range(2, x.ndim))
        return x.mean(axes, keepdims=True) if op == "mean" else x.max(axes, keepdims=True)

    return reference


def _window_options(
    lengths: Any, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> tuple[Any, ...]:
    rank = len(lengths)
    kernel, dilation, stride = each(kernel, rank), each(dilation, rank), each(stride, rank)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    added = sides(padding, lengths, reach, stride)
    counts = [
        (n + sum(own) - r) // s + 1
        for n, own, r, s in zip(lengths, added, reach, stride, strict=True)
    ]
    return kernel, stride, dilation, added, counts


def _im2col(x: Any, kernel: Any = 2, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> Any:
    import numpy as np

    kernel, stride, dilation, added, counts = _window_options(
        x.shape[2:], kernel, stride, padding, dilation
    )
    padded = np.pad(x, [(0, 0), (0, 0), *added])
    parts = [part for _, part in taken(np, padded, counts, kernel, stride, dilation)]
    taps, windows = len(parts), int(np.prod(counts))
    return np.stack(parts, 2).reshape(x.shape[0], x.shape[1] * taps, windows)


def _col2im(
    x: Any, size: Any = (2, 2), kernel: Any = 2, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1,
) -> Any:  # fmt: skip
    import numpy as np

    lengths = each(size, len(size) if isinstance(size, tuple | list) else 2)
    kernel, stride, dilation, added, counts = _window_options(
        lengths, kernel, stride, padding, dilation
    )
    taps = list(itertools.product(*map(range, kernel)))
    whole = [n + sum(own) for n, own in zip(lengths, added, strict=True)]
    channels = x.shape[1] // len(taps)
    made = np.zeros((x.shape[0], channels, *whole), x.dtype)
    parts = x.reshape(x.shape[0], channels, len(taps), *counts)
    for number, tap in enumerate(taps):
        made[(..., *places(np, counts, stride, dilation, tap))] += parts[:, :, number]
    return made[(..., *(slice(b, b + n) for (b, _), n in zip(added, lengths, strict=True)))]


def _shapes(rank: int) -> Callable[[_Shape], Sequence[_Shape]]:
    """Windows of two elements need as many."""
    whole = planes(rank)
    return lambda shape: [(*whole(shape)[:2], *(max(n, 2) for n in whole(shape)[2:]))]


def _columns(shape: _Shape) -> Sequence[_Shape]:
    """Of two channels and one window of 2 x 2."""
    return [(0 if 0 in shape else max(shape, default=1), 8, 1)]


_WINDOW: Any = {"kernel": 2, "stride": None, "padding": 0}
_LAST: Any = {"channels_last": False}
_MAX: Any = {**_WINDOW, "dilation": 1, "ceil_mode": False, "return_indices": False, **_LAST}
_MEAN: Any = {**_WINDOW, "ceil_mode": False, "count_include_pad": True, **_LAST}
_POWER: Any = {**_WINDOW, "ceil_mode": False, "p": 2.0, **_LAST}
_SLIDING: Any = {"kernel": 2, "stride": 1, "padding": 0, "dilation": 1}
_ALL: Any = {"category": "pooling", "dtypes": FLOATS}
_EXACT: Any = {"category": "pooling", "dtypes": NUMBERS}
_RANKS = (None, 1, 2, 3)


def _name(plain: str, rank: int | None) -> str:
    return f"{plain}{rank}d" if rank else plain


def _names(rank: int | None, plain: str) -> str:
    """Other names of the operator for a number of axes: `plain` with that number."""
    return f"{plain}{rank}d" if rank else ""


ROWS: tuple[KernelSpec, ...] = (
    *(
        row(_name("max_pool", rank), "x", plans.pool("max", rank), "the largest element of each "
            "window, of equals the first, of NaN the last; return_indices: and its place within "
            "the axes",
            _of("max"), _shapes(rank or 2), _names(rank, "maxpool"), options=_MAX, **_EXACT)
        for rank in _RANKS
    ),
    *(
        row(f"max_pool{rank}d_with_indices", "x", plans.pool("max", rank), "max_pool that "
            "gives the places within the axes too", _of("max", indexed=True), _shapes(rank), "",
            options={**_MAX, "return_indices": True}, **_EXACT)
        for rank in (1, 2, 3)
    ),
    *(
        row(_name("avg_pool", rank), "x", plans.pool("mean", rank), "the mean of each window; "
            "count_include_pad: of its padding too", _of("mean"), _shapes(rank or 2),
            _names(rank, "avgpool"), options=_MEAN, tolerance=(16, 16), **_ALL)
        for rank in _RANKS
    ),
    row("lp_pool", "x", plans.pool("power"), "(sum |x|^p)^(1/p) of each "
        "window, as ONNX' (torch takes x^p, and scales a window of ceil_mode that is not whole)",
        _of("power"), _shapes(2), "lp_pool1d lp_pool2d lp_pool3d", options=_POWER,
        tolerance=(16, 16), **_ALL),
    *(
        row(_name("adaptive_max_pool", rank), "x", plans.adaptive("max", rank), "max_pool by as "
            "many windows as size says, which cover the axes", _covering("max"),
            _shapes(rank or 2), options={"size": 1, "return_indices": False, **_LAST}, **_EXACT)
        for rank in _RANKS
    ),
    *(
        row(_name("adaptive_avg_pool", rank), "x", plans.adaptive("mean", rank), "avg_pool by as "
            "many windows as size says, which cover the axes", _covering("mean"),
            _shapes(rank or 2), options={"size": 1, **_LAST}, tolerance=(16, 16), **_ALL)
        for rank in _RANKS
    ),
    row("global_max_pool", "x", plans.everything("max"), "the largest element of each channel of "
        "each sample", _everything("max"), _shapes(2), "GlobalMaxPool", options=_LAST, **_EXACT),
    row("global_avg_pool", "x", plans.everything("mean"), "the mean of each channel of each sample",
        _everything("mean"), _shapes(2), "GlobalAveragePool", options=_LAST, tolerance=(16, 16),
        **_ALL),
    row("im2col", "x", plans.im2col, "(samples, channels * taps, windows): what each window holds, "
        "0 in the padding", _im2col, _shapes(2), "unfold col2im_bp", options=_SLIDING,
        category="pooling", dtypes=ALL),
    row("col2im", "x", plans.col2im, "im2col backwards, where windows that overlap are added",
        _col2im, _columns, "fold im2col_bp", options={"size": (2, 2), **_SLIDING},
        tolerance=(16, 16), **_ALL),
)  # fmt: skip
