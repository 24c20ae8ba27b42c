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


@triton.autotune(
    [triton.Config({"BLOCK": block}, num_warps=1) for block in (32, 64)],
    key=["n"],
    reset_to_zero=["total"],
    restore_value=["x"],
)
@triton.jit
def tuned_count(x, total, n, BLOCK: tl.constexpr):
    """Wrong if it runs twice on the same memory."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n, other=0) + 1
    tl.store(x + i, values, i < n)
    tl.atomic_add(total, tl.sum(tl.where(i < n, values, 0)))


def _fill(given):
    given["out"][...] = given["BLOCK"]


@triton.autotune([triton.Config({"BLOCK": block}, pre_hook=_fill) for block in (16, 32)], key=["n"])
@triton.jit
def tuned_prepared(out, n, BLOCK: tl.constexpr):
    """Its configurations' pre-hook fills `out` before every launch."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(out + i, i < n) + 1, i < n)


@triton.jit
def copy_described(source, target, rows, columns, BLOCK: tl.constexpr):
    here = tl.make_tensor_descriptor(source, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    there = tl.make_tensor_descriptor(target, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    place = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    there.store(place, here.load(place) + 1)


@triton.jit
def printing_pointer(x):
    tl.device_print("a ptr, constant syncscope(", x)
    tl.device_assert(tl.load(x) < 100, "the value at ptr is too large")


@triton.jit
def sums(x, total, running, N: tl.constexpr):
    i = tl.arange(0, N)
    values = tl.load(x + i)
    tl.store(total, tl.sum(values))
    tl.store(running + i, tl.cumsum(values))
