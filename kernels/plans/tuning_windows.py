"""Tile sizes of convolutions by vendor: data, as of `tuning`. They do not change a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from xtarget.spec import cdiv, next_power_of_2

__all__ = ["LEAST", "Tile", "direct_tile", "tile"]

#: Channels of a result, or products of an element of it, that are worth a matrix unit.
LEAST: Final = 16


class Tile(NamedTuple):
    """Channels, positions and products at once."""

    channels: int
    positions: int
    k: int
    num_warps: int
    num_stages: int


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
    """The largest tile that is not mostly padding and leaves no multiprocessor without one, or the
    smallest.
    """
    tiles = _TILES.get(vendor, _TILES["other"])[kind]
    for one in tiles:
        fits = one.channels < 2 * max(next_power_of_2(rows), tiles[-1].channels)
        if fits and cdiv(rows, one.channels) * cdiv(positions, one.positions) * groups >= units:
            return one
    return tiles[-1]


def direct_tile(vendor: str, rows: int) -> tuple[int, int, int]:
    """Channels, positions and warps of a sum of outer products."""
    channels = min(next_power_of_2(rows), 16)
    if vendor == "cpu":
        return channels, max(16, 64 // channels), 1
    return channels, max(32, 256 // channels), 4
