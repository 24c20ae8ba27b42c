"""Kernels whose results, or ways, come of the array `u`, that nobody wrote; and some that read it
and make nothing of it."""

import triton
import triton.language as tl


@triton.jit
def chooses(u, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.where(tl.load(u + i) > 0, 1, 2))


@triton.jit
def masks_a_store(u, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, i, mask=tl.load(u + i) > 5)


@triton.jit
def masks_a_load(u, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.load(o + i, mask=tl.load(u + i) > 5, other=0) + 1)


@triton.jit
def masks_an_atomic(u, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.atomic_add(o + i, 1, mask=tl.load(u + i) != 0)


@triton.jit
def branches(u, o, n, block: tl.constexpr):
    if tl.load(u) > 3:
        tl.store(o, 1)
    else:
        tl.store(o + 1, 2)


@triton.jit
def branches_on_all(u, o, n, block: tl.constexpr):
    if tl.max(tl.load(u + tl.arange(0, block))) > 3:
        tl.store(o, 1)


@triton.jit
def loops(u, o, n, block: tl.constexpr):
    for k in range(tl.load(u) & 7):
        tl.store(o + k, k)


@triton.jit
def loops_until(u, o, n, block: tl.constexpr):
    k = 0
    while tl.load(u + k) > 0:
        k += 1
    tl.store(o, k)


@triton.jit
def counts(u, o, n, block: tl.constexpr):
    tl.store(o, tl.sum((tl.load(u + tl.arange(0, block)) > 0).to(tl.int32)))


@triton.jit
def sorts(u, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.sort(tl.load(u + i)))


@triton.jit
def divides(u, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    x = 1.0 / tl.load(u + i).to(tl.float32)
    tl.store(o + i, tl.where(tl.math.div_rn(x, 3.0) == 0.5, 1, 0))


@triton.jit
def adds_wide(u, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    wide = tl.load(u + i).to(tl.int64) + n
    tl.store(o + i, (wide >> 32).to(tl.int32))


@triton.jit
def counts_in_it(u, o, n, block: tl.constexpr):
    tl.store(o + tl.arange(0, block), tl.atomic_add(u + tl.arange(0, block), 1))


@triton.jit
def right_where(u, o, n, block: tl.constexpr):
    """The lanes behind n hold nothing, and nothing is taken of them."""
    i = tl.arange(0, block)
    x = tl.load(o + i, mask=i < n)
    tl.store(o + i, tl.where((x > 0) & (i < n), 1, 2))


@triton.jit
def right_mask(u, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    x = tl.load(o + i, mask=i < n)
    tl.store(o + i, 7, mask=(i < n) & (x >= 0))


@triton.jit
def right_sum(u, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    x = tl.load(o + i, mask=i < n)
    tl.store(o, tl.sum(tl.where((i < n) & (x > 2), x, 0)))


@triton.jit
def right_any(u, o, n, block: tl.constexpr):
    """That one bit is known to be set settles it, whatever the others are."""
    i = tl.arange(0, block)
    x = tl.load(o + i, mask=i < n)
    found = tl.max(((i < n) & (x >= 0)).to(tl.int32))
    if found > 0:
        tl.store(o, 9)


@triton.jit
def right_unused(u, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    x = tl.load(u + i)
    if n > 1000:
        tl.store(o + i, x)
    tl.store(o + i, tl.where(n > 1000, x, 4))


@triton.jit
def right_copy_in_private(u, o, n, block: tl.constexpr):
    """Through shared memory, with lanes that hold nothing, which are masked behind it."""
    i = tl.arange(0, block)
    x = tl.flip(tl.load(o + i, mask=i < n))
    tl.store(o + i, tl.where(block - 1 - i < n, x, 0), mask=block - 1 - i < n)


@triton.jit
def right_swap(u, o, n, block: tl.constexpr):
    """A place's old value does not matter where all of it is exchanged."""
    tl.atomic_xchg(u + tl.arange(0, block), 3)
    tl.debug_barrier()
    tl.store(o + tl.arange(0, block), tl.load(u + tl.arange(0, block)))
