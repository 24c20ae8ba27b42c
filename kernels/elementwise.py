"""One output element from one element of each input: by whichever function is `operator`.

Parameters: inputs `a`, `b`, `c`, `d` (pointer, or scalar by value), `out`, number of elements `n`,
the common shape, each array's strides (see `layouts`), and the type that each input is computed in
(`TA`...); a block of the grid takes `STEPS` times `BLOCK` elements, with `ROWS` so that each
`BLOCK` lies in one row; `STREAM`: the result goes past the caches. A result is converted to the
output's type, for bool by `!= 0`.
"""

import triton
import triton.language as tl

from .indexing import load, part, store


@triton.jit
def operator(*elements):
    """Stands for the device function that a kernel is compiled with (`Launch.source`)."""
    return elements[0]


@triton.jit
def unary(
    a, out, n, shape, sa, so, TA: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, TA)
        store(out, operator(x), i, mask, shape, so, STREAM)


@triton.jit
def binary(
    a, b, out, n, shape, sa, sb, so, TA: tl.constexpr, TB: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, TA)
        y = load(b, i, mask, shape, sb, TB)
        store(out, operator(x, y), i, mask, shape, so, STREAM)


@triton.jit
def ternary(
    a, b, c, out, n, shape, sa, sb, sc, so, TA: tl.constexpr, TB: tl.constexpr, TC: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, TA)
        y = load(b, i, mask, shape, sb, TB)
        z = load(c, i, mask, shape, sc, TC)
        store(out, operator(x, y, z), i, mask, shape, so, STREAM)


@triton.jit
def quaternary(
    a, b, c, d, out, n, shape, sa, sb, sc, sd, so,
    TA: tl.constexpr, TB: tl.constexpr, TC: tl.constexpr, TD: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, TA)
        y = load(b, i, mask, shape, sb, TB)
        z = load(c, i, mask, shape, sc, TC)
        w = load(d, i, mask, shape, sd, TD)
        store(out, operator(x, y, z, w), i, mask, shape, so, STREAM)


@triton.jit
def unary_two(
    a, out, out2, n, shape, sa, so, so2, TA: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        first, second = operator(load(a, i, mask, shape, sa, TA))
        store(out, first, i, mask, shape, so, STREAM)
        store(out2, second, i, mask, shape, so2, STREAM)


@triton.jit
def binary_two(
    a, b, out, out2, n, shape, sa, sb, so, so2, TA: tl.constexpr, TB: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, TA)
        y = load(b, i, mask, shape, sb, TB)
        first, second = operator(x, y)
        store(out, first, i, mask, shape, so, STREAM)
        store(out2, second, i, mask, shape, so2, STREAM)


@triton.jit
def ternary_two(
    a, b, c, out, out2, n, shape, sa, sb, sc, so, so2,
    TA: tl.constexpr, TB: tl.constexpr, TC: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, TA)
        y = load(b, i, mask, shape, sb, TB)
        z = load(c, i, mask, shape, sc, TC)
        first, second = operator(x, y, z)
        store(out, first, i, mask, shape, so, STREAM)
        store(out2, second, i, mask, shape, so2, STREAM)


@triton.jit
def quaternary_two(
    a, b, c, d, out, out2, n, shape, sa, sb, sc, sd, so, so2,
    TA: tl.constexpr, TB: tl.constexpr, TC: tl.constexpr, TD: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(STEPS):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, TA)
        y = load(b, i, mask, shape, sb, TB)
        z = load(c, i, mask, shape, sc, TC)
        w = load(d, i, mask, shape, sd, TD)
        first, second = operator(x, y, z, w)
        store(out, first, i, mask, shape, so, STREAM)
        store(out2, second, i, mask, shape, so2, STREAM)
