"""From call to launch: matrix products on NVIDIA's sm_90 by groups of warps, of which one fetches
and the others multiply.
"""

from __future__ import annotations

from typing import Final

from xtarget import spec

from . import tuning, tuning_matmul
from .described import descriptors_of, stepped
from .matrices import Problem

__all__ = ["STORED", "by_groups"]

#: Columns that are stored at once, as `hopper_products.py` has them.
STORED: Final = 64
#: Warps of a group.
_WARPS: Final = 4
#: Registers of a thread that multiplies, by the number of groups: all that there are.
_REGISTERS: Final = {1: 232, 2: 232, 3: 160, 4: 112}


def by_groups(
    call: spec.Call,
    tile: tuning_matmul.MatmulTile,
    problem: Problem,
    out: spec.Output | spec.Temporary,
) -> spec.Launch:
    """The launch where operands and result come as descriptors: a block for each multiprocessor
    makes one tile after the other. A tile has a power of two of columns, or that and a smaller one.
    """
    args, a_t, b_t = stepped(problem, out)
    groups = tile.num_warps // _WARPS
    rows = tile.m // groups
    wide = 1 << (tile.n.bit_length() - 1)
    rest = tile.n - wide
    descriptors = descriptors_of(a_t, b_t, rows, wide, tile.k, min(rest or wide, STORED))
    further: dict[str, spec.Constant] = {} if rest else {"rest": None}
    if rest:
        args["rest"] = args["b"]
        descriptors["rest"] = descriptors_of(a_t, b_t, rows, rest, tile.k, rest)["b"]
    return spec.Launch(
        "hopper_products:matmul_in_groups",
        args,
        {
            **further,
            "A_T": a_t,
            "B_T": b_t,
            "GROUP_M": tuning_matmul.GROUP_M,
            "GROUPS": groups,
            "ROWS": rows,
            "BLOCK_N": wide,
            "REST": rest,
            "BLOCK_K": tile.k,
            "STAGES": tile.num_stages,
            "REGISTERS": _REGISTERS[groups],
        },
        (
            min(
                spec.cdiv(problem.m, tile.m) * spec.cdiv(problem.n, tile.n),
                call.compute_units,
            ),
            1,
            1,
        ),
        num_warps=_WARPS,
        options=tuning.early(call),
        aligned_by=(),
        loose=tuple(name for name in args if name not in ("a", "b", "rest", "out")),
        on_aligned=True,
        descriptors=descriptors,
    )
