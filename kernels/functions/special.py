"""Special functions."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..arithmetic import divide
from ..arithmetic import exp as e_to_the
from .floats import nearest


@triton.jit
def erf(x):
    near = x * 1.1283791670955126  # NVIDIA's own takes subnormals for 0
    return tl.where(tl.abs(x) < 1e-10, near, libdevice.erf(x))


@triton.jit
def erfc(x):
    return libdevice.erfc(x)


@triton.jit
def erfcx(x):
    return libdevice.erfcx(x)


@triton.jit
def erfinv(x):
    return libdevice.erfinv(x)


@triton.jit
def lgamma(x):
    """-log|x| next to 0, where NVIDIA's own takes subnormals for 0."""
    size = tl.abs(x)
    near = 41.58883083359672 - libdevice.log(size * 1152921504606846976.0)  # 60 log 2
    return tl.where((size > 0.0) & (size < 1e-20), near, libdevice.lgamma(x))


@triton.jit
def ndtr(x):
    """erfc(-x / sqrt 2) / 2. What the product loses to rounding is put back by the derivative: it
    alone would cost 7 bits of a small result.
    """
    if x.dtype.scalar == tl.float32:
        HIGH: tl.constexpr = -0.7071067690849304
        LOW: tl.constexpr = -1.210161710447897e-08
    else:
        HIGH: tl.constexpr = -0.7071067811865476
        LOW: tl.constexpr = 4.833646656726457e-17
    z = x * HIGH
    lost = tl.where(tl.abs(z) < 50.0, tl.fma(x, tl.full(x.shape, HIGH, x.dtype), -z) + x * LOW, 0.0)
    return 0.5 * libdevice.erfc(z) - 0.5641895835477563 * e_to_the(-z * z) * lost


@triton.jit
def digamma(x):
    """By recurrence up to 10 and the asymptotic series there; below 0 by reflection.

    Source: Abramowitz and Stegun, 6.3.5, 6.3.7, 6.3.18.
    """
    reflected = x < 0.0
    y = tl.where(reflected, 1.0 - x, x)
    total = tl.zeros_like(x)
    for _ in tl.static_range(10):
        low = y < 10.0
        total -= tl.where(low, divide(tl.full(y.shape, 1, y.dtype), y), 0.0)
        y = tl.where(low, y + 1.0, y)
    inverse = divide(tl.full(y.shape, 1, y.dtype), y)
    z = inverse * inverse
    series = 1.0 / 252.0 - z * (1.0 / 240.0 - z * (1.0 / 132.0 - z * (691.0 / 32760.0 - z / 12.0)))
    series = z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * series))
    result = libdevice.log(y) - 0.5 * inverse - series + total
    # pi / tan(pi x), of what a whole number leaves
    part = (x - nearest(x)) * 3.141592653589793
    cotangent = 3.141592653589793 / libdevice.tan(part)
    whole = reflected & (nearest(x) == x)
    result = tl.where(reflected, result - cotangent, result)
    infinite = with_sign_of_zero(x)
    result = tl.where(x == 0, infinite, result)
    result = tl.where(x == float("inf"), x, result)
    return tl.where(whole, tl.full(x.shape, float("nan"), x.dtype), result)


@triton.jit
def with_sign_of_zero(x):
    """-inf for 0, inf for -0: the limits of digamma."""
    return -1.0 / x


@triton.jit
def i0(x):
    return libdevice.cyl_bessel_i0(x)


@triton.jit
def i1(x):
    return libdevice.cyl_bessel_i1(x)


@triton.jit
def log_ndtr(x):
    """log of the normal distribution; in its tail by erfcx, which does not underflow."""
    tail = libdevice.log(libdevice.erfcx(x * -0.7071067811865476) * 0.5) - x * 0.5 * x
    middle = libdevice.log1p(-ndtr(-x))
    return tl.where(x < -1.0, tail, middle)
