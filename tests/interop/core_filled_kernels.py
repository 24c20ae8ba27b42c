"""Kernels whose outputs or workspaces begin as something, for the tests of the compiled core."""

from functools import cache
from typing import Any

import triton
import triton.language as tl

import xtarget
from xtarget.spec import Out, cdiv, step

__all__ = ["ALIKE", "BEGINNINGS", "COUNT", "EVENS", "LATER", "PAIR", "SPLIT", "begun"]

COUNT, EVENS, SPLIT, LATER, PAIR = "f.count", "f.evens", "f.split", "f.later", "f.pair"
ALIKE = "f.alike"
_SIZES: dict[str, Any] = {"sizes": {"n": lambda c: c.x.size}, "constants": {"BLOCK": 64}}
_GRID: dict[str, Any] = {"grid": lambda c: (cdiv(c.n, 64),), **_SIZES}
#: What outputs begin as, by words of 8, 16 and 32 bits and what takes two words.
BEGINNINGS: dict[str, list[int | float]] = {
    "int8": [0, 7],
    "int16": [0, -3, 258],
    "float16": [0, float("-inf")],
    "int32": [-1, 70_000],
    "float32": [0, 1.5, float("-inf"), float("nan")],
    "int64": [0, -1, 5],
    "float64": [0, float("-inf")],
}


@xtarget.kernel(
    name=COUNT, inputs=("x",), outputs={"counts": Out(lambda c: ((8,), "int32"), init=0)}, **_GRID
)
@triton.jit
def count(x, counts, n, BLOCK: tl.constexpr):
    """How often each of 0 to 7 is there."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(x + i, i < n), 1, i < n)


@triton.jit
def _evens(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n), (i < n) & (i % 2 == 0))


@triton.jit
def _added(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i, i < n) + tl.load(x + i, i < n), i < n)


xtarget.kernel(name=EVENS, inputs=("x",), outputs={"y": "x"}, **_GRID)(_evens)


xtarget.kernel(name=ALIKE, inputs=("x",), outputs={"y": Out("x", init=3)}, in_place=True, **_GRID)(
    _evens
)


@cache
def begun(init: float) -> str:
    """The kernel whose result begins so: elements of `x` at even places."""
    name = f"f.begun[{init}]"
    xtarget.kernel(name=name, inputs=("x",), outputs={"y": Out("x", init=init)}, **_GRID)(_evens)
    return name


@xtarget.kernel(
    name=SPLIT, inputs=("x",), outputs={"y": Out("x", init=2)},
    workspaces={"half": Out("x", init=5)}, **_SIZES,
)  # fmt: skip
def split(c: Any) -> Any:
    """`y` is 2, to which is added a workspace: `x` at even places, and 5 at odd ones."""
    grid = (cdiv(c.n, 64),)
    yield step(_evens, grid, x=c.x, y=c.half)
    yield step(_added, grid, x=c.half, y=c.y)


@xtarget.kernel(name=LATER, inputs=("x", "more"), updates=("x",), **_SIZES)
def later(c: Any) -> Any:
    """x += more, twice."""
    grid = (cdiv(c.n, 64),)
    yield step(_added, grid, x=c.more, y=c.x)
    yield step(_added, grid, x=c.more, y=c.x)


@triton.jit
def _apart(x, least, most, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    tl.store(least + i, value, (i < n) & (value < 0))
    tl.store(most + i, value, (i < n) & (value >= 0))


xtarget.kernel(
    name=PAIR, inputs=("x",),
    outputs={"least": Out("x", init=float("inf")), "most": Out("x", init=float("-inf"))}, **_GRID,
)(_apart)  # fmt: skip
