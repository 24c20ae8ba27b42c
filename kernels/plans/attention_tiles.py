"""Tile sizes of attention by what tiles hold: data, as of `tuning`. They do not change a result."""

from __future__ import annotations

from typing import Final, NamedTuple

from xtarget.spec import next_power_of_2

from . import tuning

__all__ = ["Hopper", "Outer", "Tile", "hopper", "outer", "tile", "with_scores"]


class Tile(NamedTuple):
    """Of `attention:attention`.

    Attributes:
        part: keys that are worth a block of their own.
    """

    queries: int
    keys: int
    num_warps: int
    num_stages: int
    part: int = 256


class Hopper(NamedTuple):
    """Of `hopper_attention:attention`.

    Attributes:
        stages: pieces of keys and values that are there at once.
    """

    keys: int
    stages: int


class Outer(NamedTuple):
    """Of `outer_attention:attention`.

    Attributes:
        width: keys, and columns of values, of a panel.
        keys: those whose powers a tile keeps, a multiple of `width`.
        step: products that are written out.
        programs: of each unit.
    """

    queries: int
    width: int
    keys: int = 512
    step: int = 4
    programs: int = 16


#: By type: 16 vectors of sums are what registers hold beside operands; or 8 of half the size, for
#: few registers.
_OUTER: Final = {"float32": Outer(8, 32), "float64": Outer(8, 16)}
_OUTER_IN_FEW: Final = {"float32": Outer(4, 16), "float64": Outer(2, 16)}

#: Queries and keys of a tile, and its warps, largest first; and the bytes that its queries, keys
#: and values may have together in the memory that a block shares.
_TILES: Final = (
    (128, 64, 8), (64, 64, 4), (64, 32, 4), (32, 32, 4), (16, 32, 4), (16, 16, 4),
)  # fmt: skip
_SHARED: Final = 48 * 1024
#: The same of float32 on NVIDIA, which threads multiply, as matrix units do not take it as it is.
#: By what an H100 took for heads of 64 (64 x 32 by 8 warps 408 us, 64 x 64 by 4 6,186 us, as 9 KB
#: of each thread leave the registers), and by registers.
_TILES_BY_THREADS: Final = (
    (128, 64, 8), (64, 32, 8), (32, 32, 8), (16, 32, 4), (16, 16, 4),
)  # fmt: skip
#: The same of float32 on sm_90, with stages, by the largest size of a head, and the queries that
#: it is for: three products of half of the digits each. By what an H100 took for 2x8x1024 and
#: 4x16x2048, and for one query of 16x32 heads.
_TILES_OF_DIGITS: Final = {
    32: ((64, 64, 4, 1), (32, 64, 4, 1), (16, 32, 4, 2)),
    64: ((128, 64, 8, 1), (64, 64, 4, 1), (32, 64, 4, 1), (16, 32, 4, 2)),
    128: ((128, 32, 8, 1), (32, 32, 4, 1), (16, 64, 4, 2)),
    256: ((16, 32, 4, 1),),
}  # fmt: skip
#: Sums of a tile without half types: more of them leave the registers.
_SUMS: Final = 4096


def with_scores(vendor: str, tile: Tile) -> Tile:
    """A tile whose scores go through operators: with half of the keys on AMD, where registers hold
    a tile of what stands beside them too (gfx942: a bias and a mask 133 registers too many)."""
    return tile._replace(keys=max(tile.keys // 2, 16)) if vendor == "amd" else tile


def tile(
    vendor: str, length: int, size: int, operand: str, stages: int, precision: str = "ieee"
) -> Tile:
    """The tile of matrix units. Without them it has one query: larger bodies take a CPU's JIT
    seconds.

    Args:
        length: queries.
        size: of a head, as a tile has it.
        operand: dtype of what is multiplied.
        precision: how (`tuning.precision`).
    """
    itemsize = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}[operand]
    least = 2 * max(next_power_of_2(length), 16)
    if precision != "ieee":
        fitting = next(tiles for most, tiles in _TILES_OF_DIGITS.items() if size <= most)
        return Tile(*next(one for one in fitting if one[0] < least))
    tiles = _TILES_BY_THREADS if (vendor, operand) == ("nvidia", "float32") else _TILES
    for rows, keys, warps in tiles if vendor in tuning.MATRIX_UNITS else ():
        if (
            rows < least
            and (rows + 4 * keys) * size * itemsize <= 2 * _SHARED
            and (itemsize == 2 or rows * size <= _SUMS)
        ):
            return Tile(rows, keys, warps, stages)
    return Tile(*_TILES[-1], stages)


def outer(computed: str, *, few_registers: bool) -> Outer:
    """The tile of sums of outer products of a type."""
    return (_OUTER_IN_FEW if few_registers else _OUTER)[computed]


def hopper(size: int) -> Hopper:
    """The tile for heads whose rows have `size` elements there."""
    return Hopper(128 if size <= 128 else 64, 2)
