"""Kernels with locks, calls, small floats and other things that few kernels need together."""

import triton
import triton.language as tl


@triton.jit
def scaled(
    a, a_scale, b, b_scale, o,
    m: tl.constexpr, n: tl.constexpr, k: tl.constexpr,
    a_kind: tl.constexpr, b_kind: tl.constexpr, a_pack: tl.constexpr, b_pack: tl.constexpr,
):  # fmt: skip
    """A product of two kinds of small floats; bf16 has no scale."""
    rows, columns, groups = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k // 32)
    x = tl.load(a + rows[:, None] * (k // a_pack) + tl.arange(0, k // a_pack)[None, :])
    y = tl.load(b + tl.arange(0, k // b_pack)[:, None] * n + columns[None, :])
    x_scale, y_scale = None, None
    if a_kind != "bf16":
        x_scale = tl.load(a_scale + rows[:, None] * (k // 32) + groups[None, :])
    if b_kind != "bf16":
        y_scale = tl.load(b_scale + columns[:, None] * (k // 32) + groups[None, :])
    total = tl.dot_scaled(x, x_scale, a_kind, y, y_scale, b_kind)
    tl.store(o + rows[:, None] * n + columns[None, :], total)


@triton.jit
def one_at_a_time(lock, o):
    """Every block adds to the same place, without an atomic addition."""
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.debug_barrier()
    tl.store(o, tl.load(o) + tl.program_id(0) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def all_together(arrived, x, o, block: tl.constexpr):
    """Blocks wait for each other, and then read what their neighbour wrote."""
    me, all_ = tl.program_id(0), tl.num_programs(0)
    i = tl.arange(0, block)
    tl.store(x + me * block + i, me * 1000 + i)
    tl.debug_barrier()
    tl.atomic_add(arrived, 1)
    while tl.atomic_add(arrived, 0) < all_:
        pass
    tl.debug_barrier()
    tl.store(o + me * block + i, tl.load(x + (me + 1) % all_ * block + i, volatile=True))


@triton.jit(noinline=True)
def _scaled_sum(x, y, factor, block: tl.constexpr):
    i = tl.arange(0, block)
    a, b = tl.load(x + i), tl.load(y + i)
    return tl.sum(a * b) * factor + tl.max(a)


@triton.jit(noinline=True)
def _twice(x, y, block: tl.constexpr):
    return _scaled_sum(x, y, 2.0, block) - _scaled_sum(y, x, 0.5, block)


@triton.jit
def calls(x, y, o, block: tl.constexpr):
    x += tl.program_id(0) * block
    y += tl.program_id(0) * block
    total = _twice(x, y, block) + _scaled_sum(x, x, 1.0, block)
    tl.store(o + tl.program_id(0), total)


@triton.jit
def eight_bits_and_halves(x, small, o, block: tl.constexpr):
    """Half precision beside a cast to 8 bits, which changes what an overflow gives."""
    i = tl.arange(0, block)
    value = tl.load(x + i)
    tl.store(small + i, value.to(small.dtype.element_ty))
    tl.store(o + i, value * 1.5 + 0.25)


@triton.jit
def unpacked_four_bits(x, o, block: tl.constexpr):
    """Pairs of e2m1 to bf16, by shifts and choices of 16 bits."""
    i = tl.arange(0, block)
    byte = tl.load(x + i)
    low, high = byte & 7, byte & 0x70
    first = (low.to(tl.uint16) << 6) | ((byte & 8).to(tl.uint16) << 12)
    second = (high.to(tl.uint16) << 2) | ((byte & 0x80).to(tl.uint16) << 8)
    first = tl.where((low & 6) != 0, first + (126 << 7), first)
    second = tl.where((high & 0x60) != 0, second + (126 << 7), second)
    first = tl.where(low == 1, 16128 | (first & 0x8000), first)
    second = tl.where(high == 0x10, 16128 | (second & 0x8000), second)
    both = tl.interleave(first, second).to(tl.bfloat16, bitcast=True)
    tl.store(o + tl.arange(0, 2 * block), both)


@triton.jit
def clamped(x, low, high, o, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.clamp(tl.load(x + i), tl.load(low + i), tl.load(high + i)))


@triton.jit
def last_half(o, n):
    """Changes the last element of halves, whose word reaches beyond them."""
    tl.atomic_cas(o + n - 1, tl.full((), 0.0, tl.float16), tl.full((), 3.0, tl.float16))


@triton.jit
def narrow_product(a, b, o, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    x = tl.load(a + rows[:, None] * k + inner[None, :])
    y = tl.load(b + inner[:, None] * n + columns[None, :])
    tl.store(o + rows[:, None] * n + columns[None, :], tl.dot(x, y, input_precision="ieee"))
