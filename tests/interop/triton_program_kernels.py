"""Kernels of `test_triton_programs`, as strangers write them; nothing here knows xtarget."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rows_softmax(out, x, rows, columns, stride, BLOCK: tl.constexpr):
    """Each block takes every n-th row, where n blocks were started."""
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        c = tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + c, c < columns, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, 0))
        tl.store(out + row * stride + c, powers / tl.sum(powers, 0), c < columns)


@triton.jit
def scaled(x, out, by, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) * by)


@triton.jit
def cast(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


@triton.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y, input_precision="ieee"))


@triton.jit
def count_blocks(total):
    tl.atomic_add(total, 1)


@triton.jit
def maybe_refused(out, ASSEMBLY: tl.constexpr):
    value = 1
    if ASSEMBLY:
        value = tl.inline_asm_elementwise("nop;", "=r,r", [value], tl.int32, is_pure=True, pack=1)
    tl.store(out, value)


@triton.jit
def power_series(x, out, n, STAY: tl.constexpr):
    total = 0.0
    for i in tl.range(0, n, disable_licm=STAY):
        total = total * tl.load(x) + i
    tl.store(out, total)
