"""From call to launch: few rows times a matrix of 4-bit weights on NVIDIA's sm_90."""

from __future__ import annotations

from typing import Final, NamedTuple

from xtarget import spec

from . import choices, tuning
from .matrices import aligned

__all__ = ["Weights", "hopper"]

_TABLE: Final = "few rows of four bits"
#: Numbers along K that one product takes, and columns of a tile.
_EACH, _COLUMNS = 128, 16
_MORE: Final = "some rows of four bits"
#: Elements of 16 bytes.
_WORD: Final = 8
#: Columns of a block, and the fewest steps of a part of K.
_WIDE, _LEAST = 128, 4


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


class _Way(NamedTuple):
    """Rows of x, warps and products of each along K, tiles whose sums wait, tiles under way."""

    m: int
    slices: int
    pieces: int
    tiles: int
    ahead: int


class _Units(NamedTuple):
    """Rows of x, 128 numbers along K of a step, steps of x in shared memory, steps of weights under
    way.
    """

    m: int
    pieces: int
    stages: int
    ahead: int


def _config(call: spec.Call, table: str, m: int, k: int) -> tuple[int, ...] | None:
    """The configuration of a table's first row that holds for m rows of x and k columns."""
    rows = choices.rows(call.vendor, call.arch, table)
    return next((row.config for row in rows if row.holds(m=m, k=k)), None)


def _by_units(
    call: spec.Call, given: Weights, m: int, k: int, n: int
) -> tuple[spec.Launch, int] | None:
    """`hopper` for more rows: weights are the first operand of the matrix units."""
    if given.rows[1] % _WORD or not aligned(call, spec.Input(0)):
        return None
    config = _config(call, _MORE, m, k)
    if config is None:
        return None
    way = _Units(*config)
    blocks, steps = spec.cdiv(n, _WIDE), spec.cdiv(k, way.pieces * _EACH)
    parts = max(1, min(call.compute_units // blocks, steps // _LEAST))
    chunk = spec.cdiv(steps, parts)
    launch = spec.Launch(
        "hopper_some_rows:matmul",
        {"M": m, "N": n, "K": k, "group": given.group or k, "chunk": chunk * way.pieces * _EACH},
        {
            "ZERO": given.zero,
            "DOT": spec.dtype_constant(given.x.dtype),
            "BLOCK_M": way.m,
            "PIECES": way.pieces,
            "STAGES": way.stages,
            "AHEAD": way.ahead,
        },
        (blocks, spec.cdiv(steps, chunk), 1),
        num_warps=4,
        options=tuning.early(call),
        loose=("M", "N", "K", "group", "chunk"),
    )
    return launch, launch.grid[1]


def hopper(call: spec.Call, given: Weights) -> tuple[spec.Launch, int] | None:
    """The launch, without arrays and their steps, and parts of K; None: not for these operands."""
    m, k, n = given.rows[0], given.x.shape[-1], given.weight.shape[0]
    if given.bits != 4 or k % _EACH or given.group % _EACH:
        return None
    if (found := _by_units(call, given, m, k, n)) is not None:
        return found
    config = _config(call, _TABLE, m, k)
    if config is None:
        return None
    way = _Way(*config)
    parts = spec.cdiv(k, way.slices * way.pieces * _EACH)
    columns = spec.cdiv(n, _COLUMNS)
    blocks = max(1, call.compute_units // parts)
    tiles = spec.cdiv(columns, blocks)
    launch = spec.Launch(
        "hopper_few_rows:matmul",
        {"M": m, "N": n, "K": k, "group": given.group or k, "tiles": tiles},
        {
            "ZERO": given.zero,
            "DOT": spec.dtype_constant(given.x.dtype),
            "SLICES": way.slices,
            "PIECES": way.pieces,
            "BLOCK_M": way.m,
            "TILES": way.tiles,
            "AHEAD": way.ahead,
        },
        (spec.cdiv(columns, tiles), parts, 1),
        num_warps=way.slices,
        options=tuning.early(call),
        loose=("M", "N", "K", "group", "tiles"),
    )
    return launch, parts
