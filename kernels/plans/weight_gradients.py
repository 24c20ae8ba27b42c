"""From call to launches: the gradient of a convolution by its weights, by matrix units
(`convolution_gradients:by_weight`).
"""

from __future__ import annotations

import math

from xtarget import spec

from . import tuning, tuning_windows
from .elementwise import compute_dtype
from .layouts import collapse
from .problems import KINDS, LOOSE, Problem
from .reduction import reduction_launch

__all__ = ["by_weight"]


def by_weight(
    call: spec.Call,
    p: Problem,
    dtype: str,
    x: spec.Input | spec.Temporary,
    grad: spec.Input | spec.Temporary,
    out: spec.Output,
    temporaries: list[spec.ArrayType],
) -> list[spec.Launch]:
    """The launches: sums over parts of the positions, and their sums; or one that has all.

    Args:
        p: of the convolution, with `sw` of the result here and `so` of `grad`. Channels lie side by
            side in both operands.
        temporaries: those of the plan, to which this adds its own.
    """
    total = compute_dtype(dtype)
    tile = tuning_windows.gradient_tile(call.vendor, KINDS[dtype], p.rows, p.channels)
    tap_count = math.prod(p.kernel)
    blocks = spec.cdiv(p.rows, tile.channels) * spec.cdiv(p.channels, tile.k) * tap_count * p.groups
    positions = p.positions
    parts = tuning_windows.gradient_parts(blocks, call.compute_units, positions)
    chunk = spec.cdiv(spec.cdiv(positions, parts), tile.positions) * tile.positions
    parts = spec.cdiv(positions, chunk)
    shape = (p.groups, *p.kernel, p.rows, p.channels)
    own = (p.sw[0], *p.sw[3:], p.sw[1], p.sw[2])
    steps = spec.contiguous_strides(shape) if parts > 1 else own
    size = math.prod(shape)
    into: spec.Output | spec.Temporary = out
    if parts > 1:
        into = spec.Temporary(len(temporaries))
        layout = spec.contiguous_strides((parts, size))
        temporaries.append(spec.ArrayType(total, (parts, size), layout))
    launch = _launch(call, p, dtype, tile, (x, grad, into), (blocks, parts), chunk, size, steps)
    if parts == 1:
        return [launch]
    kept = collapse(shape, spec.contiguous_strides(shape), own)
    reduced = collapse((parts,), (size,))
    return [launch, reduction_launch("sum", into, out, kept, reduced, total, call.vendor)]


def _launch(
    call: spec.Call,
    p: Problem,
    dtype: str,
    tile: tuning_windows.Tile,
    arrays: tuple[spec.Argument, spec.Argument, spec.Argument],
    grid: tuple[int, int],
    chunk: int,
    size: int,
    steps: tuple[int, ...],
) -> spec.Launch:
    total = compute_dtype(dtype)
    operand = dtype if call.vendor in tuning.MATRIX_UNITS else total
    goal = collapse((p.samples, *p.out_shape), (p.so[0], *p.so[2:]), keep_order=True)
    numbers: dict[str, spec.Argument] = p.numbers()
    unused = ("tap_count", "from_weight", "from_out")
    strides = {"wr": steps[4], "wc": steps[5]}
    return spec.Launch(
        "convolution_gradients:by_weight",
        {
            **dict(zip(("x", "grad", "out"), arrays, strict=True)),
            **{name: value for name, value in numbers.items() if name not in unused},
            "chunk": chunk,
            "part": size,
            "sx": (p.sx[0], *p.sx[2:]),
            "goal_shape": goal.lengths,
            "sg": goal.strides[0],
            "so": steps[:4],
            **{name: step for name, step in strides.items() if step != 1},
        },
        {
            **{name: 1 for name, step in strides.items() if step == 1},
            "DOT": spec.dtype_constant(operand),
            "T": spec.dtype_constant(total),
            "AXES": p.rank,
            "BLOCK_P": tile.positions,
            "BLOCK_C": tile.channels,
            "BLOCK_K": tile.k,
        },
        (*grid, 1),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        options=tuning.matmul_options(call.vendor),
        aligned_by=("rows", "channels"),
        loose=("positions", *LOOSE, "chunk", "goal_shape"),
    )
