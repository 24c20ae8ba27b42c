"""Plain Triton code, as a user writes it; nothing here knows xtarget."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, inside) + tl.load(y + i, inside), inside)


@triton.autotune(
    [triton.Config({"BLOCK": block}, num_warps=warps) for block in (64, 128) for warps in (1, 2)],
    key=["n"],
)
@triton.heuristics({"EVEN": lambda given: given["n"] % 128 == 0})
@triton.jit
def tuned_add(x, y, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, tl.load(x + i) + tl.load(y + i))
    else:
        tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.jit
def weighted(arrays, weights, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(arrays[0] + i) * weights[0] + tl.load(arrays[1] + i) * weights[1])


@triton.jit
def copy_block(source, target, row, column):
    target.store([row, column], source.load([row, column]) + 1)


@triton.jit
def scalars(out, whole, small, fraction, flag):
    tl.store(out, whole.to(tl.float64))
    tl.store(out + 1, small.to(tl.float64))
    tl.store(out + 2, fraction.to(tl.float64))
    tl.store(out + 3, flag.to(tl.float64))


@triton.jit
def grid_shape(out):
    place = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0)
    tl.store(out + place + tl.program_id(0), place + tl.program_id(0))


@triton.jit
def set_if_given(maybe, out):
    if maybe is not None:
        tl.store(out, tl.load(maybe))
    else:
        tl.store(out, -1)


@triton.jit
def checked(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.device_assert(tl.load(x + i, i < n, other=0.0) < 10.0, "a value is too large")
