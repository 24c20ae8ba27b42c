"""Second operands of matrix products, laid out as panels that are as wide as a tile."""

from __future__ import annotations

from xtarget import spec

from . import tuning, tuning_matmul
from .layouts import Space
from .matrices import Problem

__all__ = ["panels_launch", "worth_panels"]


def worth_panels(call: spec.Call, problem: Problem) -> bool:
    """Whether every element of b is used often enough to copy it first."""
    side_by_side = problem.b[1] == 1
    least = tuning_matmul.PANEL_ROWS if side_by_side else tuning_matmul.PANEL_ROWS_APART
    return (
        tuning.outer_products(call.vendor)
        and problem.m >= least
        and problem.n >= tuning_matmul.PANEL_ROWS
        and problem.k * max(problem.m, problem.n) * problem.batch.size < 2**30
    )


def panels_launch(
    x: spec.Input | spec.Temporary,
    out: spec.Temporary,
    columns: tuple[int, int],
    rows: tuple[int, int],
    batch: Space,
    over: tuple[int, ...],
    dtype: str,
    width: int,
    *,
    steps: tuple[int, int, int],
    fill: bool,
    pairs: bool = False,
    pieces: int = 1,
) -> spec.Launch:
    """One launch of `panels` on `x`, or (`pairs`) of `panels_of_pairs`.

    Args:
        columns, rows: how many, and x's stride from one to the next.
        over: x's strides along the batch.
        steps: of the output, from panel to panel, row to row and matrix to matrix.
        pieces: of `tuning_matmul.PANEL_K` rows that a block copies; not of pairs.
    """
    to_panel, to_k, to_matrix = steps
    strides = {"step": columns[1], "xk": rows[1]}
    words = rows[1] == 1 and rows[0] % 2 == 0 and columns[1] % 2 == 0 if pairs else False
    part = width if columns[1] == 1 else min(width, tuning_matmul.PANEL_PART)
    return spec.Launch(
        "linear:panels_of_pairs" if pairs else "linear:panels",
        {
            "x": x,
            "out": out,
            "count": columns[0],
            "K": rows[0],
            "shape": batch.lengths,
            "sx": over,
            **{name: step for name, step in strides.items() if step != 1},
            "to_panel": to_panel,
            "to_k": to_k,
            "to_matrix": to_matrix,
        },
        {
            **{name: 1 for name, step in strides.items() if step == 1},
            **({"WORDS": words} if pairs else {"T": spec.dtype_constant(dtype), "STEPS": pieces}),
            "FILL": fill,
            "WIDTH": width,
            "PART": part,
            "BLOCK_K": tuning_matmul.PANEL_K,
        },
        (
            spec.cdiv(columns[0], width) * (width // part),
            batch.size,
            spec.cdiv(spec.cdiv(rows[0], 2) if pairs else rows[0], tuning_matmul.PANEL_K * pieces),
        ),
        num_warps=1,
        aligned_by=("K",),
        loose=("count", "shape"),
    )
