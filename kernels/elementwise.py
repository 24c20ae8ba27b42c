"""One output element from one element of each input: by whichever function is `operator`.

Parameters: inputs `a`, `b`, `c`, `d` (pointer, or scalar by value), `out`, number of elements `n`,
the common shape, each array's strides (see `layouts`), and the type that each input is computed in
(`TA`...); a block of the grid takes `STEPS` times `BLOCK` elements, with `ROWS` so that each
`BLOCK` lies in one row; `STREAM`: the result goes past the caches. A result is converted to the
output's type, for bool by `!= 0`.
"""

import triton
import triton.language as tl

from .indexing import load, part, steps_of, store


@triton.jit
def operator(*elements):
    """Stands for the device function that a kernel is compiled with (`Launch.source`)."""
    return elements[0]


@triton.jit
def _two(a, b, i, mask, shape, sa, sb, TA: tl.constexpr, TB: tl.constexpr):
    return load(a, i, mask, shape, sa, TA), load(b, i, mask, shape, sb, TB)


@triton.jit
def _three(
    a, b, c, i, mask, shape, sa, sb, sc, TA: tl.constexpr, TB: tl.constexpr, TC: tl.constexpr
):
    x, y = _two(a, b, i, mask, shape, sa, sb, TA, TB)
    return x, y, load(c, i, mask, shape, sc, TC)


@triton.jit
def _four(
    a, b, c, d, i, mask, shape, sa, sb, sc, sd,
    TA: tl.constexpr, TB: tl.constexpr, TC: tl.constexpr, TD: tl.constexpr,
):  # fmt: skip
    x, y, z = _three(a, b, c, i, mask, shape, sa, sb, sc, TA, TB, TC)
    return x, y, z, load(d, i, mask, shape, sd, TD)


@triton.jit
def _store_two(out, out2, results, i, mask, shape, so, so2, STREAM: tl.constexpr):
    store(out, results[0], i, mask, shape, so, STREAM)
    store(out2, results[1], i, mask, shape, so2, STREAM)


@triton.jit
def unary(
    a, out, n, shape, sa, so, TA: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x = load(a, i, mask, shape, sa, TA)
        store(out, operator(x), i, mask, shape, so, STREAM)


@triton.jit
def binary(
    a, b, out, n, shape, sa, sb, so, TA: tl.constexpr, TB: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x, y = _two(a, b, i, mask, shape, sa, sb, TA, TB)
        store(out, operator(x, y), i, mask, shape, so, STREAM)


@triton.jit
def ternary(
    a, b, c, out, n, shape, sa, sb, sc, so, TA: tl.constexpr, TB: tl.constexpr, TC: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x, y, z = _three(a, b, c, i, mask, shape, sa, sb, sc, TA, TB, TC)
        store(out, operator(x, y, z), i, mask, shape, so, STREAM)


@triton.jit
def quaternary(
    a, b, c, d, out, n, shape, sa, sb, sc, sd, so,
    TA: tl.constexpr, TB: tl.constexpr, TC: tl.constexpr, TD: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        x, y, z, w = _four(a, b, c, d, i, mask, shape, sa, sb, sc, sd, TA, TB, TC, TD)
        store(out, operator(x, y, z, w), i, mask, shape, so, STREAM)


@triton.jit
def unary_two(
    a, out, out2, n, shape, sa, so, so2, TA: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        results = operator(load(a, i, mask, shape, sa, TA))
        _store_two(out, out2, results, i, mask, shape, so, so2, STREAM)


@triton.jit
def binary_two(
    a, b, out, out2, n, shape, sa, sb, so, so2, TA: tl.constexpr, TB: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        results = operator(*_two(a, b, i, mask, shape, sa, sb, TA, TB))
        _store_two(out, out2, results, i, mask, shape, so, so2, STREAM)


@triton.jit
def ternary_two(
    a, b, c, out, out2, n, shape, sa, sb, sc, so, so2,
    TA: tl.constexpr, TB: tl.constexpr, TC: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        results = operator(*_three(a, b, c, i, mask, shape, sa, sb, sc, TA, TB, TC))
        _store_two(out, out2, results, i, mask, shape, so, so2, STREAM)


@triton.jit
def quaternary_two(
    a, b, c, d, out, out2, n, shape, sa, sb, sc, sd, so, so2,
    TA: tl.constexpr, TB: tl.constexpr, TC: tl.constexpr, TD: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        results = operator(*_four(a, b, c, d, i, mask, shape, sa, sb, sc, sd, TA, TB, TC, TD))
        _store_two(out, out2, results, i, mask, shape, so, so2, STREAM)
