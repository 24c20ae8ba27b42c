"""From call to launch: few rows times a matrix of 4-bit weights on NVIDIA's sm_90."""

from __future__ import annotations

from typing import Final, NamedTuple

from xtarget import spec

from . import choices, tuning

__all__ = ["Weights", "hopper"]

_TABLE: Final = "few rows of four bits"
#: Numbers along K that one product takes, and columns of a tile.
_EACH, _COLUMNS = 128, 16


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


def hopper(call: spec.Call, given: Weights) -> tuple[spec.Launch, int] | None:
    """The launch, without arrays and their steps, and parts of K; None: not for these operands."""
    m, k, n = given.rows[0], given.x.shape[-1], given.weight.shape[0]
    if given.bits != 4 or k % _EACH or given.group % _EACH:
        return None
    for row in choices.rows(call.vendor, call.arch, _TABLE):
        if row.holds(m=m, k=k):
            way = _Way(*row.config)
            break
    else:
        return None
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
