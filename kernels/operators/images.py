"""Colours of images: red, green and blue (or hue, saturation and value) along `axis`, 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import images as plans
from .row import row
from .rules import FLOATS

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _to_hsv(x: Any, axis: int = -1) -> Any:
    import numpy as np

    r, g, b = np.moveaxis(x, axis, 0)
    value, apart = x.max(axis), x.max(axis) - x.min(axis)
    with np.errstate(all="ignore"):
        saturation = np.where(value <= 0, 0, apart / value)
        hues = [((g - b) / apart) % 6, (b - r) / apart + 2, (r - g) / apart + 4]
    hue = np.select([apart <= 0, r == value, g == value], [0 * r, hues[0], hues[1]], hues[2]) / 6
    return np.stack([hue, saturation, value], axis)


def _to_rgb(x: Any, axis: int = -1) -> Any:
    import numpy as np

    hue, saturation, value = np.moveaxis(x, axis, 0)
    parts = [abs(hue * 6 - 3) - 1, 2 - abs(hue * 6 - 2), 2 - abs(hue * 6 - 4)]
    made = [(1 - saturation + saturation * np.clip(part, 0, 1)) * value for part in parts]
    return np.stack(made, axis)


def _grey(x: Any, axis: int = -1) -> Any:
    import numpy as np

    return np.expand_dims(np.tensordot([0.2989, 0.587, 0.114], np.moveaxis(x, axis, 0), 1), axis)


def _hue(x: Any, delta: float = 0.0, axis: int = -1) -> Any:
    import numpy as np

    hue, saturation, value = np.moveaxis(_to_hsv(x, axis), axis, 0)
    return _to_rgb(np.stack([(hue + delta) % 1, saturation, value], axis), axis)


def _saturation(x: Any, factor: float = 1.0, axis: int = -1) -> Any:
    import numpy as np

    hue, saturation, value = np.moveaxis(_to_hsv(x, axis), axis, 0)
    return _to_rgb(np.stack([hue, np.clip(saturation * factor, 0, 1), value], axis), axis)


def _contrast(x: Any, factor: float = 1.0, channels_last: bool = True) -> Any:
    mean = x.mean((-3, -2) if channels_last else (-2, -1), keepdims=True)
    return (x - mean) * factor + mean


def _coloured(shape: _Shape) -> Sequence[_Shape]:
    return [(*shape[:-1], 3)]


def _pictures(shape: _Shape) -> Sequence[_Shape]:
    return [(*shape, *(3,) * (3 - len(shape)))]


_AXIS: Any = {"axis": -1}
_ALL: Any = {"category": "image", "dtypes": FLOATS, "tolerance": (64, 64)}

ROWS: tuple[KernelSpec, ...] = (
    row("rgb_to_hsv", "x", plans.colours("to_hsv"), "hue, saturation and value of red, green and "
        "blue", _to_hsv, _coloured, options=_AXIS, **_ALL),
    row("hsv_to_rgb", "x", plans.colours("to_rgb"), "red, green and blue of hue, saturation and "
        "value", _to_rgb, _coloured, options=_AXIS, **_ALL),
    row("rgb_to_grayscale", "x", plans.colours("grey"), "0.2989 red + 0.587 green + 0.114 blue",
        _grey, _coloured, "rgb_to_grs rgb_to_grey", options=_AXIS, **_ALL),
    row("adjust_hue", "x", plans.colours("hue", "delta"), "colours with delta added to their hue",
        _hue, _coloured, options={"delta": 0.0, **_AXIS}, **_ALL),
    row("adjust_saturation", "x", plans.colours("saturation", "factor"), "colours with their "
        "saturation times factor, from 0 to 1", _saturation, _coloured,
        options={"factor": 1.0, **_AXIS}, **_ALL),
    row("adjust_contrast", "x", plans.contrast, "(x - mean) * factor + mean, by the mean of each "
        "channel of each image", _contrast, _pictures, "adjust_contrast_v2",
        options={"factor": 1.0, "channels_last": True}, **_ALL),
)  # fmt: skip
