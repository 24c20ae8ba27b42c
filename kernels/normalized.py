"""Elements made smaller by what a reduction has found of those around them."""

import triton
import triton.language as tl

from .arithmetic import divide, sqrt
from .indexing import at, load, part, steps_of, store


@triton.jit
def centred(
    x, mean, variance, weight, bias, out, n, eps, shape, sx, sm, sv, sw, sb, so,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias, of which the last two may be None."""
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        value = load(x, i, mask, shape, sx, T)
        value -= tl.load(at(mean, i, shape, sm), mask=mask, other=0).to(T)
        spread = tl.load(at(variance, i, shape, sv), mask=mask, other=1).to(T)
        value = divide(value, sqrt(spread + eps))
        if weight is not None:
            value *= tl.load(at(weight, i, shape, sw), mask=mask, other=0).to(T)
        if bias is not None:
            value += tl.load(at(bias, i, shape, sb), mask=mask, other=0).to(T)
        store(out, value, i, mask, shape, so, False)


@triton.jit
def scaled(
    x, length, out, n, eps, shape, sx, sl, so,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """x / max(length, eps)."""
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        value = load(x, i, mask, shape, sx, T)
        size = tl.load(at(length, i, shape, sl), mask=mask, other=1).to(T)
        size = tl.where(size < eps, size * 0 + eps, size)
        store(out, divide(value, size), i, mask, shape, so, False)
