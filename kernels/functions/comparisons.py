"""Comparisons, tests of one element, and logic."""

import triton
import triton.language as tl

from .floats import is_finite, is_negative


@triton.jit
def eq(x, y):
    return x == y


@triton.jit
def ne(x, y):
    return x != y


@triton.jit
def lt(x, y):
    return x < y


@triton.jit
def le(x, y):
    return x <= y


@triton.jit
def gt(x, y):
    return x > y


@triton.jit
def ge(x, y):
    return x >= y


@triton.jit
def isclose(x, y, rtol, atol):
    return (x == y) | ((tl.abs(x - y) <= atol + rtol * tl.abs(y)) & is_finite(y))


@triton.jit
def isclose_nan(x, y, rtol, atol):
    return isclose(x, y, rtol, atol) | ((x != x) & (y != y))


@triton.jit
def logical_and(x, y):
    return (x != 0) & (y != 0)


@triton.jit
def logical_or(x, y):
    return (x != 0) | (y != 0)


@triton.jit
def logical_xor(x, y):
    return (x != 0) ^ (y != 0)


@triton.jit
def logical_not(x):
    return x == 0


@triton.jit
def isnan(x):
    return x != x


@triton.jit
def isfinite(x):
    if x.dtype.scalar.is_floating():
        return is_finite(x)
    else:
        return x == x


@triton.jit
def isinf(x):
    return (not_nan(x)) & (isfinite(x) == 0)


@triton.jit
def not_nan(x):
    return x == x


@triton.jit
def isposinf(x):
    return isinf(x) & (x > 0)


@triton.jit
def isneginf(x):
    return isinf(x) & (x < 0)


@triton.jit
def signbit(x):
    if x.dtype.scalar.is_floating():
        return is_negative(x)
    else:
        return x < 0
