"""From call to launches: few rows times the transpose of a matrix of few bits."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from xtarget import spec

from . import choices, tuning
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


class Weights(NamedTuple):
    """Few rows and what they are multiplied by.

    Attributes:
        rows: how many, and from one to the next.
        group: numbers along K that share a scale; 0: all.
        bits: of a weight, 4 or 8.
        zero: what weights are around, without `zeros`.
        steps: of scales and zeros, by parameter.
    """

    x: spec.ArrayType
    weight: spec.ArrayType
    rows: tuple[int, int]
    group: int
    bits: int
    zero: int
    zeros: bool
    steps: dict[str, int]


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
    x, weight, (m, am) = given.x, given.weight, given.rows
    k, n = x.shape[-1], weight.shape[0]
    if x.dtype not in ("float16", "bfloat16"):
        return None
    found = _tile(call, given)
    if (
        found is None
        or x.strides[-1] != 1
        or weight.strides[1] != 1
        or weight.strides[0] <= 0
        or weight.strides[0] % _ROW
        or not call.aligned
        or not aligned(call, spec.Input(1))
    ):
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
    strides = {**given.steps, "am": am, "bn": weight.strides[0]}
    goal: spec.Output | spec.Temporary = spec.Output()
    size = m * n
    if parts > 1:
        goal = spec.Temporary()
        strides |= {"om": n, "on": 1}
    else:
        strides |= {"om": rows_apart, "on": out.strides[-1]}
    addresses: dict[str, spec.Argument] = {
        "x": spec.Input(0), "q": spec.Input(1), "scales": spec.Input(2), "out": goal,
        **({"zeros": spec.Input(3)} if given.zeros else {}),
    }  # fmt: skip
    constants: dict[str, Any] = {
        **({} if given.zeros else {"zeros": None, "zn": 0, "zg": 0}),
        **{name: 1 for name, step in strides.items() if step == 1},
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
    }
    sizes: dict[str, spec.Argument] = {
        "M": m, "N": n, "K": k, "group": given.group or k, "chunk": chunk,
        "part": size if parts > 1 else 0,
        **{name: one for name, one in strides.items() if name not in constants},
    }  # fmt: skip
    launch = spec.Launch(
        "few_rows:matmul",
        {**addresses, **sizes},
        constants,
        (blocks, spec.cdiv(steps, chunk) if parts > 1 else 1, 1),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        aligned_by=("am",),
        loose=("M", "N", "chunk", "part", "om", "sn", "sg", "zn", "zg"),
        on_aligned=True,
    )
    if parts == 1:
        return spec.Plan((out,), (launch,))
    parts = launch.grid[1]
    between = spec.ArrayType("float32", (parts, size), (size, 1))
    kept = collapse((m, n), (n, 1), (rows_apart, out.strides[-1]))
    reduced = collapse((parts,), (size,))
    last = reduction_launch("sum", goal, spec.Output(), kept, reduced, "float32", call.vendor)
    return spec.Plan((out,), (launch, last), (between,))
