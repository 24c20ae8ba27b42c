"""Bessel functions of orders 0 and 1.

In float64 NVIDIA's own lose up to 13 bits from about 17 on. There, a value is the square root of
2/(pi x) times a sum of sine and cosine of x - pi/4 (order 0) or x - 3 pi/4 (order 1) with slowly
changing amplitudes P and Q. Source: Abramowitz and Stegun, 9.2.5 to 9.2.10.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..arithmetic import divide
from ..arithmetic import sqrt as root

#: P and x/16 Q as polynomials of (16/x)**2 in [0, 1], within 5e-18: interpolated in eight Chebyshev
#: nodes with mpmath at 60 digits.
_P0: tl.constexpr = tl.constexpr(
    (
        *(-8.263372010217812e-13, 9.677801470576232e-12, -9.919459618827644e-11),
        *(1.4138365749860712e-09, -3.4123648222850334e-08, 1.7113052191057353e-06),
        *(-0.0002746582031244453, 1.0),
    )
)
_Q0: tl.constexpr = tl.constexpr(
    (
        *(3.3133005846831866e-13, -3.5351226854801804e-12, 3.0941494422141623e-11),
        *(-3.5460651313691393e-10, 6.436242898796405e-09, -2.165870629317552e-07),
        *(1.7881393432364955e-05, -0.007812499999999998),
    )
)
_P1: tl.constexpr = tl.constexpr(
    (
        *(8.927494990975586e-13, -1.0539261686984882e-11, 1.0966684406716371e-10),
        *(-1.6023725426199793e-09, 4.032795855563667e-08, -2.200249569950563e-06),
        *(0.0004577636718744062, 1.0),
    )
)
_Q1: tl.constexpr = tl.constexpr(
    (
        *(-3.5622620740077456e-13, 3.825673236358121e-12, -3.3900049532951334e-11),
        *(3.9633404124156617e-10, -7.426437929859752e-09, 2.6471752219409804e-07),
        *(-2.503395080539505e-05, 0.023437499999999997),
    )
)


@triton.jit
def _polynomial(t, TERMS: tl.constexpr):
    value = tl.full(t.shape, TERMS[0], t.dtype)
    for k in tl.static_range(1, len(TERMS)):
        value = value * t + TERMS[k]
    return value


@triton.jit
def _waves(x, ORDER: tl.constexpr):
    """J and Y of a float64 of 16 or more; at infinity their limit.

    By sine and cosine of x itself, since x - pi/4 would lose digits of a large x.
    """
    t = 16.0 / x
    if ORDER == 0:
        p, q = _polynomial(t * t, _P0), _polynomial(t * t, _Q0) * t
    else:
        p, q = _polynomial(t * t, _P1), _polynomial(t * t, _Q1) * t
    sine, cosine = libdevice.sin(x), libdevice.cos(x)
    if ORDER == 0:
        along, across = cosine + sine, sine - cosine
    else:
        along, across = sine - cosine, -(sine + cosine)
    size = root(0.3183098861837907 / x)
    infinite = x == float("inf")
    first = tl.where(infinite, 0.0, size * (p * along - q * across))
    return first, tl.where(infinite, 0.0, size * (p * across + q * along))


@triton.jit
def _first(x, near, ORDER: tl.constexpr):
    """J: `near`, and in float64 the waves from 16 on, on both sides of 0."""
    if x.dtype.scalar == tl.float64:
        size = tl.abs(x)
        far = _waves(size, ORDER)[0]
        if ORDER == 1:
            far = tl.where(x < 0.0, -far, far)
        return tl.where(size < 16.0, near, far)
    else:
        return near


@triton.jit
def _second(x, near, ORDER: tl.constexpr):
    """Y: `near`, and in float64 the waves from 16 on; NaN below 0."""
    if x.dtype.scalar == tl.float64:
        value = tl.where(x < 16.0, near, _waves(x, ORDER)[1])
        return tl.where(x < 0.0, tl.full(x.shape, float("nan"), x.dtype), value)
    else:
        return near


@triton.jit
def j0(x):
    return _first(x, libdevice.j0(x), 0)


@triton.jit
def j1(x):
    return _first(x, libdevice.j1(x), 1)


@triton.jit
def y0(x):
    """2 / pi (log(x / 2) + Euler's constant) next to 0: NVIDIA's own takes subnormals for 0."""
    log = libdevice.log(x * 1152921504606846976.0) - 41.58883083359672
    tiny = (log - 0.11593151565841245) * 0.6366197723675814
    own = libdevice.y0(x)
    return _second(x, tl.where((x > 0.0) & (x < 1e-20), tiny, own), 0)


@triton.jit
def y1(x):
    """-2 / (pi x) next to 0, as `y0`."""
    tiny = divide(tl.full(x.shape, -0.6366197723675814, x.dtype), x)
    own = libdevice.y1(x)
    return _second(x, tl.where((x > 0.0) & (x < 1e-20), tiny, own), 1)
