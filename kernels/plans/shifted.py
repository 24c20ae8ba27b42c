"""Convolutions on devices without matrix units: a copy of `x` with its padding, in which windows
are one apart, and sums of outer products of that (`kernels/shifted.py`).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from xtarget import spec

from . import tuned, tuning, tuning_windows
from .elementwise import compute_dtype
from .movement import copy_launch
from .phases import apart
from .problems import Operands, Problem

__all__ = ["shifted"]

_Ints = tuple[int, ...]
#: Rows of a channel that a block copies.
_ROWS: Final = 32
#: Most taps of a line that are code without a loop; and the one window that is.
_LINE, _WINDOW = 8, (1, 3, 3)
#: Positions that are worth laying weights out anew.
_MANY: Final = 2048
#: Blocks from which on one makes several tiles.
_BLOCKS = 256
#: Lengths by which a tile's positions are divided as `_divided` does.
_DIVIDED: Final = 1 << 21
#: Products that are added one after the other.
_IN_TURN: Final = 256


class _Copy(NamedTuple):
    """How `x` is laid out for windows that are one apart.

    Attributes:
        split: parts of each axis; `lengths`: of each part.
        start: element q of part r is number q * along + r + start of `x`.
        dilation: from tap to tap, in elements of `x`, or in parts where there is one.
    """

    split: _Ints
    lengths: _Ints
    start: _Ints
    dilation: _Ints

    @property
    def steps(self) -> _Ints:
        """Strides of a sample's channels, of parts along three axes, and of the first two axes."""
        l0, l1, l2 = self.lengths
        size = l0 * l1 * l2
        _, s1, s2 = self.split
        return (math.prod(self.split) * size, s1 * s2 * size, s2 * size, size, l1 * l2, l2)


def _copy_of(p: Problem) -> _Copy:
    split, lengths, start, dilation = [], [], [], []
    for axis in range(3):
        s, d, taps = p.along[axis], p.dilation[axis], p.kernel[axis]
        together = d % s == 0 or taps <= 1
        far = (taps - 1) * d // s if taps > 1 else 0
        low, high = min(far, 0), max(far, 0)
        split.append(1 if together else s)
        dilation.append(d // s if together else d)
        lengths.append(p.out_shape[axis] + high - low)
        start.append(low * s - p.before[axis])
    return _Copy(tuple(split), tuple(lengths), tuple(start), tuple(dilation))


def shifted(call: spec.Call, problem: Problem, arrays: Operands) -> list[spec.Launch]:
    """The launches."""
    launches: list[spec.Launch] = []
    for one in apart(problem):
        tile = _tile(call, one, compute_dtype(arrays.dtype))
        more, weight = _weights(call, one, arrays, tile)
        launches += more
        launches += _one(call, one, arrays._replace(weight=weight), tile)
    return launches


def _weights(
    call: spec.Call, p: Problem, arrays: Operands, tile: tuning_windows.Shifted
) -> tuple[list[spec.Launch], spec.Input | spec.Temporary]:
    """The weights in the type that they are multiplied in: those of a tile's rows side by side,
    where that is worth it, else in C order.
    """
    total = compute_dtype(arrays.dtype)
    if together := _together(p, tile):
        tiles, taps = p.rows // together, math.prod(p.kernel)
        size = p.channels * taps * together
        shape = (p.groups, tiles, together, p.channels, *p.kernel)
        sw = (p.sw[0], together * p.sw[1], *p.sw[1:])
        inner = (together * step for step in spec.contiguous_strides((p.channels, *p.kernel)))
        out = (tiles * size, size, 1, *inner)
        copy = spec.Temporary(len(arrays.temporaries))
        whole = (p.groups * tiles * size,)
        arrays.temporaries.append(spec.ArrayType(total, whole, (1,)))
        made = copy_launch(call, arrays.weight, shape, sw, out, out=copy, from_x=p.from_weight)
        return list(made), copy
    shape = (p.groups, p.rows, p.channels, *p.kernel)
    steps = spec.contiguous_strides(shape)
    lie = all(n == 1 or own == step for n, own, step in zip(shape, p.sw, steps, strict=True))
    if lie and arrays.dtype == total and p.from_weight == 0:
        return [], arrays.weight
    copy = spec.Temporary(len(arrays.temporaries))
    arrays.temporaries.append(spec.ArrayType(total, shape, steps))
    made = copy_launch(call, arrays.weight, shape, p.sw, steps, out=copy, from_x=p.from_weight)
    return list(made), copy


def _together(p: Problem, tile: tuning_windows.Shifted) -> int:
    """Rows of a tile whose weights lie side by side; 0: they lie as they are."""
    rows = tile.channels
    positions = p.samples * math.prod(p.out_shape)
    return rows if p.rows >= 8 and p.rows % rows == 0 and positions >= _MANY else 0


def _tile(call: spec.Call, p: Problem, total: str) -> tuning_windows.Shifted:
    default = tuning_windows.shifted(
        total, p.rows, p.out_shape[2], _copy_of(p).lengths[2],
        few_registers=tuning.has_few_registers(call),
    )  # fmt: skip
    sizes = {
        "channels": p.channels,
        "rows": p.rows,
        "taps": math.prod(p.kernel),
        "line": p.out_shape[2],
        "positions": p.samples * p.groups * math.prod(p.out_shape),
    }
    return tuned.shifted(call, default, sizes, total)


def _one(
    call: spec.Call, p: Problem, arrays: Operands, tile: tuning_windows.Shifted
) -> list[spec.Launch]:
    dtype, total = arrays.dtype, compute_dtype(arrays.dtype)
    copy = _copy_of(p)
    channels, width = tile.channels, tile.positions
    in_rows = spec.cdiv(p.out_shape[2], width)
    _, l1, l2 = copy.lengths
    o0, o1, o2 = p.out_shape
    # positions go on from row to row of the copy, up to the last one of the result
    flat = spec.cdiv(((o0 - 1) * l1 + o1 - 1) * l2 + o2, width)
    is_flat = 8 * flat < 7 * in_rows * o0 * o1 and max(l1, l2) < _DIVIDED
    channel, *parts, s0, s1 = copy.steps
    sx: _Ints
    direct = dtype == total and not is_flat and _lies_ready(p)
    launches = []
    x: spec.Argument
    if direct:
        x = arrays.x
        sx = (p.sx[0], p.sx[1], *(s * a for s, a in zip(p.sx[2:4], p.along, strict=False)))
        from_x = 0
    else:
        count = p.samples * p.groups * p.channels
        x = spec.Temporary(len(arrays.temporaries))
        # a tile reads on behind the last row
        layout = (count * channel + width,)
        arrays.temporaries.append(spec.ArrayType(total, layout, (1,)))
        launches.append(_padding(p, copy, arrays.x, x, tile.line))
        sx = (p.groups * p.channels * channel, channel, s0, s1)
        # where a window begins: taps may be in front of it
        back = [
            min(0, (k - 1) * d if k > 1 else 0)
            for k, d in zip(p.kernel, copy.dilation, strict=True)
        ]
        from_x = -(back[0] * s0 + back[1] * s1 + back[2])
    lines, columns = math.prod(p.kernel[:2]), p.kernel[2]
    row_tiles = spec.cdiv(p.rows, channels) * p.groups
    tiles = flat if is_flat else in_rows
    places = flat if is_flat else in_rows * o0 * o1
    blocks = row_tiles * places * p.samples
    steps = max(1, min(tile.steps, places, blocks // _BLOCKS))
    chunk = max(1, _IN_TURN // max(1, lines * columns))
    args: dict[str, spec.Argument] = {
        **arrays.given(),
        "x": x,
        "samples": p.samples,
        "groups": p.groups,
        "rows": p.rows,
        "channels": p.channels,
        "chunk": chunk,
        "tiles": tiles,
        "steps": steps,
        "out_shape": p.out_shape,
        "lengths": copy.lengths,
        "kernel": p.kernel,
        "dilation": copy.dilation,
        "split": copy.split,
        "from_x": from_x,
        "from_out": p.from_out,
        "sx": sx,
        "parts": tuple(parts),
        "so": p.so[:4],
    }
    constants = {
        **arrays.absent(),
        "T": spec.dtype_constant(total),
        "FLAT": is_flat,
        "MASKED": direct,
        "SPLIT": max(copy.split) > 1,
        "LINES": lines if p.kernel == _WINDOW else 0,
        "COLUMNS": columns if columns <= _LINE else 0,
        "TOGETHER": _together(p, tile) > 0,
        "ONCE": p.channels <= chunk,
        "BLOCK_C": channels,
        "BLOCK_P": width,
    }
    for name, value in (("column", p.so[4]), ("near", copy.dilation[2])):
        if value == 1:
            constants[name] = 1
        else:
            args[name] = value
    launches.append(
        spec.Launch(
            "shifted:shifted",
            args,
            constants,
            (row_tiles * spec.cdiv(places, steps) * p.samples, 1, 1),
            num_warps=1,
            loose=tuple(name for name in args if name not in arrays.given()),
        )
    )
    return launches


def _lies_ready(p: Problem) -> bool:
    """Whether windows of `x` itself are one apart along its rows, and none reaches outside."""
    if p.sx[4] != 1 or p.along[2] != 1:
        return False
    for axis in range(3):
        s, d, taps = p.along[axis], p.dilation[axis], p.kernel[axis]
        if p.before[axis] != 0 or d < 0 or taps < 1 or (d % s != 0 and taps > 1):
            return False
        if (p.out_shape[axis] - 1) * s + (taps - 1) * d >= p.in_shape[axis]:
            return False
    return True


def _padding(
    p: Problem, copy: _Copy, x: spec.Argument, out: spec.Temporary, line: int
) -> spec.Launch:
    rows = copy.lengths[0] * copy.lengths[1]
    step = p.along[2] * p.sx[4]
    strides = {"step": step, "row_step": p.sx[4]}
    args: dict[str, spec.Argument] = {
        "x": x,
        "out": out,
        "rows": rows,
        "channels": p.groups * p.channels,
        "lengths": copy.lengths,
        "in_shape": p.in_shape,
        "split": copy.split,
        "along": p.along,
        "start": copy.start,
        "sx": p.sx[:4],
        **{name: value for name, value in strides.items() if value != 1},
    }
    blocks = p.samples * p.groups * p.channels * math.prod(copy.split)
    return spec.Launch(
        "shifted:padded",
        args,
        {
            **{name: 1 for name, value in strides.items() if value == 1},
            "ROWS": _ROWS,
            "BLOCK": line,
        },
        (blocks, spec.cdiv(rows, _ROWS), 1),
        num_warps=1,
        loose=tuple(name for name in args if name not in ("x", "out")),
    )
