"""Kernels on elements of 8 and 16 bits of which every second one is written: a register holds both
kinds."""

import triton
import triton.language as tl


@triton.jit
def _half_written(u, block: tl.constexpr):
    """Elements of `u`; the even ones are 3."""
    i = tl.arange(0, block)
    tl.store(u + 2 * i, (i * 0 + 3).to(u.dtype.element_ty))
    tl.debug_barrier()
    j = tl.arange(0, 2 * block)
    return tl.load(u + j), j


@triton.jit
def copies(u, o, n, block: tl.constexpr):
    x, j = _half_written(u, block)
    tl.store(o + j, x)


@triton.jit
def takes_the_others(u, o, n, block: tl.constexpr):
    x, j = _half_written(u, block)
    tl.store(o + j, tl.where(j % 2 == 1, x, 0))


@triton.jit
def computes(u, o, n, block: tl.constexpr):
    x, j = _half_written(u, block)
    tl.store(o + j, x + x, mask=j != 6)


@triton.jit
def decides(u, o, n, block: tl.constexpr):
    x, j = _half_written(u, block)
    tl.store(o + j, tl.where(x > 2, 1, 0).to(o.dtype.element_ty))


@triton.jit
def adds_up(u, o, n, block: tl.constexpr):
    x, _ = _half_written(u, block)
    tl.store(o, tl.sum(x.to(tl.float32), axis=0).to(o.dtype.element_ty))


@triton.jit
def turns_round(u, o, n, block: tl.constexpr):
    x, j = _half_written(u, block)
    tl.store(o + j, tl.flip(x), mask=j % 2 == 0)


@triton.jit
def right_choice(u, o, n, block: tl.constexpr):
    x, j = _half_written(u, block)
    tl.store(o + j, tl.where(j % 2 == 0, x, 0))


@triton.jit
def right_product(u, o, n, block: tl.constexpr):
    x, j = _half_written(u, block)
    tl.store(o + j, tl.where(j % 2 == 0, x * x + x, 0))


@triton.jit
def right_mask(u, o, n, block: tl.constexpr):
    x, j = _half_written(u, block)
    tl.store(o + j, x, mask=j % 2 == 0)


@triton.jit
def right_sum(u, o, n, block: tl.constexpr):
    x, j = _half_written(u, block)
    y = tl.where((j % 2 == 0) & (x > 2), x, 0)
    tl.store(o, tl.sum(y.to(tl.float32), axis=0).to(o.dtype.element_ty))


@triton.jit
def right_turn(u, o, n, block: tl.constexpr):
    """Through shared memory, where bytes are apart too."""
    x, j = _half_written(u, block)
    y = tl.flip(x)
    tl.store(o + j, tl.where(j % 2 == 1, y, 0))


@triton.jit
def right_split(u, o, n, block: tl.constexpr):
    x, _ = _half_written(u, block)
    first, _ = tl.split(tl.reshape(x, (block, 2)))
    tl.store(o + tl.arange(0, block), first)
