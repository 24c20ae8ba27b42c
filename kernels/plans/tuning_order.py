"""Tile sizes of what sorts, searches, counts and draws, by vendor: data. Nothing here changes a
result.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["Sorts", "sorts"]


class Sorts(NamedTuple):
    """Sorting, and kernels whose lanes are independent.

    Attributes:
        run: elements that are ranked by comparing each with each; longer rows are merged from runs
            of so many.
        tile: elements in flight per block while runs are ranked.
        block: lanes of a block where each looks up something of its own.
        num_warps: of both.
        chunk: elements that one block counts and compacts.
    """

    run: int
    tile: int
    block: int
    num_warps: int
    chunk: int


_SORTS: Final = {
    "cpu": Sorts(64, 64, 64, 1, 4096),
    "other": Sorts(128, 512, 256, 4, 4096),
}


def sorts(vendor: str) -> Sorts:
    return _SORTS.get(vendor, _SORTS["other"])
