"""From call to launch: products of 8-bit floating numbers on NVIDIA's sm_90 by groups of warps, of
which one fetches and two multiply.
"""

from __future__ import annotations

from typing import Any, Final

from xtarget import spec

from . import tuning
from .hopper_products import STORED
from .tuning_matmul import MatmulTile

__all__ = ["by_groups"]

#: Warps of a group, and groups that multiply.
_WARPS: Final = 4
_GROUPS: Final = 2


def by_groups(
    call: spec.Call,
    tile: MatmulTile,
    tiles: int,
    args: dict[str, spec.Argument],
    constants: dict[str, Any],
) -> spec.Launch:
    """The launch where operands and result come as descriptors: a block for each multiprocessor
    makes one tile after the other.

    Args:
        tiles: of the result.
        args: `a`, `b`, `out`, both scales, lengths and steps.
        constants: GROUP_M and the kinds of the operands.
    """
    rows = tile.m // _GROUPS
    return spec.Launch(
        "hopper_eight_bits:matmul_in_groups",
        args,
        {
            **constants,
            "ROWS": rows,
            "BLOCK_N": tile.n,
            "BLOCK_K": tile.k,
            "STAGES": tile.num_stages,
        },
        (min(tiles, call.compute_units), 1, 1),
        num_warps=_WARPS,
        options=tuning.early(call),
        aligned_by=(),
        loose=("M", "N", "K", "pa", "pb", "om", "ra", "rb"),
        on_aligned=True,
        descriptors={
            "a": spec.Descriptor(("M", "K"), ("pa",), (rows, tile.k)),
            "b": spec.Descriptor(("N", "K"), ("pb",), (tile.n, tile.k)),
            "out": spec.Descriptor(("M", "N"), ("om",), (rows, min(tile.n, STORED))),
        },
    )
