"""One output element from one element of each input.

Parameters: inputs `a`, `b`, `c` (pointer, or scalar by value), `out`, number of elements `n`, the
common shape, each array's strides (see `layouts`), and the type `T` to compute in; a block of the
grid takes `STEPS` times `BLOCK` elements, with `ROWS` so that each `BLOCK` lies in one row;
`STREAM`: the result goes past the caches. bool is computed in int8 and stored as `!= 0`: so + is
or, * is and.
"""

import triton
import triton.language as tl

from .arithmetic import divide, gelu_tanh
from .arithmetic import exp as _exp
from .arithmetic import gelu as _gelu
from .arithmetic import maximum as _maximum
from .indexing import load, part, store


@triton.jit
def add(
    a, b, out, n, shape, sa, sb, so,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, T)
        y = load(b, i, mask, shape, sb, T)
        store(out, x + y, i, mask, shape, so, STREAM)


@triton.jit
def sub(
    a, b, out, n, shape, sa, sb, so,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, T)
        y = load(b, i, mask, shape, sb, T)
        store(out, x - y, i, mask, shape, so, STREAM)


@triton.jit
def mul(
    a, b, out, n, shape, sa, sb, so,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, T)
        y = load(b, i, mask, shape, sb, T)
        store(out, x * y, i, mask, shape, so, STREAM)


@triton.jit
def div(
    a, b, out, n, shape, sa, sb, so,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, T)
        y = load(b, i, mask, shape, sb, T)
        store(out, divide(x, y), i, mask, shape, so, STREAM)


@triton.jit
def maximum(
    a, b, out, n, shape, sa, sb, so,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, T)
        y = load(b, i, mask, shape, sb, T)
        store(out, _maximum(x, y), i, mask, shape, so, STREAM)


@triton.jit
def relu(
    a, out, n, shape, sa, so,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, T)
        store(out, tl.where(x < 0, tl.zeros_like(x), x), i, mask, shape, so, STREAM)


@triton.jit
def gelu(
    a, out, n, shape, sa, so, TANH: tl.constexpr,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, T)
        if TANH:
            y = gelu_tanh(x)
        else:
            y = _gelu(x)
        store(out, y, i, mask, shape, so, STREAM)


@triton.jit
def exp(
    a, out, n, shape, sa, so,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, T)
        store(out, _exp(x), i, mask, shape, so, STREAM)


@triton.jit
def where(
    a, b, c, out, n, shape, sa, sb, sc, so,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        condition = load(a, i, mask, shape, sa, tl.int1)
        x = load(b, i, mask, shape, sb, T)
        y = load(c, i, mask, shape, sc, T)
        store(out, tl.where(condition, x, y), i, mask, shape, so, STREAM)
