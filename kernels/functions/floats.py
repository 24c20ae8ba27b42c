"""Parts of floating numbers, and what is made of them."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..arithmetic import divide


@triton.jit
def bits(x):
    """The bits of a floating number, as a signed integer of its width."""
    if x.dtype.primitive_bitwidth == 16:
        return x.to(tl.int16, bitcast=True)
    elif x.dtype.primitive_bitwidth == 32:
        return x.to(tl.int32, bitcast=True)
    else:
        return x.to(tl.int64, bitcast=True)


@triton.jit
def is_negative(x):
    """The sign bit, of -0 and nan too."""
    return bits(x) < 0


@triton.jit
def with_sign(x, y):
    """|x| with y's sign bit."""
    size = tl.abs(x)
    return tl.where(is_negative(y), -size, size)


@triton.jit
def is_finite(x):
    return x - x == 0


@triton.jit
def times_infinite(x, y, product):
    """`product` of y and what has the sign of x and may be too small for a float: of an infinite y
    it is that of x, unless x is -inf.
    """
    return tl.where((tl.abs(y) == float("inf")) & (x > -float("inf")), x * y, product)


@triton.jit
def floored(x):
    """The largest integer that is not above x; NVIDIA's own of float32 takes subnormals for 0."""
    if x.dtype.scalar == tl.float32:
        small = tl.abs(x) < 8388608.0  # the others are whole
        whole = tl.where(small, x, 0.0).to(tl.int32).to(tl.float32)
        whole -= (whole > x).to(tl.float32)
        return tl.where(small, with_sign(whole, x), x)
    else:
        return tl.floor(x)


@triton.jit
def truncated(x):
    return with_sign(floored(tl.abs(x)), x)


@triton.jit
def remaining(x, y):
    """The remainder of x / y towards 0 (fmod).

    NVIDIA's own of float32 takes subnormals for 0. So a small y is first made larger by a power of
    two, which leaves a multiple of what y leaves, and then both are.
    """
    if x.dtype.scalar == tl.float32:
        small = tl.abs(y) < 8.673617379884035e-19
        scale = tl.where(small, 281474976710656.0, 1.0)
        scaled = y * scale
        left = tl.where(tl.abs(x) < tl.abs(scaled), x, libdevice.fmod(x, scaled))
        part = left * scale
        again = libdevice.fmod(part, scaled) * tl.where(small, 3.552713678800501e-15, 1.0)
        return tl.where(small & (tl.abs(part) >= tl.abs(scaled)), again, left)
    else:
        return libdevice.fmod(x, y)


@triton.jit
def nearest(x):
    """The nearest integer, the even one of two; AMD's library of Triton 3.6 has no rint."""
    return libdevice.nearbyint(x)


@triton.jit
def floor_and_rest(x, y):
    """x // y and x % y as Python and NumPy have them.

    Source: NumPy 2.4, npy_divmod: the quotient of what fmod leaves is nearly whole, and rounded.
    """
    left = remaining(x, y)
    quotient = divide(x - left, y)
    other = (left != 0) & ((left < 0) != (y < 0))
    quotient -= other.to(x.dtype)
    left = tl.where(left != 0, left + tl.where(other, y, tl.zeros_like(y)), with_sign(left * 0, y))
    whole = floored(quotient)
    whole += (quotient - whole > 0.5).to(x.dtype)
    nothing = tl.where(is_negative(x) != is_negative(y), -0.0, 0.0)
    whole = tl.where(quotient == 0, nothing, whole)
    zero = y == 0
    return tl.where(zero, divide(x, y), whole), tl.where(zero, left * float("nan"), left)


@triton.jit
def fraction_and_exponent(x):
    """x = f * 2**e with 0.5 <= |f| < 1; 0, inf and nan are f themselves, with e = 0."""
    if x.dtype.scalar == tl.float32:
        small = tl.abs(x) < 1.1754943508222875e-38
        word = bits(tl.where(small, x * 16777216.0, x))
        exponent = ((word >> 23) & 0xFF).to(tl.int32) - 126
        exponent -= tl.where(small, 24, 0)
        f = ((word & -2139095041) | 0x3F000000).to(tl.float32, bitcast=True)
    else:
        small = tl.abs(x) < 2.2250738585072014e-308
        word = bits(tl.where(small, x * 18014398509481984.0, x))
        exponent = ((word >> 52) & 0x7FF).to(tl.int32) - 1022
        exponent -= tl.where(small, 54, 0)
        f = ((word & -9218868437227405313) | 0x3FE0000000000000).to(tl.float64, bitcast=True)
    plain = is_finite(x) & (x != 0)
    return tl.where(plain, f, x), tl.where(plain, exponent, tl.zeros_like(exponent))


@triton.jit
def neighbour(x, y):
    """The next number of x's type from x towards y."""
    word = bits(x)
    up = (y > x) == (word >= 0)
    step = word + tl.where(up, 1, -1).to(word.dtype)
    least = tl.full(x.shape, 1, word.dtype)
    lowest = (y < 0).to(word.dtype) << (x.dtype.primitive_bitwidth - 1)
    step = tl.where((word << 1) == 0, least | lowest, step)
    moved = step.to(x.dtype, bitcast=True)
    result = tl.where(x == y, y, moved)
    return tl.where((x != x) | (y != y), x + y, result)


@triton.jit
def largest(x):
    """The largest finite number of x's type."""
    if x.dtype.scalar == tl.float16:
        return 65504.0
    elif x.dtype.scalar == tl.bfloat16:
        return 3.3895313892515355e38
    elif x.dtype.scalar == tl.float32:
        return 3.4028234663852886e38
    else:
        return 1.7976931348623157e308
