"""The kernels of the conformance suite. Triton is imported when one of them is compiled."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def vector_add(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(a + i, mask) + tl.load(b + i, mask), mask)


@triton.jit
def scale_shift(x, factor, shift, n, BLOCK: tl.constexpr):
    """In place, and not commutative: shows the order of launches."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(x + i, tl.load(x + i, mask) * factor + shift, mask)


@triton.jit
def slow_fill(x, value, rounds, n, BLOCK: tl.constexpr):
    """Stores `value` after a chain of `rounds` steps that a compiler cannot shorten."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = i.to(tl.int32)
    for _ in range(rounds):
        state = (state ^ (state >> 3)) * 1664525 + 1013904223
    # an odd chance that no test meets: keeps the chain alive
    tl.store(x + i, tl.where(state == 123456789, value + 1, value), i < n)


@triton.jit
def write_grid(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny, nz = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    row = out + 6 * (x + nx * (y + ny * z))
    tl.store(row + 0, x)
    tl.store(row + 1, y)
    tl.store(row + 2, z)
    tl.store(row + 3, nx)
    tl.store(row + 4, ny)
    tl.store(row + 5, nz)


@triton.jit
def write_scalars(
    integers, floats, b, i8, u8, i16, u16, i32, u32, i64, u64, half, brain, single, double
):
    tl.store(integers + 0, b.to(tl.int64))
    tl.store(integers + 1, i8.to(tl.int64))
    tl.store(integers + 2, u8.to(tl.int64))
    tl.store(integers + 3, i16.to(tl.int64))
    tl.store(integers + 4, u16.to(tl.int64))
    tl.store(integers + 5, i32.to(tl.int64))
    tl.store(integers + 6, u32.to(tl.int64))
    tl.store(integers + 7, i64)
    tl.store(integers + 8, u64.to(tl.int64))
    tl.store(floats + 0, half.to(tl.float64))
    tl.store(floats + 1, brain.to(tl.float64))
    tl.store(floats + 2, single.to(tl.float64))
    tl.store(floats + 3, double)


@triton.jit
def block_sum(x, out, N: tl.constexpr):
    """One sum per block, over several warps: through shared memory."""
    row = tl.program_id(0)
    tl.store(out + row, tl.sum(tl.load(x + row * N + tl.arange(0, N)), axis=0))
