"""From call to launches: the elements of rows that may be among the first few in order."""

from __future__ import annotations

from typing import Any, NamedTuple

from xtarget import spec

from . import tuned
from .lanes import parted
from .radix import Pair, PairOf

__all__ = ["Lines", "narrow"]


class Lines(NamedTuple):
    """Rows: how many, their lengths and strides, elements of each, and the stride of these."""

    m: int
    lengths: tuple[int, ...]
    strides: tuple[int, ...]
    n: int
    step: int


def narrow(
    call: spec.Call,
    x: spec.ArrayType,
    source: spec.Argument,
    lines: Lines,
    keep: int,
    key: str,
    pair: PairOf,
    *,
    descending: bool,
) -> tuple[list[spec.Launch], int, Pair | None]:
    """Launches that leave the first `keep` of each tile of a row; how many elements a row has then,
    and where their keys and places are; None: nothing is left out.

    Args:
        key: dtype of the keys.
        pair: memory for keys and places, in turns.
    """
    sizes = tuned.sorts(call, lines.m, lines.n)
    n, found = lines.n, None
    launches: list[spec.Launch] = []
    most = max(sizes.narrow, min(spec.next_power_of_2(4 * keep), sizes.narrow_most))
    while most and (keep * 2 <= n if n <= most else keep * 4 <= most):
        block = min(spec.next_power_of_2(n), most)
        tiles = spec.cdiv(n, block)
        total = (tiles - 1) * keep + min(keep, n - (tiles - 1) * block)
        goal = pair(total)
        args: dict[str, Any] = {
            "x": source if found is None else None,
            "keys": None if found is None else found[0],
            "places": None if found is None else found[1],
            "keys_out": goal[0],
            "places_out": goal[1],
            "n": n,
            "tiles": tiles,
            "keep": keep,
            "total": total,
            "shape": lines.lengths,
            "sx": lines.strides,
        }
        # a stride of 1 is a constant, so that neighbours are seen to lie side by side
        constants: dict[str, Any] = {"cx": 1} if lines.step == 1 else {}
        if lines.step != 1:
            args["cx"] = lines.step
        given, absent = parted(args)
        launches.append(
            spec.Launch(
                "narrowing:narrow",
                given,
                {
                    **absent,
                    **constants,
                    "D": spec.dtype_constant(x.dtype),
                    "K": spec.dtype_constant(key),
                    "DESCENDING": descending,
                    "GROUPS": spec.next_power_of_2(keep),
                    "BLOCK": block,
                },
                (lines.m * tiles, 1, 1),
                num_warps=max(1, sizes.narrow_warps * block // sizes.narrow),
                aligned_by=("n",),
                loose=("tiles", "keep", "total", "shape", "sx"),
            )
        )
        n, found = total, goal
    return launches, n, found
