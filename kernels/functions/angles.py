"""Angles: trigonometric and hyperbolic functions and their inverses.

Hyperbolic ones stand on expm1 and log1p. AMD's own, as Triton compiles them and our emulator runs
them, lose the second of the two parts that they compute in (up to 15 units in the last place more);
whether the compiler or the emulator does it is not known.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..arithmetic import sqrt as root
from .floats import is_negative, nearest, with_sign
from .halves import tanh as _tanh_of_half


@triton.jit
def sin(x):
    return libdevice.sin(x)


@triton.jit
def cos(x):
    return libdevice.cos(x)


@triton.jit
def sincos(x):
    return libdevice.sin(x), libdevice.cos(x)


@triton.jit
def tan(x):
    return libdevice.tan(x)


@triton.jit
def asin(x):
    return libdevice.asin(x)


@triton.jit
def acos(x):
    return libdevice.acos(x)


@triton.jit
def atan(x):
    return libdevice.atan(x)


@triton.jit
def atan2(y, x):
    small = (tl.abs(x) < 1.0) & (tl.abs(y) < 1.0)
    scale = tl.where(small, 1152921504606846976.0, 1.0)  # NVIDIA's own takes subnormals for 0
    return libdevice.atan2(y * scale, x * scale)


@triton.jit
def sinh(x):
    """By e**x - 1, which is exact for small x, and by the root of e**x where that overflows."""
    size = tl.abs(x)
    less = libdevice.expm1(tl.where(size > 80.0, 80.0, size))
    root = libdevice.exp(size * 0.5)
    result = tl.where(size > 80.0, 0.5 * root * root, 0.5 * (less + less / (less + 1.0)))
    return with_sign(tl.where(x != x, x, result), x)


@triton.jit
def cosh(x):
    return libdevice.cosh(x)


@triton.jit
def tanh(x):
    if x.dtype.scalar.primitive_bitwidth == 16:
        return _tanh_of_half(x.to(tl.float32))
    else:
        return libdevice.tanh(x)


@triton.jit
def asinh(x):
    """By log(1 + x), which is exact for small x."""
    size = tl.abs(x)
    large = size > 1e9
    part = tl.where(large, 1.0, size)
    square = part * part
    near = libdevice.log1p(part + square / (1.0 + root(1.0 + square)))
    far = libdevice.log(size) + 0.6931471805599453
    return with_sign(tl.where(large | (x != x), far, near), x)


@triton.jit
def acosh(x):
    more = x - 1.0
    large = x > 1e9
    part = tl.where(large, 1.0, more)
    near = libdevice.log1p(part + root(part * (part + 2.0)))
    near = tl.where(x < 1.0, float("nan"), near)
    return tl.where(large, libdevice.log(x) + 0.6931471805599453, near)


@triton.jit
def atanh(x):
    size = tl.abs(x)
    return with_sign(0.5 * libdevice.log1p(2.0 * size / (1.0 - size)), x)


@triton.jit
def sinc(x):
    """sin(pi x) / (pi x): the sine of what a whole number leaves, so that its zeros are right."""
    whole = nearest(x)
    odd = nearest(whole * 0.5) * 2.0 != whole
    sine = libdevice.sin((x - whole) * 3.141592653589793)
    quotient = tl.where(odd, -sine, sine) / (x * 3.141592653589793)
    return tl.where(tl.abs(x) < 1e-10, tl.full(x.shape, 1, x.dtype), quotient)


@triton.jit
def degrees(x):
    return x * 57.29577951308232


@triton.jit
def radians(x):
    return x * 0.017453292519943295


@triton.jit
def angle(x):
    """Of a real number: 0 or pi."""
    pi = tl.full(x.shape, 3.141592653589793, x.dtype)
    return tl.where(x != x, x, tl.where(is_negative(x), pi, tl.zeros_like(x)))
