"""From call to launches: rows in order by the digits of their keys, a tile of a row a block."""

from __future__ import annotations

from typing import Any, NamedTuple

from xtarget import spec

from . import tuned
from .narrowing import Lines
from .radix import bits_of, key_constants

__all__ = ["Goal", "in_tiles", "launches"]

#: Bits of a digit.
_DIGIT = 4
#: Tiles of which one block sums the counts, and how many such blocks' sums it reads at once.
_SUMMED, _READ = 512, 64

Where = spec.Output | spec.Temporary


class Goal(NamedTuple):
    """Where elements and their places go at last.

    Attributes:
        lines: None: rows lie one after the other.
        keys: keys go to `out` instead of elements.
    """

    out: Where | None
    at: Where | None
    strides: tuple[int, ...] | None = None
    step: int = 1
    keys: bool = False


def in_tiles(call: spec.Call, m: int, n: int, keep: int) -> bool:
    """Whether `m` rows of `n` elements, of which `keep` matter, are ordered so."""
    sizes = tuned.sorts(call, m, n)
    if not sizes.digits or n < sizes.digits or n >= 2**31:
        return False
    return m * n >= sizes.digits_elements and keep * 8 >= n


def launches(
    call: spec.Call,
    x: spec.ArrayType,
    source: spec.Argument,
    lines: Lines,
    key: str,
    goal: Goal,
    temporaries: list[spec.ArrayType],
    *,
    descending: bool,
) -> list[spec.Launch]:
    """The launches that put the rows of `x` in order.

    Args:
        key: dtype of the keys.
        temporaries: the plan's, to which those of this come.
    """
    m, n = lines.m, lines.n
    sizes = tuned.sorts(call, m, n)
    tiles = spec.cdiv(n, sizes.digits_tile)

    def memory(dtype: str, length: int) -> spec.Temporary:
        temporaries.append(spec.ArrayType(dtype, (m, length), (length, 1)))
        return spec.Temporary(len(temporaries) - 1)

    counts = memory("int32", tiles * 2**_DIGIT)
    passes = range(0, bits_of(x.dtype), _DIGIT)
    between = [
        (memory(x.dtype, n), memory("int32", n) if goal.at is not None else None)
        for _ in range(min(2, len(passes) - 1))
    ]
    pieces = spec.cdiv(tiles, _SUMMED)
    summed: dict[str, Any] = {"counts": counts, "totals": None, "tiles": tiles, "pieces": pieces}
    sums = []
    if pieces > 1:
        summed["totals"] = memory("int32", pieces * 2**_DIGIT)
        sums.append(_launch("sums", m * pieces, 16, summed, {"BLOCK": _SUMMED}))
    sums.append(_launch("starts", m * pieces, 16, summed, {"BLOCK": _SUMMED, "PIECES": _READ}))
    constants = {
        **key_constants(x.dtype, key, descending=descending),
        "BLOCK": sizes.digits_tile,
    }
    given: dict[str, Any] = {"x": source, "sx": lines.strides, "cx": lines.step}
    places: Where | None = None
    made: list[spec.Launch] = []
    for number, shift in enumerate(passes):
        common = {
            "counts": counts, "n": n, "tiles": tiles, "shift": shift, "shape": lines.lengths,
            **given,
        }  # fmt: skip
        to = goal
        if number < len(passes) - 1:
            to = Goal(*between[number % 2])
        moved = {
            "out": to.out, "at": to.at, "places": places, "so": to.strides, "co": to.step,
        }  # fmt: skip
        made += [
            _launch("tally", m * tiles, sizes.digits_warps, common, constants),
            *sums,
            _launch(
                "move", m * tiles, sizes.digits_warps, {**common, **moved},
                {**constants, "KEYS": to.keys},
            ),
        ]  # fmt: skip
        places = to.at
        given = {"x": to.out, "sx": None, "cx": 1}
    return made


def _launch(
    name: str, blocks: int, warps: int, args: dict[str, Any], constants: dict[str, Any]
) -> spec.Launch:
    along = ("n",) if "n" in args else ("tiles",)
    absent = {name: None for name, value in args.items() if value is None}
    # a stride of 1 is a constant, so that neighbours are seen to lie side by side
    ones = {name: 1 for name in ("cx", "co") if name in args and args[name] == 1}
    fixed = {**absent, **ones}
    numbers = ("n", "tiles", "pieces", "shift", "shape", "sx", "so", "cx", "co")
    given = {name: value for name, value in args.items() if name not in fixed}
    return spec.Launch(
        f"digits:{name}",
        given,
        {**fixed, **constants},
        (blocks, 1, 1),
        num_warps=warps,
        aligned_by=along,
        loose=tuple(name for name in numbers if name in given and name not in along),
    )
