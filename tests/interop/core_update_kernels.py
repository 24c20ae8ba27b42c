"""Kernels that write in place, or have several results, for the tests of the compiled core."""

from typing import Any

import triton
import triton.language as tl

import xtarget
from xtarget.spec import cdiv, step

__all__ = ["BOTH", "CHAIN", "GROW", "KEEP", "SHIFT"]

GROW, SHIFT, BOTH, KEEP, CHAIN = "u.grow", "u.shift", "u.both", "u.keep", "u.chain"
_SIZES: dict[str, Any] = {
    "grid": lambda c: (cdiv(c.n, 64),),
    "constants": {"BLOCK": 64},
}


@xtarget.kernel(
    name=GROW, inputs=("a", "b"), updates=("a",), strided=True,
    sizes={"n": lambda c: c.a.shape[0], "step_a": lambda c: c.a.strides[0],
           "step_b": lambda c: c.b.strides[0]}, **_SIZES,
)  # fmt: skip
@triton.jit
def grow(a, b, n, step_a, step_b, BLOCK: tl.constexpr):
    """a += b."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = tl.load(a + i * step_a, inside) + tl.load(b + i * step_b, inside)
    tl.store(a + i * step_a, total, inside)


@xtarget.kernel(
    name=SHIFT, inputs=("a", "by?"), updates=("a",), outputs={"old": "a"}, complete=True,
    sizes={"n": lambda c: c.a.size}, **_SIZES,
)  # fmt: skip
@triton.jit
def shift(a, by, old, n, BLOCK: tl.constexpr):
    """The old elements; a += by, or 1 where that is left out."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    value = tl.load(a + i, inside)
    tl.store(old + i, value, inside)
    tl.store(a + i, value + (1.0 if by is None else tl.load(by + i, inside)), inside)


@xtarget.kernel(
    name=BOTH, inputs=("a", "b"), complete=True,
    outputs={"total": "a", "product": lambda c: ((c.n, 1), "float64")},
    sizes={"n": lambda c: c.a.size}, **_SIZES,
)  # fmt: skip
@triton.jit
def both(a, b, total, product, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x, y = tl.load(a + i, inside), tl.load(b + i, inside)
    tl.store(total + i, x + y, inside)
    tl.store(product + i, (x * y).to(tl.float64), inside)


@xtarget.kernel(
    name=KEEP, inputs=("a",), outputs={"evens": "a", "odds": "a"},
    sizes={"n": lambda c: c.a.size}, **_SIZES,
)  # fmt: skip
@triton.jit
def keep(a, evens, odds, n, BLOCK: tl.constexpr):
    """Elements at even places, and at odd ones; the others stay as they are."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(a + i, i < n)
    tl.store(evens + i, value, (i < n) & (i % 2 == 0))
    tl.store(odds + i, value, (i < n) & (i % 2 == 1))


@triton.jit
def _double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) * 2, i < n)


@xtarget.kernel(
    name=CHAIN, inputs=("a",), updates=("a",), outputs={"twice": "a"}, complete=True,
    sizes={"n": lambda c: c.a.size}, constants={"BLOCK": 64}, workspaces={"half": "a"},
)  # fmt: skip
def chain(c: Any) -> Any:
    """`twice` is 2 a, and a becomes 4 a."""
    grid = (cdiv(c.n, 64),)
    yield step(_double, grid, x=c.a, y=c.half)
    yield step(_double, grid, x=c.a, y=c.twice)
    yield step(_double, grid, x=c.half, y=c.a)
