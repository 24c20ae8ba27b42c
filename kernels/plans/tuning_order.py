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
        digits: shortest row that is ordered by digits; 0: none is.
        digits_elements: of all rows together, at least.
        digits_tile, digits_warps: elements, 256 at most, and warps of a block that does it.
        narrow, narrow_warps: elements and warps of a block that finds the first few of its
            elements; 0: none does.
        narrow_most: elements of such a block where many are wanted, which has more warps then.
    """

    run: int
    tile: int
    block: int
    num_warps: int
    chunk: int
    digits: int = 0
    digits_elements: int = 1 << 19
    digits_tile: int = 256
    digits_warps: int = 1
    narrow: int = 0
    narrow_warps: int = 4
    narrow_most: int = 0


_SORTS: Final = {
    "cpu": Sorts(64, 64, 64, 1, 4096),
    "nvidia": Sorts(128, 512, 256, 4, 4096, digits=4096, narrow=2048, narrow_most=8192),
    "amd": Sorts(128, 512, 256, 4, 4096, narrow=2048),
    "other": Sorts(128, 512, 256, 4, 4096),
}


def sorts(vendor: str) -> Sorts:
    return _SORTS.get(vendor, _SORTS["other"])
