"""Arithmetic of one element each."""

import triton
import triton.language as tl

from ..arithmetic import divide
from ..arithmetic import maximum as larger
from .floats import floor_and_rest, floored, nearest, remaining, truncated
from .integers import common_divisor, floor_quotient, floor_rest, quotient, rest, unsigned


@triton.jit
def add(x, y):
    return x + y


@triton.jit
def sub(x, y):
    return x - y


@triton.jit
def mul(x, y):
    return x * y


@triton.jit
def div(x, y):
    return divide(x, y)


@triton.jit
def rsub(x, y):
    return y - x


@triton.jit
def add_scaled(x, y, alpha):
    return x + alpha * y


@triton.jit
def sub_scaled(x, y, alpha):
    return x - alpha * y


@triton.jit
def rsub_scaled(x, y, alpha):
    return y - alpha * x


@triton.jit
def rdiv(x, y):
    return divide(y, x)


@triton.jit
def maximum(x, y):
    return larger(x, y)


@triton.jit
def minimum(x, y):
    return tl.where((x < y) | (x != x), x, y)


@triton.jit
def fmax(x, y):
    return tl.where((x > y) | (y != y), x, y)


@triton.jit
def fmin(x, y):
    return tl.where((x < y) | (y != y), x, y)


@triton.jit
def divmod_(x, y):
    if x.dtype.scalar.is_floating():
        whole, left = floor_and_rest(x, y)
    else:
        whole = floor_quotient(x, y)
        left = floor_rest(x, y)
    return whole, left


@triton.jit
def floor_divide(x, y):
    whole, _ = divmod_(x, y)
    return whole


@triton.jit
def trunc_divide(x, y):
    if x.dtype.scalar.is_floating():
        return truncated(divide(x, y))
    else:
        return quotient(x, y)


@triton.jit
def remainder(x, y):
    _, left = divmod_(x, y)
    return left


@triton.jit
def fmod(x, y):
    if x.dtype.scalar.is_floating():
        return remaining(x, y)
    else:
        return rest(x, y)


@triton.jit
def squared_difference(x, y):
    return (x - y) * (x - y)


@triton.jit
def mul_no_nan(x, y):
    return tl.where(y == 0, tl.zeros_like(x), x * y)


@triton.jit
def div_no_nan(x, y):
    return tl.where(y == 0, tl.zeros_like(x), divide(x, y))


@triton.jit
def neg(x):
    if x.dtype.scalar.is_floating():
        return -x
    else:
        return 0 - x


@triton.jit
def positive(x):
    return x


@triton.jit
def abs_(x):
    if x.dtype.scalar.is_int_unsigned():
        return x
    elif x.dtype.scalar.is_floating():
        return tl.abs(x)
    else:
        return tl.where(x < 0, 0 - x, x)


@triton.jit
def sign(x):
    one = tl.full(x.shape, 1, x.dtype)
    if x.dtype.scalar.is_int_unsigned():
        return tl.where(x > 0, one, tl.zeros_like(x))
    else:
        below = tl.where(x < 0, 0 - one, tl.where(x == 0, tl.zeros_like(x), x))
        return tl.where(x > 0, one, below)


@triton.jit
def reciprocal(x):
    return divide(tl.full(x.shape, 1, x.dtype), x)


@triton.jit
def square(x):
    return x * x


@triton.jit
def floor(x):
    return floored(x) if x.dtype.scalar.is_floating() else x


@triton.jit
def ceil(x):
    return -floored(-x) if x.dtype.scalar.is_floating() else x


@triton.jit
def trunc(x):
    return truncated(x) if x.dtype.scalar.is_floating() else x


@triton.jit
def round_(x):
    return nearest(x) if x.dtype.scalar.is_floating() else x


@triton.jit
def frac(x):
    return x - truncated(x)


@triton.jit
def gcd(x, y):
    return common_divisor(unsigned(x), unsigned(y))


@triton.jit
def lcm(x, y):
    a, b = unsigned(x), unsigned(y)
    divisor = common_divisor(a, b)
    some = tl.where(divisor == 0, tl.full(a.shape, 1, a.dtype), divisor)
    return a // some * b


@triton.jit
def heaviside(x, y):
    zero = tl.zeros_like(x)
    return tl.where(x == 0, y, tl.where(x != x, x, tl.where(x > 0, zero + 1, zero)))


@triton.jit
def moments(count, total, squares):
    """Mean and variance of `count` elements, of which these are the sums and sums of squares."""
    mean = divide(total, count)
    return mean, divide(squares, count) - mean * mean


@triton.jit
def shifted_moments(count, total, squares, shift):
    """`moments` of sums that were made of elements less `shift`."""
    mean, variance = moments(count, total, squares)
    return mean + shift, variance
