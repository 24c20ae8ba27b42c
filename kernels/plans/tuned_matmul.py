"""Matrix products: what `xtarget tune` tries, and what it has found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from xtarget import spec

from . import choices, estimates
from .matrices import Problem
from .tuning_matmul import Choice, MatmulTile, Wanted, allowed, choose, known_tiles

__all__ = ["chosen"]


class _Way(NamedTuple):
    """A choice as it is kept: `MatmulTile`, way, and pieces of k (0: by rule)."""

    m: int
    n: int
    k: int
    num_warps: int
    num_stages: int
    way: str
    parts: int


# fmt: off
#: Worth a trial beside those of the rule: rows, columns and K of a tile, warps, stages.
_MORE: Final = {
    ("nvidia", "half"): (
        (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (128, 128, 64, 8, 4),
        (128, 128, 64, 4, 4), (64, 256, 64, 8, 3), (64, 128, 64, 4, 4), (64, 128, 128, 4, 3),
        (64, 64, 128, 4, 4), (128, 64, 64, 4, 4), (64, 32, 64, 4, 5), (64, 32, 256, 4, 4),
        (32, 32, 256, 4, 4), (32, 64, 64, 4, 5), (16, 32, 256, 4, 5), (16, 64, 64, 4, 5),
        (16, 128, 64, 4, 4),
    ),
    ("nvidia", "single"): (
        (64, 128, 32, 8, 4), (128, 64, 32, 8, 3), (64, 128, 16, 8, 4), (128, 128, 16, 8, 4),
        (64, 64, 32, 4, 3), (64, 64, 32, 8, 3), (32, 64, 32, 4, 4), (16, 64, 64, 4, 3),
        (16, 128, 32, 4, 3),
    ),
    ("amd", "half"): (
        (256, 128, 64, 8, 2), (128, 128, 32, 4, 2), (128, 256, 32, 8, 2), (128, 64, 64, 4, 2),
        (16, 64, 128, 4, 2),
    ),
    ("cpu", "single"): (
        (8, 32, 8, 1, 1), (4, 64, 8, 1, 1), (8, 32, 2, 1, 1), (4, 32, 4, 1, 1), (8, 16, 8, 1, 1),
        (16, 16, 4, 1, 1), (2, 128, 8, 1, 1), (4, 16, 4, 1, 1), (4, 16, 2, 1, 1),
    ),
}
#: The same of products in groups: warps are those that multiply.
_GROUPS: Final = {
    "nvidia:sm_90": (
        (128, 256, 64, 8, 4), (192, 128, 64, 12, 5), (192, 128, 64, 12, 4), (128, 128, 64, 8, 6),
        (256, 128, 64, 8, 4), (256, 128, 64, 16, 4), (64, 256, 64, 4, 4), (64, 128, 64, 4, 6),
        (128, 64, 64, 8, 6), (64, 64, 128, 4, 4), (128, 160, 64, 8, 5), (128, 192, 64, 8, 4),
        (192, 160, 64, 12, 4), (192, 192, 64, 12, 4), (256, 96, 64, 8, 4),
    ),
}
# fmt: on
_PARTS: Final = (0, 1, 2, 4, 8)
#: Elements of the largest tile: a thread of a block has 64 sums or more in its registers.
_MOST_SUMS: Final = 256 * 256
#: Rows that one tile has all of.
_FEW: Final = 64


def chosen(call: spec.Call, wanted: Wanted, problem: Problem) -> Choice:
    """The choice that was measured for the range of a product, else `tuning_matmul.choose`."""
    default = choose(wanted)
    usual = _Way(*default.tile, default.way, default.parts)
    rows, columns = problem.a[1] == 1, problem.a[0] == 1
    words = {
        "operands": wanted.kind,
        "a": "rows" if rows else "columns" if columns else "mixed",
        "b": wanted.b,
        "described": _described(wanted),
        "batch": "one" if wanted.batch == 1 else "several",
    }

    def holds(way: _Way) -> bool:
        whole = problem.tail is None or way.parts < 2
        return way.m * way.n <= _MOST_SUMS and allowed(wanted, _choice(way)) and whole

    way = choices.chosen(
        call,
        wanted.table,
        usual,
        lambda: _variants(wanted),
        words,
        {"m": wanted.m, "n": wanted.n, "k": wanted.k},
        origin=default.origin,
        source=f"kernels/choices/{wanted.vendor}-{wanted.arch}.json"
        if default.origin == "measured"
        else "kernels/plans/tuning_matmul.py",
        estimate=_estimate(wanted, call.vectors),
        holds=holds,
    )
    return default if way == usual or not holds(way) else _choice(way)


def _choice(way: _Way) -> Choice:
    return Choice(MatmulTile(*way[:5]), way.way, "measured", way.parts)


def _described(wanted: Wanted) -> str:
    if not wanted.described:
        return "no"
    return "by the host" if wanted.hosted else "yes"


def _estimate(wanted: Wanted, vectors: str) -> Callable[[_Way], float] | None:
    """The time that a model says of a choice; None: the arch has no model.

    Args:
        vectors: a CPU's.
    """
    if wanted.vendor == "cpu":
        if wanted.kind != "single" or vectors not in estimates.CORES:
            return None
        return lambda one: estimates.outer_cycles(wanted, MatmulTile(*one[:5]), vectors)
    known = estimates.chip(wanted.vendor, wanted.arch)
    if known is None or wanted.kind != "half":
        return None
    return lambda one: estimates.seconds(wanted, MatmulTile(*one[:5]), one.way, one.parts)


def _variants(wanted: Wanted) -> list[_Way]:
    """Those that are not mostly padding, without what only costs memory."""
    kinds = {"half": "half", "single": "single"}
    kind = "single" if wanted.vendor == "cpu" and wanted.kind in kinds else wanted.kind
    tiles = [
        *known_tiles(wanted.vendor, wanted.kind, few_registers=wanted.few_registers),
        *(MatmulTile(*tile) for tile in _MORE.get((wanted.vendor, kind), ())),
    ]
    least = min(tile.m for tile in tiles)
    fitting = [
        tile
        for tile in dict.fromkeys(tiles)
        if tile.m <= max(least, spec.next_power_of_2(wanted.m))
        and tile.n <= max(16, spec.next_power_of_2(wanted.n))
    ]
    found = []
    for tile in fitting:
        for way in ("tiles", "few", "in turn", "described"):
            choice = Choice(tile, way)
            few = wanted.m <= min(_FEW, tile.m) and wanted.vendor != "cpu"
            if not allowed(wanted, choice) or (way == "few") != (few and way in ("few", "tiles")):
                continue
            if wanted.vendor == "cpu" and way != "tiles":
                continue
            fills = 4 * wanted.blocks(tile) >= 3 * wanted.compute_units
            parts = (0,) if fills or way in ("in turn", "described") else _PARTS
            parts = tuple(n for n in parts if n * wanted.blocks(tile) <= 4 * wanted.compute_units)
            found += [_Way(*tile, way, one) for one in parts if one * tile.k <= wanted.k]
    in_groups = (MatmulTile(*one) for one in _GROUPS.get(f"{wanted.vendor}:{wanted.arch}", ()))
    found += [
        _Way(*tile, "in groups", 0)
        for tile in in_groups
        if allowed(wanted, Choice(tile, "in groups"))
    ]
    return found
