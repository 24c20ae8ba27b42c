"""Tile sizes of `tuning`, or what `xtarget tune` has found in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from xtarget import spec

from . import choices, tuning

if TYPE_CHECKING:
    from . import attention_tiles, tuning_order, tuning_windows
    from .layouts import Space

__all__ = [
    "attention",
    "flat",
    "hopper_attention",
    "outer_attention",
    "reduction",
    "rows",
    "scans",
    "shifted",
    "sorts",
    "windows",
]

_Tile = TypeVar("_Tile")
_TABLE = "kernels/plans/tuning.py"
#: The least length of a tile of matrix units.
_UNIT = 16
#: The least vector of a CPU: the run time makes shorter ones of single elements.
_VECTOR = 16
#: Elements of the least and the largest tile of digits.
_DIGITS = 64, 256


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
    few = tuning.has_few_registers(call)
    default = tuning.flat(call.vendor, operands, few_registers=few)
    strided = any(space.strides)
    # `stream` is no variant: what it saves here, who reads the result next may pay
    factors = {
        "strided" if strided else "block": (0.25, 0.5, 2, 4),
        "num_warps": (0.5, 2),
        **({"chunk": (0.25, 0.5, 2, 4)} if default.chunk else {}),
    }
    if call.vendor == "cpu":
        factors.pop("num_warps")
    words = {
        "kernel": function,
        "walk": "strided" if strided else "dense",
        "operands": str(operands),
        "bytes": str(nbytes),
    }

    powers = _powers("block", "strided", "num_warps")

    def holds(one: tuning.Flat) -> bool:
        return min(one.block, one.strided) >= _VECTOR and powers(one)

    return choices.chosen(
        call, "elementwise", default, lambda: choices.varied(default, factors, holds), words,
        {"n": space.size}, source=_TABLE, holds=holds,
    )  # fmt: skip


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

    powers = _powers("piece", "step", "tile", "per_warp")

    def holds(one: tuning.Rows) -> bool:
        return one.step >= _VECTOR and powers(one)

    return _varied(call, "rows", default, factors, holds, words, {"n": n, "rows": count})


def reduction(
    call: spec.Call, kept: Space, reduced: Space, *, along_kept: bool
) -> tuning.Reduction:
    """Of a reduction of the call's first argument.

    Args:
        along_kept: lanes lie side by side along the kept elements.
    """
    default = tuning.reduction(call.vendor, few_registers=tuning.has_few_registers(call))
    words = {
        "kernel": call.kernel,
        "lanes": "kept" if along_kept else "reduced",
        "dtype": call.args[0].dtype,
    }
    factors: dict[str, tuple[float, ...]] = {
        "tile": (0.25, 0.5, 2, 4),
        "blocks_per_unit": (0.25, 0.5, 2, 4),
        **({"columns": (0.5, 2)} if along_kept else {}),
        **(
            {"shortest": (0.25, 4), "whole": (0.25, 4)}
            if call.vendor == "cpu"
            else {"num_warps": (0.5, 2)}
        ),
    }

    powers = _powers("tile", "columns", "num_warps")

    def holds(one: tuning.Reduction) -> bool:
        return one.tile >= 4 * _VECTOR and powers(one)  # of which `moments` takes a part

    sizes = {"kept": kept.size, "reduced": reduced.size}
    return _varied(call, "reduction", default, factors, holds, words, sizes)


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

    powers = _powers("step", "costly", "tile", "columns")
    sizes = {"length": length, "rows": count}
    return _varied(call, "scan", default, factors, powers, words, sizes)


def _varied(
    call: spec.Call,
    table: str,
    default: _Tile,
    factors: dict[str, tuple[float, ...]],
    holds: Callable[[_Tile], bool],
    words: dict[str, str],
    sizes: dict[str, int],
) -> _Tile:
    found: _Tile = choices.chosen(
        call, table, default, lambda: choices.varied(default, factors, holds), words, sizes,
        source=_TABLES.get(table, _TABLE), holds=holds,
    )  # fmt: skip
    return found


#: Where the defaults are, of tables whose defaults are elsewhere.
_TABLES = {
    "attention": "kernels/plans/attention_tiles.py",
    "attention of sm_90": "kernels/plans/attention_tiles.py",
    "attention by outer products": "kernels/plans/attention_tiles.py",
    "convolution": "kernels/plans/tuning_windows.py",
    "convolution by outer products": "kernels/plans/tuning_windows.py",
    "sort": "kernels/plans/tuning_order.py",
}


def attention(
    call: spec.Call,
    default: attention_tiles.Tile,
    sizes: dict[str, int],
    operand: str,
    *,
    ranged: bool,
) -> attention_tiles.Tile:
    """Of attention by matrix units.

    Args:
        sizes: queries, keys, heads, and the size of one.
        operand: dtype of what is multiplied.
        ranged: queries see some of the keys only.
    """
    factors: dict[str, tuple[float, ...]] = {
        "queries": (0.5, 2), "keys": (0.5, 2), "num_warps": (0.5, 2), "num_stages": (0.5, 1.5),
        "part": (0.5, 2, 4),
    }  # fmt: skip
    powers = _powers("num_warps")

    def holds(one: attention_tiles.Tile) -> bool:
        return min(one.queries, one.keys) >= _UNIT and powers(one)

    words = {"dtype": operand, "keys": "some" if ranged else "all"}
    return _varied(call, "attention", default, factors, holds, words, sizes)


def hopper_attention(
    call: spec.Call, sizes: dict[str, int], size: int, right: bool
) -> attention_tiles.Hopper:
    """Of attention on sm_90.

    Args:
        sizes: of `hopper_attention.Shape`.
        size: of a head, as a tile has it.
        right: queries see no key after a certain one.
    """
    from . import attention_tiles  # kernels of other kinds need no table of these

    default = attention_tiles.hopper(size)
    words = {"size": str(size), "keys": "some" if right else "all"}
    lengths = {
        "queries": sizes["L"], "keys": sizes["S"], "heads": sizes["B"] * sizes["heads"]
    }  # fmt: skip
    factors: dict[str, tuple[float, ...]] = {"keys": (0.5,), "stages": (1.5,)}
    return _varied(call, "attention of sm_90", default, factors, lambda one: True, words, lengths)


def outer_attention(
    call: spec.Call, computed: str, lengths: dict[str, int]
) -> attention_tiles.Outer:
    """Of attention by sums of outer products.

    Args:
        lengths: queries, keys, heads, and the size of one.
    """
    from . import attention_tiles  # kernels of other kinds need no table of these

    default = attention_tiles.outer(computed, few_registers=tuning.has_few_registers(call))
    factors: dict[str, tuple[float, ...]] = {
        "queries": (0.5, 2), "width": (2,), "keys": (0.25, 0.5), "programs": (0.5, 2),
    }  # fmt: skip
    sums = default.queries * default.width

    def holds(one: attention_tiles.Outer) -> bool:
        own = one.queries * one.width
        return one.width >= _VECTOR and sums <= 2 * own <= 4 * sums and one.keys % one.width == 0

    words = {"dtype": computed}
    return _varied(call, "attention by outer products", default, factors, holds, words, lengths)


def shifted(
    call: spec.Call,
    default: tuning_windows.Shifted,
    sizes: dict[str, int],
    dtype: str,
) -> tuning_windows.Shifted:
    """Of a convolution by sums of outer products."""
    factors: dict[str, tuple[float, ...]] = {
        "channels": (0.5, 2), "positions": (2,), "steps": (0.25, 4), "line": (0.5, 2),
    }  # fmt: skip
    sums = default.channels * default.positions

    def holds(one: tuning_windows.Shifted) -> bool:
        own = one.channels * one.positions
        return min(one.positions, one.line) >= _VECTOR and sums <= 4 * own <= 8 * sums

    words = {"dtype": dtype}
    return _varied(call, "convolution by outer products", default, factors, holds, words, sizes)


def windows(
    call: spec.Call,
    function: str,
    default: tuning_windows.Tile,
    sizes: dict[str, int],
    dtype: str,
) -> tuning_windows.Tile:
    """Of a convolution as a product of matrices, by `convolution:function`."""
    factors: dict[str, tuple[float, ...]] = {
        "channels": (0.5, 2), "positions": (0.5, 2), "k": (0.5, 2), "num_warps": (0.5, 2),
        "num_stages": (0.5, 1.5),
    }  # fmt: skip
    powers = _powers("num_warps")

    def holds(one: tuning_windows.Tile) -> bool:
        return min(one.channels, one.positions, one.k) >= _UNIT and powers(one)

    words = {"kernel": function, "dtype": dtype}
    return _varied(call, "convolution", default, factors, holds, words, sizes)


def sorts(call: spec.Call, rows: int, n: int) -> tuning_order.Sorts:
    """Of `rows` rows of `n` elements that are put in order."""
    from . import tuning_order

    default = tuning_order.sorts(call.vendor)
    factors: dict[str, tuple[float, ...]] = {
        "tile": (0.5, 2),
        "block": (0.5, 2),
        **({"digits": (0.25, 4), "digits_tile": (0.25, 0.5)} if default.digits else {}),
        **({"digits_warps": (2, 4)} if default.digits else {}),
        **({"narrow": (0.5, 2), "narrow_warps": (0.5, 2)} if default.narrow else {}),
        **({} if call.vendor == "cpu" else {"num_warps": (0.5, 2)}),
    }

    def holds(one: tuning_order.Sorts) -> bool:
        least, most = _DIGITS
        changed = sum(a != b for a, b in zip(one, default, strict=True))
        return changed < 2 and one.tile >= one.run and least <= one.digits_tile <= most

    dtype = call.args[0].dtype if call.args else "none"  # of a random permutation
    words = {"kernel": call.kernel, "dtype": dtype}
    sizes = {"n": n, "rows": rows}
    return _varied(call, "sort", default, factors, holds, words, sizes)
