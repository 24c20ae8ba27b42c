"""Exponentials, logarithms, powers and roots."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..arithmetic import divide
from ..arithmetic import exp as e_to_the
from ..arithmetic import sqrt as root
from .floats import is_finite
from .integers import power
from .power import float_power


@triton.jit
def exp(x):
    return e_to_the(x)


@triton.jit
def exp2(x):
    return libdevice.exp2(x)


@triton.jit
def expm1(x):
    return libdevice.expm1(x)


@triton.jit
def log(x):
    return libdevice.log(x)


@triton.jit
def log2(x):
    return libdevice.log2(x)


@triton.jit
def log10(x):
    return libdevice.log10(x)


@triton.jit
def log1p(x):
    return libdevice.log1p(x)


@triton.jit
def sqrt(x):
    return root(x)


@triton.jit
def rsqrt(x):
    return divide(tl.full(x.shape, 1, x.dtype), root(x))


@triton.jit
def cbrt(x):
    """By a power, and a step of Newton's method, which leaves about a unit in the last place."""
    size = tl.abs(x)
    # subnormal numbers are scaled by 2**54, of which the root is 2**18
    small = size < 2.3509887016445750e-38
    size = tl.where(small, size * 18014398509481984.0, size)
    guess = libdevice.exp2(libdevice.log2(size) * (1.0 / 3.0))
    square = guess * guess
    guess -= (guess - size / square) * (1.0 / 3.0)
    guess = tl.where(small, guess * 3.814697265625e-06, guess)
    return tl.where((x == 0) | (x - x != 0), x, tl.where(x < 0, -guess, guess))


@triton.jit
def pow_(x, y):
    if x.dtype.scalar.is_floating():
        return float_power(x, y)
    else:
        return power(x, y)


@triton.jit
def hypot(x, y):
    return libdevice.hypot(x, y)


@triton.jit
def logaddexp(x, y):
    """log(e**x + e**y)."""
    size = tl.abs(x - y)
    more = libdevice.log1p(e_to_the(-size))
    top = tl.where(x > y, x, y)
    return tl.where(x == y, x + 0.6931471805599453, tl.where(size >= 0, top + more, x + y))


@triton.jit
def logaddexp2(x, y):
    """log2(2**x + 2**y)."""
    size = tl.abs(x - y)
    more = libdevice.log1p(libdevice.exp2(-size)) * 1.4426950408889634
    top = tl.where(x > y, x, y)
    return tl.where(x == y, x + 1.0, tl.where(size >= 0, top + more, x + y))


@triton.jit
def xlogy(x, y):
    return tl.where((x == 0) & (y == y), tl.zeros_like(x), x * libdevice.log(y))


@triton.jit
def xlog1py(x, y):
    return tl.where((x == 0) & (y == y), tl.zeros_like(x), x * libdevice.log1p(y))


@triton.jit
def entr(x):
    """-x log x, 0 at 0, -inf below."""
    inside = tl.where(x == 0, tl.zeros_like(x), -x * libdevice.log(x))
    return tl.where(x < 0, tl.full(x.shape, float("-inf"), x.dtype), inside)


@triton.jit
def rel_entr(x, y):
    """x log(x / y), as SciPy."""
    inf = tl.full(x.shape, float("inf"), x.dtype)
    ratio = divide(x, y)
    ordinary = (ratio > 1e-30) & (ratio < 1e30)  # neither overflown nor subnormal
    far = libdevice.log(x) - libdevice.log(y)
    inside = x * tl.where(ordinary, libdevice.log(ratio), far)
    result = tl.where((x > 0) & (y > 0), inside, inf)
    result = tl.where((x == 0) & (y >= 0), tl.zeros_like(x), result)
    return tl.where((x != x) | (y != y), x + y, result)


@triton.jit
def logit(x, eps):
    """log(x / (1 - x)), of x within eps and 1 - eps where eps is not negative."""
    low = tl.where(x < eps, eps, x)
    clamped = tl.where(low > 1.0 - eps, 1.0 - eps, low)
    x = tl.where((eps >= 0) & (x == x), clamped, x)
    near = libdevice.log1p(divide(2.0 * x - 1.0, 1.0 - x))
    far = libdevice.log(divide(x, 1.0 - x))
    return tl.where(tl.abs(x - 0.5) < 0.25, near, far)


@triton.jit
def finite_or(x, nan, positive, negative, most):
    """x, with other values for nan and the infinities; nan for these means `most` and -`most`."""
    top = tl.where(positive == positive, positive, most)
    bottom = tl.where(negative == negative, negative, -most)
    result = tl.where(is_finite(x), x, tl.where(x > 0, top, bottom))
    return tl.where(x != x, nan, result)
