"""Tile sizes of convolutions by vendor: data, as of `tuning`. They do not change a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from xtarget.spec import cdiv, next_power_of_2

__all__ = [
    "LEAST",
    "Shifted",
    "Tile",
    "direct_tile",
    "gradient_parts",
    "gradient_tile",
    "shifted",
    "shifted_tile",
    "tapped_tile",
    "tile",
]

#: Channels of a result, or products of an element of it, that are worth a matrix unit.
LEAST: Final = 16


class Tile(NamedTuple):
    """Channels, positions and products at once."""

    channels: int
    positions: int
    k: int
    num_warps: int
    num_stages: int


class Shifted(NamedTuple):
    """A tile of sums of outer products.

    Attributes:
        steps: tiles of a block, where there are blocks enough: what all of them need is found once.
        line: elements of a row that are copied at once, in front of the sums.
    """

    channels: int
    positions: int
    steps: int
    line: int


#: Largest first. Addresses are made for each element of a window, so tiles are smaller than those
#: of matrices that lie in memory as they are.
_TILES: Final[Mapping[str, Mapping[str, tuple[Tile, ...]]]] = {
    "nvidia": {
        "half": (Tile(64, 128, 32, 8, 3), Tile(64, 64, 32, 4, 3), Tile(16, 64, 32, 4, 3)),
        "single": (Tile(64, 64, 16, 4, 2), Tile(32, 32, 16, 4, 2), Tile(16, 32, 16, 2, 2)),
        "double": (Tile(32, 64, 16, 4, 2), Tile(16, 32, 16, 2, 2)),
    },
    "amd": {
        "half": (Tile(64, 64, 16, 4, 2), Tile(32, 32, 16, 4, 2), Tile(16, 16, 16, 1, 2)),
        "single": (Tile(64, 64, 16, 4, 2), Tile(32, 32, 16, 4, 2), Tile(16, 16, 16, 1, 2)),
        "double": (Tile(32, 32, 16, 4, 2), Tile(16, 16, 16, 1, 2)),
    },
    "other": {
        "half": (Tile(16, 32, 16, 4, 1), Tile(16, 16, 16, 4, 1)),
        "single": (Tile(16, 32, 16, 4, 1), Tile(16, 16, 16, 4, 1)),
        "double": (Tile(16, 16, 16, 4, 1),),
    },
}


def tile(vendor: str, kind: str, rows: int, positions: int, groups: int, units: int) -> Tile:
    """The tile of a convolution that reaches every element by an address of its own."""
    tiles = _TILES.get(vendor, _TILES["other"])[kind]
    return _fitting(tiles, rows, positions, groups, units)


#: Most elements of a tile where channels are loaded one by one, for an address each.
_ONE_BY_ONE: Final = 2048

#: The same, of channels of one tap a step: tiles of a product of matrices.
_TAPPED: Final[Mapping[str, Mapping[str, tuple[Tile, ...]]]] = {
    "nvidia": {
        "half": (
            Tile(128, 128, 64, 8, 3), Tile(64, 128, 64, 4, 3), Tile(64, 64, 64, 4, 3),
            Tile(32, 64, 64, 4, 3), Tile(16, 64, 64, 4, 3),
        ),
        "single": (
            Tile(128, 64, 32, 8, 4), Tile(64, 64, 16, 8, 3), Tile(32, 32, 16, 4, 3),
            Tile(16, 32, 16, 2, 3),
        ),
        "double": (Tile(32, 64, 16, 4, 2), Tile(16, 32, 16, 2, 2)),
    },
    "amd": {
        "half": (
            Tile(128, 128, 32, 8, 2), Tile(64, 64, 64, 4, 2), Tile(32, 32, 64, 4, 2),
            Tile(16, 32, 32, 2, 2),
        ),
        "single": (Tile(64, 64, 16, 4, 2), Tile(32, 32, 16, 4, 2), Tile(16, 16, 16, 1, 2)),
        # with stages, Triton 3.9 cannot compile copies of single float64 for gfx950
        "double": (Tile(32, 32, 16, 4, 1), Tile(16, 16, 16, 1, 1)),
    },
    "other": {
        "half": (Tile(32, 32, 16, 8, 1), Tile(16, 32, 16, 8, 1), Tile(16, 16, 16, 8, 1)),
        "single": (Tile(32, 32, 16, 8, 1), Tile(16, 32, 16, 8, 1), Tile(16, 16, 16, 8, 1)),
        "double": (Tile(16, 32, 16, 8, 1), Tile(16, 16, 16, 8, 1)),
    },
}  # fmt: skip


def _fitting(tiles: tuple[Tile, ...], rows: int, positions: int, groups: int, units: int) -> Tile:
    """The largest tile that is not mostly padding and leaves no multiprocessor without one, or the
    smallest.
    """
    for one in tiles:
        fits = one.channels < 2 * max(next_power_of_2(rows), tiles[-1].channels)
        if fits and cdiv(rows, one.channels) * cdiv(positions, one.positions) * groups >= units:
            return one
    return tiles[-1]


def tapped_tile(
    vendor: str, kind: str, rows: int, channels: int, positions: int, groups: int, units: int
) -> Tile:
    """The tile of a convolution by taps: with fewer channels a step where fewer are left over."""
    tiles = _TAPPED.get(vendor, _TAPPED["other"])[kind]
    if channels % 16:
        tiles = tuple(one for one in tiles if one.channels * one.positions <= _ONE_BY_ONE)
    found = _fitting(tiles, rows, positions, groups, units)
    k = min(found.k, 32) if channels % 16 else found.k
    while k > 16 and cdiv(channels, k // 2) * (k // 2) < cdiv(channels, k) * k:
        k //= 2
    return found._replace(k=k)


#: Positions of a part of a gradient by weights, for which another block is worth its sum; and most
#: that are added one after the other.
_SHORTEST: Final = 512
_LONGEST: Final = 32768
#: Blocks of it that a multiprocessor has at once.
_AT_ONCE: Final = 2

#: Of gradients by weights: rows, positions of a step, and channels.
_GRADIENTS: Final[Mapping[str, Mapping[str, tuple[Tile, ...]]]] = {
    "nvidia": {
        "half": (Tile(128, 64, 128, 4, 3), Tile(64, 64, 64, 4, 3), Tile(16, 64, 16, 4, 3)),
        "single": (Tile(64, 16, 64, 4, 3), Tile(32, 16, 32, 4, 3), Tile(16, 32, 16, 2, 3)),
        "double": (Tile(32, 16, 32, 4, 2), Tile(16, 16, 16, 2, 2)),
    },
    "amd": {
        "half": (Tile(64, 64, 64, 4, 2), Tile(32, 64, 32, 4, 2), Tile(16, 64, 16, 1, 2)),
        "single": (Tile(64, 16, 64, 4, 2), Tile(32, 16, 32, 4, 2), Tile(16, 16, 16, 1, 2)),
        "double": (Tile(32, 16, 32, 4, 1), Tile(16, 16, 16, 1, 1)),
    },
    "other": {
        "half": (Tile(32, 16, 32, 8, 1), Tile(16, 16, 16, 8, 1)),
        "single": (Tile(32, 16, 32, 8, 1), Tile(16, 16, 16, 8, 1)),
        "double": (Tile(16, 16, 16, 8, 1),),
    },
}


def gradient_tile(vendor: str, kind: str, rows: int, channels: int) -> Tile:
    """The largest tile that is not mostly padding, or the smallest."""
    tiles = _GRADIENTS.get(vendor, _GRADIENTS["other"])[kind]
    for one in tiles:
        if one.channels < 2 * next_power_of_2(rows) and one.k < 2 * next_power_of_2(channels):
            return one
    return tiles[-1]


def gradient_parts(blocks: int, units: int, positions: int) -> int:
    """How many parts the positions are cut into: no more blocks than there are at once, so that
    none of them waits for others.
    """
    parts = min(_AT_ONCE * units // blocks, positions // _SHORTEST)
    return min(max(parts, cdiv(positions, _LONGEST)), 65535)


#: Tiles of a block, where there are blocks enough.
_STEPS: Final = 16


def shifted(dtype: str, rows: int, length: int, copied: int, *, few_registers: bool) -> Shifted:
    """By `shifted_tile`.

    Args:
        copied: elements of a row of the copy.
    """
    tile = shifted_tile(dtype, rows, length, few_registers=few_registers)
    return Shifted(*tile, _STEPS, min(max(next_power_of_2(copied), 16), 64))


def shifted_tile(dtype: str, rows: int, length: int, *, few_registers: bool) -> tuple[int, int]:
    """Rows and positions of a tile of outer products: 16 vectors of sums, where there are so many
    rows, or positions in a row of the result; 8 of half the size for few registers.
    """
    if few_registers:
        most = 4 if dtype == "float32" else 2
        if rows > 2:
            return most, 16
        # of one row's few products all registers may be sums: there are half as many blocks
        return next_power_of_2(rows), 16 if length <= 16 else 32 * most // next_power_of_2(
            rows
        ) ** 2
    lanes = 32 if dtype == "float32" else 16
    if rows > 2:
        return (8, lanes) if rows > 4 else (4, 2 * lanes)
    return next_power_of_2(rows), lanes if length <= lanes else 4 * lanes


def direct_tile(vendor: str, rows: int) -> tuple[int, int, int]:
    """Channels, positions and warps of a sum of outer products."""
    channels = min(next_power_of_2(rows), 16)
    if vendor == "cpu":
        return channels, max(16, 64 // channels), 1
    return channels, max(32, 256 // channels), 4
