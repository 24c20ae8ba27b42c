"""Kernels of the scenes."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_one(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + 1.0)


@triton.jit
def product(a, b, c, k, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for first in range(0, k, BLOCK):
        x = tl.load(a + i[:, None] * k + (first + i)[None, :])
        y = tl.load(b + (first + i)[:, None] * BLOCK + i[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + i[:, None] * BLOCK + i[None, :], total)


@triton.jit
def add_two(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + 2.0)
