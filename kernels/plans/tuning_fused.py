"""Tile sizes of generated kernels over rows, by vendor: data. Nothing here changes a result but in
the order of sums.
"""

from __future__ import annotations

from typing import Final

from .tuning import Rows

__all__ = ["fused_across", "fused_rows"]

#: A piece is of all arrays of a section together. A CPU's registers hold what a gelu needs for four
#: vectors.
_ROWS: Final = {
    "nvidia": Rows(32768, 4096, 1024, 512, 16),
    "amd": Rows(16384, 4096, 1024, 512, 8),
    "cpu": Rows(128, 64, 64, 512, 1),
    "other": Rows(4096, 1024, 512, 256, 8),
}
#: Rows that a block takes where they lie across memory: their lanes are side by side.
_ACROSS: Final = {"nvidia": 32, "amd": 64, "cpu": 16}


def fused_across(vendor: str) -> int:
    return _ACROSS.get(vendor, 32)


def fused_rows(vendor: str) -> Rows:
    return _ROWS.get(vendor, _ROWS["other"])
