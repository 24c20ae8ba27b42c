"""Tile sizes of `tuning`, or what `xtarget tune` has found in their place."""

from __future__ import annotations

from typing import Any

from xtarget import spec

from . import choices, tuning
from .layouts import Space

__all__ = ["flat", "reduction", "rows", "scans"]

_TABLE = "kernels/plans/tuning.py"


def _powers(*names: str) -> Any:
    """Whether these numbers are powers of two."""
    return lambda one: all(v & (v - 1) == 0 for v in (getattr(one, name) for name in names))


def flat(call: spec.Call, function: str, space: Space, operands: int, nbytes: int) -> tuning.Flat:
    """Of an elementwise kernel.

    Args:
        space: as `collapse` gives it, of the result and the operands.
        operands: how many arrays are read.
        nbytes: of an element of the result.
    """
    default = tuning.flat(call.vendor, operands)
    strided = any(space.strides)
    factors = {
        "strided" if strided else "block": (0.25, 0.5, 2, 4),
        "num_warps": (0.5, 2),
        **({"chunk": (0.25, 0.5, 2, 4)} if default.chunk else {}),
        **({"stream": (1 / 4, 4, 64)} if default.stream else {}),
    }
    if call.vendor == "cpu":
        factors.pop("num_warps")
    words = {
        "kernel": function,
        "walk": "strided" if strided else "dense",
        "operands": str(operands),
        "bytes": str(nbytes),
    }

    def variants() -> list[tuning.Flat]:
        return choices.varied(default, factors, _powers("block", "strided", "num_warps"))

    return choices.chosen(
        call, "elementwise", default, variants, words, {"n": space.size}, source=_TABLE
    )


def rows(
    call: spec.Call, source: str, n: int, count: int, nbytes: int, *, across: bool
) -> tuning.Rows:
    """Of a kernel over `count` rows of `n` elements.

    Args:
        nbytes: of an element.
        across: lanes go across rows.
    """
    softmax = source.startswith("softmaxes:")
    default = tuning.walks(call.vendor, n * nbytes, n * count * nbytes, softmax=softmax)
    words = {
        "kernel": source,
        "lanes": "across rows" if across else "along rows",
        "bytes": str(nbytes),
    }
    factors: dict[str, tuple[float, ...]] = {
        "piece": (0.25, 0.5, 2, 4),
        "step": (0.25, 0.5, 2, 4),
        "tile": (0.5, 2, 4),
        "per_warp": (0.25, 0.5, 2, 4),
        **({"together": (0.25, 0.5, 2, 4)} if default.walks else {}),
        **({"columns": (0.25, 0.5)} if default.columns else {}),
    }
    if call.vendor == "cpu":
        factors.pop("per_warp")  # a block is one thread

    def variants() -> list[tuning.Rows]:
        return choices.varied(default, factors, _powers("piece", "step", "tile", "per_warp"))

    sizes = {"n": n, "rows": count}
    return choices.chosen(call, "rows", default, variants, words, sizes, source=_TABLE)


def reduction(
    call: spec.Call, kept: Space, reduced: Space, *, along_kept: bool
) -> tuning.Reduction:
    """Of a reduction of the call's first argument.

    Args:
        along_kept: lanes lie side by side along the kept elements.
    """
    default = tuning.reduction(call.vendor)
    words = {
        "kernel": call.kernel,
        "lanes": "kept" if along_kept else "reduced",
        "dtype": call.args[0].dtype,
    }
    factors: dict[str, tuple[float, ...]] = {
        "tile": (0.25, 0.5, 2, 4),
        "blocks_per_unit": (0.25, 0.5, 2, 4),
        **({"columns": (0.5, 2)} if along_kept else {}),
        **({"shortest": (0.25, 4)} if call.vendor == "cpu" else {"num_warps": (0.5, 2)}),
    }

    def variants() -> list[tuning.Reduction]:
        return choices.varied(default, factors, _powers("tile", "columns", "num_warps"))

    sizes = {"kept": kept.size, "reduced": reduced.size}
    return choices.chosen(call, "reduction", default, variants, words, sizes, source=_TABLE)


def scans(call: spec.Call, length: int, count: int) -> tuning.Scans:
    """Of a scan of `count` rows of `length` elements."""
    default = tuning.scans(call.vendor)
    words = {"kernel": call.kernel, "dtype": call.args[0].dtype}
    factors: dict[str, tuple[float, ...]] = {
        "step": (0.25, 0.5, 2),
        "costly": (0.5, 2),
        "tile": (0.5, 2),
        "columns": (0.5, 2),
        "blocks_per_unit": (0.5, 2),
        **({} if call.vendor == "cpu" else {"num_warps": (0.5, 2)}),
    }

    def variants() -> list[tuning.Scans]:
        return choices.varied(default, factors, _powers("step", "costly", "tile", "columns"))

    sizes = {"length": length, "rows": count}
    return choices.chosen(call, "scan", default, variants, words, sizes, source=_TABLE)
