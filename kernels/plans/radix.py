"""From call to launches: rows in order by the digits of their keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xtarget import spec

__all__ = ["Pair", "PairOf", "bits_of", "by_digits", "key_constants", "radix"]

#: A row that is worth counters for every digit.
_SHORTEST = 129
#: Elements of a piece, at least.
_PIECE = 8192
_NUMBERS = ("n", "pieces", "chunk", "shift", "shape", "sx", "cx", "length")
_BITS = {"bool": 8, "bfloat16": 16}

Pair = tuple[spec.Temporary, spec.Temporary]
#: From the elements of a row to memory for keys and places, in turns.
PairOf = Callable[[int], Pair]


def by_digits(call: spec.Call, n: int, keep: int) -> bool:
    """Whether rows of `n` elements, of which `keep` matter, are ordered so: a block has to be one
    thread, and most elements have to be needed.
    """
    return call.vendor == "cpu" and n >= _SHORTEST and keep * 8 >= n and n < 2**31


def bits_of(dtype: str) -> int:
    """The bits of an element."""
    return _BITS.get(dtype) or int(dtype.removeprefix("u").lstrip("floatin"))


def key_constants(dtype: str, key: str, *, descending: bool) -> dict[str, Any]:
    """Return what kernels have to know to make digits of the keys, of dtype `key`, of elements."""
    bits = bits_of(dtype)
    narrow = dtype.startswith("uint") and bits < int(key.removeprefix("int"))
    return {
        "K": spec.dtype_constant(key),
        "DESCENDING": descending,
        "BITS": bits,
        "SIGNED": not narrow and dtype != "bool",
    }


def radix(
    call: spec.Call,
    x: spec.ArrayType,
    source: spec.Argument,
    rows: tuple[int, tuple[int, ...], tuple[int, ...]],
    line: tuple[int, int],
    key: str,
    temporaries: list[spec.ArrayType],
    pair: PairOf,
    *,
    descending: bool,
) -> tuple[list[spec.Launch], Pair]:
    """The launches, and where the keys and places are at last.

    Args:
        rows: how many, their lengths and strides.
        line: elements of a row, and the stride between them.
        key: dtype of the keys.
        temporaries: the plan's, to which the counters come.
        pair: memory for keys and places, in turns.
    """
    m, lengths, sx = rows
    n, cx = line
    pieces = max(1, min(n // _PIECE, spec.cdiv(4 * call.compute_units, m)))
    chunk = spec.cdiv(n, pieces)
    temporaries.append(spec.ArrayType("int32", (m, pieces * 256), (pieces * 256, 1)))
    counts = spec.Temporary(len(temporaries) - 1)
    constants = {
        "D": spec.dtype_constant(x.dtype),
        **key_constants(x.dtype, key, descending=descending),
    }
    launches: list[spec.Launch] = []
    found: Pair | None = None
    for shift in range(0, bits_of(x.dtype), 8):
        goal = pair(n)
        given: dict[str, spec.Argument] = {
            "counts": counts, "n": n, "pieces": pieces, "chunk": chunk, "shift": shift,
            "shape": lengths, "sx": sx, "cx": cx,
        }  # fmt: skip
        if found is None:
            given["x"], absent = source, ("keys", "places")
        else:
            given["keys"], absent = found[0], ("x",)
        moved = {"keys_out": goal[0], "places_out": goal[1]}
        if found is not None:
            moved["places"] = found[1]
        launches += [
            _launch("count", m * pieces, given, absent[:1], constants),
            _launch("starts", m, {"counts": counts, "length": pieces * 256}, (), {}),
            _launch("move", m * pieces, {**given, **moved}, absent, constants),
        ]
        found = goal
    assert found is not None
    return launches, found


def _launch(
    name: str,
    blocks: int,
    args: dict[str, spec.Argument],
    absent: tuple[str, ...],
    constants: dict[str, Any],
) -> spec.Launch:
    none = dict.fromkeys(absent)
    return spec.Launch(
        f"radix:{name}",
        args,
        {**none, **constants},
        (blocks, 1, 1),
        num_warps=1,
        aligned_by=(),
        loose=tuple(name for name in _NUMBERS if name in args),
    )
