"""Numbers drawn by Philox 4x32-10, which makes them of a counter and a key: no state, and the same
words on every device.

The key is the seed, a counter is the `offset` of the call and the number of a group of elements.
Numbers of 32 bits (and of the half types and float32) take a word each, four of a counter; wide
ones take two words, the first one being the high half.

Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, section 3.3.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import divide, sqrt
from .indexing import element, memory, offset, positions


@triton.jit
def words(seed, start, i):
    """The four words of counter `start` + `i`."""
    counter = i.to(tl.uint64) + start.to(tl.uint64)
    low = counter.to(tl.uint32)
    high = (counter >> 32).to(tl.uint32)
    none = low * 0
    return tl.philox(seed, low, high, none, none)


@triton.jit
def wide(high, low):
    """64 bits of two words."""
    return (high.to(tl.uint64) << 32) | low.to(tl.uint64)


@triton.jit
def unit(bits, D: tl.constexpr, T: tl.constexpr):
    """A number of type `D` from 0 to below 1, all of them equally far from the next, as type `T`:
    no bit of it is rounded.
    """
    if D.is_fp64():
        return (bits >> 11).to(T) * (2.0**-53)
    elif D.is_fp16():
        return (bits >> 21).to(T) * (2.0**-11)
    elif D.is_bf16():
        return (bits >> 24).to(T) * (2.0**-8)
    else:
        return (bits >> 8).to(T) * (2.0**-24)


@triton.jit
def above_zero(bits, T: tl.constexpr):
    """A number above 0, of which the logarithm is taken, to 1."""
    if T.is_fp64():
        return (bits >> 11).to(T) * (2.0**-53) + 2.0**-54
    else:
        return bits.to(T) * (2.0**-32) + 2.0**-33


@triton.jit
def pair(one, other, T: tl.constexpr):
    """Two normal deviates (Box and Muller)."""
    if T.is_fp64():
        turn = (other >> 11).to(T) * (2.0**-53)
    else:
        turn = (other >> 8).to(T) * (2.0**-24)
    length = sqrt(libdevice.log(above_zero(one, T)) * -2.0)
    angle = turn * tl.full((), 6.283185307179586, T)
    return length * libdevice.cos(angle), length * libdevice.sin(angle)


@triton.jit
def drawn(bits, low, high, D: tl.constexpr, T: tl.constexpr, KIND: tl.constexpr):
    """One number; `low` and `high` are its parameters."""
    if KIND == "uniform":
        number = unit(bits, D, T)
        none = tl.zeros_like(number)
        # one rounding everywhere: a compiler might make an fma of a product and a sum, or not
        return tl.fma(number, none + high, none + low)
    elif KIND == "exponential":
        number = -libdevice.log(above_zero(bits, T))
        return divide(number, tl.zeros_like(number) + high)
    elif KIND == "integer":
        # off by 2^-64 of the number of integers at most
        return tl.umulhi(bits, bits * 0 + high) + low.to(tl.uint64)
    else:
        return bits


@triton.jit
def put(out, value, c, k, n, shape, so, EACH: tl.constexpr):
    """Element `k` of group `c`."""
    i = c * EACH + k
    # never past n, whatever the type of it holds
    mask = c < (n - k + EACH - 1) // EACH
    tl.store(out + offset(i, shape, so), value.to(out.dtype.element_ty), mask=mask)


@triton.jit
def draw(
    out, n, groups, seed, start, low, high, shape, so,
    KIND: tl.constexpr, WIDE: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    c, _ = positions(groups, BLOCK)
    D: tl.constexpr = out.dtype.element_ty
    w0, w1, w2, w3 = words(seed, start, c)
    if WIDE:
        a, b = wide(w0, w1), wide(w2, w3)
        if KIND == "normal":
            x, y = pair(a, b, T)
            x, y = x * high + low, y * high + low
        else:
            x = drawn(a, low, high, D, T, KIND)
            y = drawn(b, low, high, D, T, KIND)
        put(out, x, c, 0, n, shape, so, 2)
        put(out, y, c, 1, n, shape, so, 2)
    else:
        if KIND == "normal":
            x0, x1 = pair(w0, w1, T)
            x2, x3 = pair(w2, w3, T)
            x0, x1 = x0 * high + low, x1 * high + low
            x2, x3 = x2 * high + low, x3 * high + low
        else:
            x0 = drawn(w0, low, high, D, T, KIND)
            x1 = drawn(w1, low, high, D, T, KIND)
            x2 = drawn(w2, low, high, D, T, KIND)
            x3 = drawn(w3, low, high, D, T, KIND)
        put(out, x0, c, 0, n, shape, so, 4)
        put(out, x1, c, 1, n, shape, so, 4)
        put(out, x2, c, 2, n, shape, so, 4)
        put(out, x3, c, 3, n, shape, so, 4)


@triton.jit
def drop_one(
    x, out, kept, bits, c, k, n, limit, scale, shape, sx, so, sk, T: tl.constexpr
):  # fmt: skip
    """Element `k` of group `c` of `drop`."""
    i = c * 4 + k
    mask = c < (n - k + 3) // 4
    value = element(tl.load(memory(x) + offset(i, shape, sx), mask=mask, other=0), x, T)
    keep = bits.to(tl.int64) >= limit
    value = tl.where(keep, value * scale, tl.zeros_like(value))
    tl.store(out + offset(i, shape, so), value.to(out.dtype.element_ty), mask=mask)
    if kept is not None:
        tl.store(memory(kept) + offset(i, shape, sk), keep.to(tl.int8), mask=mask)


@triton.jit
def drop(
    x, out, kept, n, groups, seed, start, limit, scale, shape, sx, so, sk,
    T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Elements whose word is below `limit` become 0; the others are multiplied by `scale`. `kept`:
    where it goes which these are; None: nowhere."""
    c, _ = positions(groups, BLOCK)
    w0, w1, w2, w3 = words(seed, start, c)
    drop_one(x, out, kept, w0, c, 0, n, limit, scale, shape, sx, so, sk, T)
    drop_one(x, out, kept, w1, c, 1, n, limit, scale, shape, sx, so, sk, T)
    drop_one(x, out, kept, w2, c, 2, n, limit, scale, shape, sx, so, sk, T)
    drop_one(x, out, kept, w3, c, 3, n, limit, scale, shape, sx, so, sk, T)


@triton.jit
def toss(
    x, out, n, seed, start, shape, sx, so, T: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """1 where a number from 0 to below 1 is below the probability `x`: each of a counter's own, so
    that probabilities of every dtype toss alike.
    """
    i, mask = positions(n, BLOCK)
    w0, w1, _, _ = words(seed, start, i)
    p = tl.load(x + offset(i, shape, sx), mask=mask, other=0).to(T)
    if T.is_fp64():
        number = (wide(w0, w1) >> 11).to(T) * (2.0**-53)
    else:
        number = (w0 >> 8).to(T) * (2.0**-24)
    tl.store(out + offset(i, shape, so), (number < p).to(out.dtype.element_ty), mask=mask)
