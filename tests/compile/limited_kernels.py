"""Kernels that tests/compile/test_compile_seconds.py compiles in a child process."""

import triton
import triton.language as tl

FACTOR = tl.constexpr(3)


@triton.jit
def quick(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, i < n) * FACTOR, i < n)


@triton.jit
def slow(x, o, n, BLOCK: tl.constexpr):
    """6,000 steps: more than a minute of Triton's passes."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    for step in tl.static_range(6000):
        v = tl.where(v > step, v * 1.5, v + step)
    tl.store(o + i, v, i < n)


@triton.autotune([triton.Config({"BLOCK": 64})], key=[])
@triton.jit
def tuned(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, i < n), i < n)
