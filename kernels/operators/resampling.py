"""Resizing, grids of places, crops, and channels that become places: of (samples, channels, one to
three axes).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import resampling as plans
from .row import row
from .rules import ALL, FLOATS, INTEGERS
from .windows import each, first_channels, last_channels, planes

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _cubic(np: Any, away: Any) -> Any:
    """The weight of an element so far away."""
    near = ((1.25 * away) - 2.25) * away**2 + 1
    far = ((-0.75 * away + 3.75) * away - 6) * away + 3
    return np.where(away <= 1, near, np.where(away < 2, far, 0))


def _taps(np: Any, n: int, count: int, scale: float, mode: str, aligned: bool) -> Any:
    """Elements that `count` outputs are made of, one of each at a time, and their weights."""
    o = np.arange(count)
    if "linear" in mode and n == count:  # as torch's: no neighbour is read
        yield from ((o, np.ones(n)), (o, np.zeros(n)))
        return
    at = (o + 0.5) / scale - 0.5
    if aligned:
        at = o * (n - 1) / max(count - 1, 1)
    linear = "linear" in mode
    at = np.maximum(at, 0) if linear else at
    first = np.floor(at).astype(int)
    for k in (0, 1) if linear else (-1, 0, 1, 2):
        away = np.abs(at - (first + k))
        weight = 1 - away if linear else _cubic(np, away)
        yield np.clip(first + k, 0, n - 1), weight


def _resize(fixed: str | None = None) -> Callable[..., Any]:
    def reference(
        x: Any, size: Any = None, scale: Any = 2, mode: str = "nearest",
        align_corners: bool = False, channels_last: bool = False,
    ) -> Any:  # fmt: skip
        import math
        from fractions import Fraction

        import numpy as np

        x = first_channels(np, x, channels_last)
        rank = x.ndim - 2
        lengths = x.shape[2:]
        if size is None:  # places follow from what is given, not from the lengths it leads to
            scales = [Fraction(s).limit_denominator(1 << 16) for s in each(scale, rank)]
            size = [math.floor(n * s) for n, s in zip(lengths, each(scale, rank), strict=True)]
        else:
            size = each(size, rank)
            scales = [Fraction(o, n) for n, o in zip(lengths, size, strict=True)]
        if "cubic" in (fixed or mode) and tuple(size) == lengths:  # a copy, as torch's
            scales = [Fraction(1)] * rank
        made = x
        for axis, (count, times) in enumerate(zip(size, scales, strict=True), 2):
            n, own = x.shape[axis], fixed or mode
            if own.startswith("nearest"):
                half = Fraction(int(own != "nearest"), 2)
                places = [min(math.floor((o + half) / times), n - 1) for o in range(count)]
                made = np.take(made, np.array(places, int), axis)
                continue
            form = (-1, *(1,) * (made.ndim - 1 - axis))
            made = sum(
                np.take(made, elements, axis) * weights.reshape(form)
                for elements, weights in _taps(np, n, count, float(times), own, align_corners)
            )
        return last_channels(np, made, channels_last)

    return reference


def _on_axis(np: Any, place: Any, n: int, padding: str, aligned: bool) -> Any:
    at = (place + 1) / 2 * (n - 1) if aligned else ((place + 1) * n - 1) / 2
    if padding == "reflection":
        low, span = (0.0, n - 1.0) if aligned else (-0.5, float(n))
        away = np.abs(at - low)
        turns = np.floor(away / max(span, 1e-300))
        rest = away - turns * span
        at = np.where(turns % 2 == 1, span - rest, rest) + low if span else at * 0
    if padding != "zeros":
        at = np.clip(at, 0, n - 1)
    return at


def _moved(np: Any, own: Any, n: int, padding: str, aligned: bool) -> Any:
    if padding == "border":
        return np.where(own > 0, np.minimum(own, n - 1), 0)
    if padding == "reflection":
        period = max(2 * n - 2, 1) if aligned else 2 * n
        rest = own % period
        back = period - rest if aligned else period - 1 - rest
        return np.where(rest > n - 1, np.minimum(back, n - 1), rest)
    return own


def _grid_sample(
    x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Any:  # fmt: skip
    import numpy as np

    rank = x.ndim - 2
    taps = {"nearest": (0,), "bicubic": (-1, 0, 1, 2), "cubic": (-1, 0, 1, 2)}.get(mode, (0, 1))
    cubic = len(taps) == 4
    if mode != "nearest" and grid.dtype == np.float64:  # so that a long axis costs no digits
        grid = grid.astype(np.longdouble)
    at = [
        _on_axis(
            np, grid[..., rank - 1 - axis], n, "zeros" if cubic else padding_mode, align_corners
        )
        for axis, n in enumerate(x.shape[2:])
    ]
    made = np.zeros((x.shape[0], *grid.shape[1:-1], x.shape[1]))
    samples = np.arange(x.shape[0]).reshape(-1, *(1,) * (grid.ndim - 2))
    for corner in itertools.product(*[taps] * rank):
        weight, inside, index = np.ones(at[0].shape), np.ones(at[0].shape, bool), []
        for k, own, n in zip(corner, at, x.shape[2:], strict=True):
            first = np.rint(own) if mode == "nearest" else np.floor(own)
            if cubic:  # its elements are moved inside, not the place
                weight = weight * (_cubic(np, np.abs(own - first - k)) + (own - own))  # or nan
                first = _moved(np, first + k, n, padding_mode, align_corners) - k
            elif mode != "nearest":
                weight = weight * (own - first if k else 1 - own + first)
            inside &= (first + k >= 0) & (first + k < n)
            index.append(np.where(inside, first + k, 0).astype(int))
        values = np.moveaxis(x, 1, -1)[(samples, *index)]
        if cubic:  # what is no number weighs nothing that is
            weight, inside = np.where(inside, weight, weight * 0), inside | np.isnan(weight)
        made += np.where(inside[..., None], weight[..., None] * values, 0)
    return np.moveaxis(made, -1, 1)


def _crop(
    x: Any, boxes: Any, index: Any, size: Any = (2, 2), method: str = "bilinear",
    extrapolation_value: float = 0.0, channels_last: bool = True,
) -> Any:  # fmt: skip
    import numpy as np

    x = first_channels(np, x, channels_last)
    made = np.full((len(boxes), x.shape[1], *size), float(extrapolation_value))
    for number, (box, image) in enumerate(zip(boxes, index, strict=True)):
        if not 0 <= image < x.shape[0]:
            continue
        axes = []
        for low, high, n, count in zip(box[:2], box[2:], x.shape[2:], size, strict=True):
            top = n - 1
            step = (high - low) * top / max(count - 1, 1)
            one = [0.5 * (low + high) * top]
            axes.append([low * top + o * step for o in range(count)] if count > 1 else one)
        for o1, o2 in itertools.product(*map(range, size)):
            place = (axes[0][o1], axes[1][o2])
            if all(0 <= at <= n - 1 for at, n in zip(place, x.shape[2:], strict=True)):
                made[number, :, o1, o2] = _value(np, x[image], place, method)
    return last_channels(np, made, channels_last)


def _value(np: Any, image: Any, place: Any, method: str) -> Any:
    if method == "nearest":
        first, second = (int(np.floor(at + 0.5)) for at in place)
        return image[:, min(first, image.shape[1] - 1), min(second, image.shape[2] - 1)]
    total = 0
    for corner in itertools.product((0, 1), (0, 1)):
        weight, index = 1.0, []
        for k, at, n in zip(corner, place, image.shape[1:], strict=True):
            first = int(np.floor(at))
            weight *= at - first if k else 1 - (at - first)
            index.append(min(first + k, n - 1))
        total = total + weight * image[(slice(None), *index)]
    return total


def _to_space(x: Any, block_size: int = 2, mode: str = "DCR", channels_last: bool = False) -> Any:
    import numpy as np

    x = first_channels(np, x, channels_last)
    b, (n, c, h, w) = block_size, x.shape
    less = c // (b * b)
    if mode == "DCR":
        made = x.reshape(n, b, b, less, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        made = x.reshape(n, less, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return last_channels(np, made.reshape(n, less, h * b, w * b), channels_last)


def _to_depth(x: Any, block_size: int = 2, mode: str = "DCR", channels_last: bool = False) -> Any:
    import numpy as np

    x = first_channels(np, x, channels_last)
    b, (n, c, h, w) = block_size, x.shape
    made = x.reshape(n, c, h // b, b, w // b, b)
    made = made.transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return last_channels(np, made.reshape(n, c * b * b, h // b, w // b), channels_last)


def _shuffle(x: Any, groups: int = 1, channels_last: bool = False) -> Any:
    import numpy as np

    x = first_channels(np, x, channels_last)
    made = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]).swapaxes(1, 2)
    return last_channels(np, made.reshape(x.shape), channels_last)


def _planes(rank: int, channels: int = 2, *, even: bool = False) -> Callable[..., Any]:
    """Examples of one array; even: its axes have an even length."""
    whole = planes(rank, channels)
    times = 2 if even else 1
    return lambda shape: [(*whole(shape)[:2], *(times * n for n in whole(shape)[2:]))]


def _sampled(shape: _Shape) -> Sequence[_Shape]:
    x = planes(2)(shape)
    return [x, (x[0], 3, 4, 2)]


def _cropped(shape: _Shape) -> Sequence[_Shape]:
    n, c, h, w = planes(2)(shape)
    return [(n, h, w, c), (3, 4), (3,)]


_SIZE: Any = {"size": None, "scale": 2}
_LAST: Any = {"channels_last": False}
_CORNERS: Any = {**_SIZE, "align_corners": False, **_LAST}
_ALL: Any = {"category": "image", "dtypes": ALL}
_FLOATS: Any = {"category": "image", "dtypes": FLOATS, "tolerance": (64, 64)}

ROWS: tuple[KernelSpec, ...] = (
    row("interpolate", "x", plans.resize(), "the axes resized to size, or to scale times as many: "
        "nearest, nearest-exact, linear or cubic", _resize(), _planes(2),
        "Upsample upsample resize",
        options={**_SIZE, "mode": "nearest", "align_corners": False, **_LAST}, category="image",
        dtypes=ALL, tolerance=(64, 64)),
    row("resize_nearest", "x", plans.resize("nearest"), "the axes resized: element o * length // "
        "size", _resize("nearest"), _planes(2), "resize_nearest_neighbor upsample_nearest "
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d",
        options={**_SIZE, **_LAST}, **_ALL),
    row("resize_bilinear", "x", plans.resize("linear"), "the axes resized: between two elements of "
        "each axis", _resize("linear"), _planes(2), "upsample_bilinear upsample_linear1d "
        "upsample_bilinear2d upsample_trilinear3d", options=_CORNERS, **_FLOATS),
    row("resize_bicubic", "x", plans.resize("cubic"), "the axes resized: between four elements of "
        "each axis, by Keys' cubic with a = -0.75", _resize("cubic"), _planes(2),
        "upsample_bicubic2d", options=_CORNERS, **_FLOATS),
    row("grid_sample", "x grid", plans.grid_sample, "x at the places that grid says, from -1 to 1 "
        "along each axis, the last axis first; mode nearest, bilinear or bicubic",
        _grid_sample, _sampled, "GridSample grid_sampler grid_sampler_2d grid_sampler_3d",
        options={"mode": "bilinear", "padding_mode": "zeros", "align_corners": False}, **_FLOATS),
    row("crop_and_resize", "x boxes index", plans.crop_and_resize, "boxes (y1, x1, y2, x2) of "
        "images, from 0 to 1, resized to size", _crop, _cropped,
        options={"size": (2, 2), "method": "bilinear", "extrapolation_value": 0.0,
                 "channels_last": True}, apart=("index",), category="image", tolerance=(64, 64),
        dtypes=INTEGERS + FLOATS),
    row("depth_to_space", "x", plans.blocks("block_size", out=True), "channels to blocks of places",
        _to_space, _planes(2, 8), options={"block_size": 2, "mode": "DCR", **_LAST}, **_ALL),
    row("space_to_depth", "x", plans.blocks("block_size", out=False), "blocks of places to "
        "channels", _to_depth, _planes(2, even=True),
        options={"block_size": 2, "mode": "DCR", **_LAST}, **_ALL),
    row("pixel_shuffle", "x", plans.blocks("upscale_factor", out=True, fixed="CRD"), "channels to "
        "blocks of places: those of one block are neighbours",
        lambda x, upscale_factor=2: _to_space(x, upscale_factor, "CRD"), _planes(2, 8),
        options={"upscale_factor": 2}, **_ALL),
    row("pixel_unshuffle", "x", plans.blocks("downscale_factor", out=False, fixed="CRD"), "blocks "
        "of places to channels: those of one block are neighbours",
        lambda x, downscale_factor=2: _to_depth(x, downscale_factor, "CRD"),
        _planes(2, even=True), options={"downscale_factor": 2}, **_ALL),
    row("channel_shuffle", "x", plans.shuffle, "the channels of each group, one of each in turn",
        _shuffle, _planes(2), options={"groups": 1, **_LAST}, **_ALL),
)  # fmt: skip
