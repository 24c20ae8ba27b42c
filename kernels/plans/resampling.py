"""From call to launches: resizing, grids of places, crops, and channels that become places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from xtarget import spec

from .elementwise import compute_dtype
from .movement import copy_launch, integers
from .options import one_of
from .pooling import five, flat
from .windows import each_axis, ordered, rank_of, three, turned

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["blocks", "crop_and_resize", "grid_sample", "resize", "shuffle"]

_Ints = tuple[int, ...]
_MODES = {
    "nearest": "nearest",
    "nearest-exact": "nearest",
    "linear": "linear",
    "bilinear": "linear",
    "trilinear": "linear",
    "cubic": "cubic",
    "bicubic": "cubic",
}
_FLOATS = ("float16", "bfloat16", "float32", "float64")


#: The largest denominator of a scale. As a fraction, a scale moves no place by more than rounding
#: it to float32 does.
_DENOMINATOR = 1 << 16


def _size(call: spec.Call, lengths: _Ints) -> tuple[_Ints, tuple[Fraction | None, ...]]:
    """The lengths that an array is resized to: the option `size`, or `scale` times as many. Where
    these are not whole numbers, also the scale itself: it says the places, not the lengths.
    """
    rank = len(lengths)
    if call.options["size"] is not None:
        return each_axis(call, "size", rank), (None,) * rank
    given = call.options["scale"]
    scales = tuple(given) if isinstance(given, tuple | list) else (given,)
    scales = scales * rank if len(scales) == 1 else scales
    numbers = [s for s in scales if not isinstance(s, bool) and isinstance(s, int | float)]
    if len(scales) != rank or len(numbers) != rank or not 0 < min(numbers) <= max(numbers) < 2**31:
        raise spec.ArgumentError(
            f"{call.kernel}: scale is {given!r} for {rank} axes; it has to be a number above 0, or "
            "one for each axis."
        )
    from fractions import Fraction  # costs more than the rest of this file

    size, exact = [], []
    for n, scale in zip(lengths, numbers, strict=True):
        whole = float(scale).is_integer()
        size.append(n * int(scale) if whole else math.floor(int(n) * scale))
        exact.append(
            None
            if whole or int(n) * scale == size[-1]
            else Fraction(scale).limit_denominator(_DENOMINATOR) or None
        )
    if min(size) < 1:
        raise spec.ArgumentError(
            f"{call.kernel}: {given!r} times the lengths {lengths} leaves nothing of an axis."
        )
    return tuple(size), tuple(exact)


def _scale(mode: str, aligned: bool, length: int, count: int, exact: Fraction | None) -> _Ints:
    """(a, b, d) of the place (o * a + b) / d of output `o` of `count` on an axis.

    Args:
        exact: the scale, where it is not `count / length`.
    """
    if aligned:
        return (length - 1, 0, count - 1) if count > 1 else (0, 0, 1)
    if exact is not None and (count != length or "linear" not in mode):
        # (linear: what is as long as before is a copy, as torch's)
        count, length = exact.numerator, exact.denominator
    if mode == "nearest":
        return length, 0, count
    if mode == "nearest-exact":
        return 2 * length, length, 2 * count
    return 2 * length, length - count, 2 * count


def resize(fixed: str | None = None) -> Callable[[spec.Call], spec.Plan]:
    """The plan of resizing the axes behind samples and channels.

    Args:
        fixed: the mode; None: the option `mode` says.
    """

    def plan(call: spec.Call) -> spec.Plan:
        x = ordered(call, call.array(0))
        rank = rank_of(call, x.ndim, None)
        name = fixed or one_of(call, "mode", tuple(_MODES))
        mode = _MODES[name]
        aligned = bool(call.options.get("align_corners"))
        if mode == "nearest" and aligned:
            raise spec.ArgumentError(
                f"{call.kernel}: align_corners has no meaning for mode {name!r}. Leave it out."
            )
        if mode != "nearest" and x.dtype not in _FLOATS:
            raise spec.ArgumentError(
                f"{call.kernel}: mode {name!r} does not take {x.dtype}; it takes "
                f"{', '.join(_FLOATS)}. Convert the argument first."
            )
        if mode == "cubic" and rank > 2:
            raise spec.ArgumentError(
                f"{call.kernel}: mode {name!r} takes one axis or two, not {rank}."
            )
        lengths = x.shape[2:]
        if 0 in lengths:
            raise spec.ArgumentError(
                f"{call.kernel}: x has shape {call.array(0).shape}; there is nothing to resize."
            )
        size, exact = _size(call, lengths)
        if mode == "cubic" and size == lengths:  # a copy, as torch's
            exact = (None,) * rank
        given = call.output(turned(call, (*x.shape[:2], *size)), x.dtype)
        if not given.size:
            return spec.Plan((given,), ())
        out = ordered(call, given)
        axes = list(zip(lengths, size, exact, strict=True))
        scales = [_scale(name, aligned, *axis) for axis in axes]
        wide = any(
            2 * (n if own is None else max(n, own.denominator)) * (o + 1) >= 2**31
            for n, o, own in axes
        )
        scales = [(1, 0, 1)] * (3 - rank) + scales
        launch = flat(
            call,
            "resampling:resize",
            out.size,
            {"x": spec.Input(0), "out": spec.Output()},
            {
                "channels": x.shape[1],
                "out_shape": three(size, 1),
                "in_shape": three(lengths, 1),
                **{f"scale{number}": scale for number, scale in enumerate(scales)},
                "sx": five(x),
                "so": five(out),
            },
            {
                "MODE": mode,
                "RANK": rank,
                "WIDE": wide,
                "T": spec.dtype_constant(compute_dtype(x.dtype)),
            },
        )
        return spec.Plan((given,), (launch,))

    return plan


def grid_sample(call: spec.Call) -> spec.Plan:
    """The plan of grid_sample, as torch's."""
    x, grid = call.array(0), call.array(1)
    rank = x.ndim - 2
    if rank not in (2, 3) or grid.ndim != x.ndim or grid.shape[-1] != rank:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape} and grid {grid.shape}; x needs two or three "
            "axes behind samples and channels, and grid as many dimensions, of which the last has "
            "a number for each of these axes."
        )
    if grid.shape[0] != x.shape[0] or grid.dtype != x.dtype:
        raise spec.ArgumentError(
            f"{call.kernel}: x has {x.shape[0]} samples of {x.dtype}, and grid {grid.shape[0]} of "
            f"{grid.dtype}; they need the same."
        )
    mode = _MODES[one_of(call, "mode", ("bilinear", "nearest", "bicubic", "linear", "cubic"))]
    if mode == "cubic" and rank != 2:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape}; mode {call.options['mode']!r} takes two axes "
            "behind samples and channels. 'bilinear' takes three."
        )
    padding = one_of(call, "padding_mode", ("zeros", "border", "reflection"))
    out = call.output((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    if 0 in x.shape:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape}; there is nothing to sample."
        )
    launch = flat(
        call,
        "resampling:grid_sample",
        out.size,
        {"x": spec.Input(0), "grid": spec.Input(1), "out": spec.Output()},
        {
            "channels": x.shape[1],
            "out_shape": three(out.shape[2:], 1),
            "in_shape": three(x.shape[2:], 1),
            "sx": five(x),
            "sg": (grid.strides[0], *three(grid.strides[1:-1], 0), grid.strides[-1]),
            "so": five(out),
        },
        {
            "MODE": mode,
            "PADDING": padding,
            "ALIGNED": bool(call.options["align_corners"]),
            "RANK": rank,
            "T": spec.dtype_constant(compute_dtype(x.dtype)),
        },
    )
    return spec.Plan((out,), (launch,))


def crop_and_resize(call: spec.Call) -> spec.Plan:
    """The plan of crop_and_resize, as TensorFlow's."""
    given, boxes, index = call.array(0), call.array(1), call.array(2)
    x = ordered(call, given)
    rank_of(call, x.ndim, 2)
    count = boxes.shape[0] if boxes.ndim else 0
    if boxes.ndim != 2 or boxes.shape[1] != 4 or index.shape != (count,):
        raise spec.ArgumentError(
            f"{call.kernel}: boxes has shape {boxes.shape} and index {index.shape}; they have to "
            "be (boxes, 4) and (boxes,)."
        )
    indexed = index.dtype.startswith(("int", "uint"))
    if x.dtype not in _FLOATS or boxes.dtype != x.dtype or not indexed:
        raise spec.ArgumentError(
            f"{call.kernel}: x is {x.dtype}, boxes {boxes.dtype} and index {index.dtype}; x has to "
            "be floating, boxes of the same dtype, and index of integers."
        )
    size = integers(call, "size", count=2)
    if min(size) < 1 or 0 in x.shape[2:]:
        raise spec.ArgumentError(
            f"{call.kernel}: size is {size} and x has shape {given.shape}; no length may be 0."
        )
    mode = one_of(call, "method", ("bilinear", "nearest"))
    outside = call.options["extrapolation_value"]
    if isinstance(outside, bool) or not isinstance(outside, int | float):
        raise spec.ArgumentError(
            f"{call.kernel}: extrapolation_value is {outside!r}; it has to be a number."
        )
    result = call.output(turned(call, (count, x.shape[1], *size)), x.dtype)
    if not result.size:
        return spec.Plan((result,), ())
    computed = compute_dtype(x.dtype)
    value: dict[str, spec.Argument] = {"outside": spec.Scalar(float(outside), computed)}
    launch = flat(
        call,
        "resampling:crop",
        result.size,
        {"x": spec.Input(0), "boxes": spec.Input(1), "index": spec.Input(2), "out": spec.Output()},
        {
            **value,
            "samples": x.shape[0],
            "channels": x.shape[1],
            "out_shape": three(size, 1),
            "in_shape": three(x.shape[2:], 1),
            "sx": five(x),
            "sb": boxes.strides,
            "si": index.strides[0],
            "so": five(ordered(call, result)),
        },
        {"NEAREST": mode == "nearest", "T": spec.dtype_constant(computed)},
    )
    return spec.Plan((result,), (launch,))


# ------------------------------------------------------------------------- channels and places


def _positive(call: spec.Call, name: str) -> int:
    (value,) = integers(call, name, count=1)
    if value < 1:
        raise spec.ArgumentError(f"{call.kernel}: {name} is {value}; it may not be below 1.")
    return value


def _outer(call: spec.Call, small: spec.ArrayType, b: int, mode: str) -> tuple[_Ints, _Ints]:
    """Lengths and strides of an array of b * b times as many channels, in the order of the index
    space (samples, channels, rows, columns, rows of a block, columns of a block).
    """
    samples, channels, rows, columns = small.shape
    sn, sc, sr, sk = small.strides
    less = channels // (b * b)
    inner = (b * sc, sc) if mode == "CRD" else (b * less * sc, less * sc)
    own = b * b * sc if mode == "CRD" else sc
    return (samples, less, rows, columns, b, b), (sn, own, sr, sk, *inner)


def blocks(option: str, *, out: bool, fixed: str = "") -> Callable[[spec.Call], spec.Plan]:
    """The plan of depth_to_space (`out`) and of space_to_depth.

    Args:
        option: the one that says how long a block is.
        fixed: the order of the channels, DCR or CRD; else the option `mode` says.
    """

    def plan(call: spec.Call) -> spec.Plan:
        x = ordered(call, call.array(0))
        rank_of(call, x.ndim, 2)
        b = _positive(call, option)
        mode = fixed or one_of(call, "mode", ("DCR", "CRD"))
        samples, channels, rows, columns = x.shape
        if out:
            shape = (samples, channels // (b * b), rows * b, columns * b)
            fits = channels % (b * b) == 0
        else:
            shape = (samples, channels * b * b, rows // b, columns // b)
            fits = rows % b == 0 and columns % b == 0
        if not fits:
            what = f"{b * b} do not divide {channels} channels"
            if not out:
                what = f"{b} does not divide {rows} and {columns} places"
            raise spec.ArgumentError(f"{call.kernel}: x has shape {call.array(0).shape}: {what}.")
        given = call.output(turned(call, shape), x.dtype)
        own = ordered(call, given)
        deep, wide = (x, own) if out else (own, x)
        space, deep_strides = _outer(call, deep, b, mode)
        sn, sc, sr, sk = wide.strides
        wide_strides = (sn, sc, b * sr, b * sk, sr, sk)
        sx, so = (deep_strides, wide_strides) if out else (wide_strides, deep_strides)
        return spec.Plan((given,), copy_launch(call, spec.Input(0), space, sx, so))

    return plan


def shuffle(call: spec.Call) -> spec.Plan:
    """The plan of channel_shuffle: (groups, channels of one) to (channels of one, groups)."""
    x = ordered(call, call.array(0))
    rank_of(call, x.ndim, None)
    groups = _positive(call, "groups")
    channels = x.shape[1]
    if channels % groups:
        raise spec.ArgumentError(
            f"{call.kernel}: x has {channels} channels, which {groups} groups do not divide."
        )
    given = call.output(call.array(0).shape, x.dtype)
    out = ordered(call, given)
    of_one = channels // groups
    space = (x.shape[0], of_one, groups, *x.shape[2:])
    sx = (x.strides[0], x.strides[1], of_one * x.strides[1], *x.strides[2:])
    so = (out.strides[0], groups * out.strides[1], out.strides[1], *out.strides[2:])
    return spec.Plan((given,), copy_launch(call, spec.Input(0), space, sx, so))
