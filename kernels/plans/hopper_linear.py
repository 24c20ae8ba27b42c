"""From call to launch: few rows times the transpose of a matrix on NVIDIA's sm_90, and sums of
products of pieces of k."""

from __future__ import annotations

from xtarget import spec

from . import tuning, tuning_matmul
from .matrices import TYPES, Problem

__all__ = ["few", "sum_of_parts"]

#: Elements of a sum of pieces that a block makes, and its warps.
_BLOCK, _WARPS = 1024, 4


def few(
    call: spec.Call,
    dtype: str,
    tile: tuning_matmul.MatmulTile,
    problem: Problem,
    out: spec.Output | spec.Temporary,
) -> spec.Launch | None:
    """The launch where one tile has all rows; None: not for these operands."""
    options = tuning.early(call)
    p, (operand, _, kind) = problem, TYPES.get(dtype, ("", "", ""))
    blocks = p.n // tile.n
    if (
        not options
        or call.general
        or kind != "half"
        or p.dtypes != (operand, operand)
        or p.tail is not None
        or p.batch.size != 1
        or (p.a[1], p.b[0], p.out[1]) != (1, 1, 1)
        or p.m > tile.m
        or p.n % tile.n
        or p.k % tile.k
        or tuning_matmul.folds(kind, p.k)
        or 4 * blocks < 3 * call.compute_units
    ):
        return None
    am, om = (0, 0) if p.m == 1 else (p.a[0], p.out[0])
    arguments = {**p.arguments(out), "am": am, "bn": p.b[1], "om": om}
    return spec.Launch(
        "hopper_linear:few",
        {name: value for name, value in arguments.items() if name != "N"},
        {"BLOCK_M": tile.m, "BLOCK_N": tile.n, "BLOCK_K": tile.k},
        (blocks, 1, 1),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        options=options,
        aligned_by=("K",),
        loose=("M", "om"),
    )


def sum_of_parts(
    call: spec.Call,
    parts: spec.Temporary,
    shape: tuple[int, int],
    strides: tuple[int, int],
    out: spec.Output | spec.Temporary,
    count: int,
) -> spec.Launch | None:
    """The launch that adds matrices of the result's shape that lie one after the other, each by
    rows; None: not here.

    Args:
        parts: where they are.
        strides: of the result.
        count: how many there are.
    """
    options, (m, n), (om, on) = tuning.early(call), shape, strides
    if not options or call.general or on != 1:
        return None
    apart = om != n
    return spec.Launch(
        "hopper_linear:added",
        {
            "parts": parts,
            "out": out,
            "n": m * n,
            **({"width": n, "om": om} if apart else {}),
        },
        {
            "PARTS": count,
            "BLOCK": _BLOCK,
            **({} if apart else {"width": None, "om": None}),
        },
        (spec.cdiv(m * n, _BLOCK), 1, 1),
        num_warps=_WARPS,
        options=options,
        aligned_by=("n",),
        loose=("width", "om"),
    )
