"""Kernels of `test_triton_seconds`: they take long in different parts of Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def no_dot(x, out, N: tl.constexpr):
    """It passes the front end, and no stage after."""
    i = tl.arange(0, N)
    value = tl.inline_asm_elementwise(
        "nop;", "=r,r", [tl.load(x + i)], tl.float32, is_pure=True, pack=1
    )
    tl.store(out + i, value)


@triton.jit
def unrolled(x, out, STEPS: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for step in tl.static_range(STEPS):
        v = tl.where(v > step, v * 1.5, v + step)
    tl.store(out + i, v)


@triton.jit
def endless(x, out):
    """In the front end: a loop that it has to unroll."""
    v = tl.load(x)
    for step in tl.static_range(1 << 40):
        v += step
    tl.store(out, v)
