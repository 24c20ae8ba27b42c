"""From call to launches: few rows times the transpose of a matrix of few bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from xtarget import spec

from . import choices, tuning
from .hopper_few_rows import Weights, hopper
from .hopper_linear import sum_of_parts
from .layouts import collapse
from .matrices import aligned
from .reduction import reduction_launch

__all__ = ["Weights", "few_rows"]


class _Tile(NamedTuple):
    """Rows of x, columns of the result, numbers along K; parts of these by warps of their own."""

    m: int
    n: int
    k: int
    num_warps: int
    num_stages: int
    slices: int


#: On archs that were not measured, by the most rows that each takes.
_TILES: Final = (
    _Tile(8, 32, 128, 4, 3, 4), _Tile(16, 32, 128, 4, 3, 4), _Tile(32, 64, 64, 4, 3, 4),
)  # fmt: skip
_TABLE: Final = "few rows of few bits"
#: Bytes whose multiples rows of weights begin at.
_ROW: Final = 16


def _tile(call: spec.Call, given: Weights) -> tuple[_Tile, str] | None:
    """The tile for a number of rows, and how x is read."""
    m = given.rows[0]
    for row in choices.rows(call.vendor, call.arch, _TABLE):
        if row.text["bits"] == str(given.bits) and row.holds(m=m):
            return _Tile(*row.config), row.text["way"]
    if call.vendor == "nvidia":
        for tile in _TILES:
            if m <= tile.m:
                return tile, "registers"
    return None


def few_rows(
    call: spec.Call, given: Weights, out: spec.ArrayType, rows_apart: int
) -> spec.Plan | None:
    """The plan of x @ ((weight - zeros) * scales).T; None: not for these operands.

    Args:
        rows_apart: the result's stride from row to row.
    """
    x, weight, m = given.x, given.weight, given.rows[0]
    k, n = x.shape[-1], weight.shape[0]
    if (
        x.dtype not in ("float16", "bfloat16")
        or x.strides[-1] != 1
        or weight.strides[1] != 1
        or weight.strides[0] <= 0
        or weight.strides[0] % _ROW
        or not call.aligned
        or not aligned(call, spec.Input(1))
    ):
        return None
    by_units = None if call.general else hopper(call, given)
    if by_units is not None:
        return _plan(call, given, out, rows_apart, *by_units)
    found = _tile(call, given)
    if found is None:
        return None
    tile, way = found
    if k % tile.k or (given.group and given.group % tile.k):
        tile = tile._replace(k=64)
    if k % tile.k or (given.group and given.group % tile.k):
        return None
    blocks, steps = spec.cdiv(n, tile.n), spec.cdiv(k, tile.k * tile.slices)
    parts = 1
    if 2 * blocks <= call.compute_units and steps >= 4:
        parts = tuning.splits(blocks, call.compute_units, steps, 2)
    chunk = spec.cdiv(steps, parts)
    launch = spec.Launch(
        "few_rows:matmul",
        {"M": m, "N": n, "K": k, "group": given.group or k, "chunk": chunk},
        {
            "BITS": given.bits,
            "SIGNED": weight.dtype == "int8",
            "ZERO": given.zero,
            "DOT": spec.dtype_constant(x.dtype),
            "SLICES": tile.slices,
            "SHARED": way == "shared",
            "PTX": call.vendor == "nvidia",
            "BLOCK_M": tile.m,
            "BLOCK_N": tile.n,
            "BLOCK_K": tile.k,
        },
        (blocks, spec.cdiv(steps, chunk) if parts > 1 else 1, 1),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        loose=("M", "N", "chunk"),
    )
    return _plan(call, given, out, rows_apart, launch, parts)


def _plan(
    call: spec.Call,
    given: Weights,
    out: spec.ArrayType,
    rows_apart: int,
    launch: spec.Launch,
    parts: int,
) -> spec.Plan:
    """The plan of a launch that lacks its arrays and their steps, and of the sum of its parts."""
    m, am = given.rows
    n = given.weight.shape[0]
    strides = {**given.steps, "am": am, "bn": given.weight.strides[0]}
    goal: spec.Output | spec.Temporary = spec.Output()
    size, temporary = m * n, spec.Temporary()
    if parts > 1:
        goal = temporary
        strides |= {"om": n, "on": 1}
    else:
        strides |= {"om": rows_apart, "on": out.strides[-1]}
    absent: dict[str, Any] = {} if given.zeros else {"zeros": None, "zn": 0, "zg": 0}
    ones = {name: 1 for name, step in strides.items() if step == 1}
    launch = replace(
        launch,
        args={
            "x": spec.Input(0), "q": spec.Input(1), "scales": spec.Input(2), "out": goal,
            **({"zeros": spec.Input(3)} if given.zeros else {}),
            **launch.args,
            "part": size if parts > 1 else 0,
            **{name: one for name, one in strides.items() if name not in {**absent, **ones}},
        },
        constants={**absent, **ones, **launch.constants},
        aligned_by=("am",),
        loose=(*launch.loose, "part", "om", "sn", "sg", "zn", "zg"),
        on_aligned=True,
    )  # fmt: skip
    if parts == 1:
        return spec.Plan((out,), (launch,))
    parts = launch.grid[1]
    between = spec.ArrayType("float32", (parts, size), (size, 1))
    steps = rows_apart, out.strides[-1]
    early = sum_of_parts(call, temporary, (m, n), steps, spec.Output(), parts)
    if early is not None:
        return spec.Plan((out,), (launch, early), (between,))
    kept = collapse((m, n), (n, 1), steps)
    reduced = collapse((parts,), (size,))
    last = reduction_launch("sum", goal, spec.Output(), kept, reduced, "float32", call.vendor)
    return spec.Plan((out,), (launch, last), (between,))
