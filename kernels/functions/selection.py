"""Functions of three and more operands."""

import triton
import triton.language as tl

from ..arithmetic import divide
from .floats import largest
from .powers import finite_or


@triton.jit
def where(condition, x, y):
    return tl.where(condition, x, y)


@triton.jit
def fill(x, condition, value):
    return tl.where(condition, value, x)


@triton.jit
def first(condition, x):
    return condition


@triton.jit
def clip(x, low, high):
    """min(max(x, low), high); nan if one is nan."""
    x = tl.where((x > low) | (x != x), x, low)
    return tl.where((x < high) | (x != x), x, high)


@triton.jit
def lerp(x, y, weight):
    """Of the two forms the one that is exact at the nearer end; where that overflows and the result
    need not, a third one.
    """
    step = y - x
    near = tl.where(tl.abs(weight) < 0.5, x + weight * step, y - step * (1.0 - weight))
    apart = x * (1.0 - weight) + y * weight  # finite of finite arguments only
    return tl.where((near - near == 0) | (apart - apart != 0), near, apart)


@triton.jit
def fma(x, y, z):
    if x.dtype.scalar.is_floating():
        x, y = tl.broadcast(x, y)
        x, z = tl.broadcast(x, z)
        return tl.fma(x, tl.broadcast(y, x)[0], z)
    else:
        return x * y + z


@triton.jit
def addcmul(x, y, z, value):
    """By one rounding of the product and the sum: the product alone may overflow."""
    scaled, z = tl.broadcast(value * y, z)
    scaled, x = tl.broadcast(scaled, x)
    return tl.fma(scaled, tl.broadcast(z, x)[0], x)


@triton.jit
def addcdiv(x, y, z, value):
    return x + value * divide(y, z)


@triton.jit
def nan_to_num(x, nan, posinf, neginf):
    return finite_or(x, nan, posinf, neginf, largest(x))
