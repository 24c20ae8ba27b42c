"""Bits of integers, and parts of floating numbers."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .floats import fraction_and_exponent, neighbour, truncated, with_sign
from .integers import unsigned


@triton.jit
def bitwise_and(x, y):
    return x & y


@triton.jit
def bitwise_or(x, y):
    return x | y


@triton.jit
def bitwise_xor(x, y):
    return x ^ y


@triton.jit
def bitwise_not(x):
    return ~x


@triton.jit
def _fits(x, y):
    """A shift by y leaves something of x."""
    return (y >= 0) & (y < x.dtype.primitive_bitwidth)


@triton.jit
def left_shift(x, y):
    fits = _fits(x, y)
    return tl.where(fits, x << tl.where(fits, y, tl.zeros_like(y)), tl.zeros_like(x))


@triton.jit
def right_shift(x, y):
    fits = _fits(x, y)
    most = tl.full(y.shape, x.dtype.primitive_bitwidth - 1, y.dtype)
    shifted = x >> tl.where(fits, y, most)
    if x.dtype.scalar.is_int_unsigned():
        return tl.where(fits, shifted, tl.zeros_like(x))
    else:
        return shifted


@triton.jit
def bit_count(x):
    """The number of one bits of |x|. Source: Warren, "Hacker's Delight" 5-1, for 64 bits."""
    v = unsigned(x).to(tl.uint64)
    v -= (v >> 1) & 0x5555555555555555
    v = (v & 0x3333333333333333) + ((v >> 2) & 0x3333333333333333)
    v = (v + (v >> 4)) & 0x0F0F0F0F0F0F0F0F
    v += v >> 8
    v += v >> 16
    v += v >> 32
    return v & 0x7F


@triton.jit
def copysign(x, y):
    return with_sign(x, y)


@triton.jit
def nextafter(x, y):
    return neighbour(x, y)


@triton.jit
def ldexp(x, exponent):
    small = tl.abs(x) < 1.1754943508222875e-38  # NVIDIA's own takes subnormals of float32 for 0
    scaled = tl.where(small, x * 16777216.0, x)
    exponent = tl.where(exponent < -5000, -5000, tl.where(exponent > 5000, 5000, exponent))
    return libdevice.ldexp(scaled, exponent - tl.where(small, 24, 0))


@triton.jit
def frexp(x):
    return fraction_and_exponent(x)


@triton.jit
def modf(x):
    whole = truncated(x)
    return with_sign(tl.where(x == whole, tl.zeros_like(x), x - whole), x), whole
