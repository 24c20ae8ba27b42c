"""x ** y of floating numbers, by a logarithm in two parts.

Not by the vendors' `pow`: of AMD's, as Triton compiles it and our emulator runs it, what is
computed in two parts loses the second one, up to 60 units in the last place of float32. Whether the
compiler or the emulator does it is not known.

Sources: the series of log((1 + s) / (1 - s)), Abramowitz and Stegun 4.1.27; sums and products in
two parts, T. Dekker, "A floating-point technique for extending the available precision" (1971).
"""

import triton
import triton.language as tl

from ..arithmetic import divide
from ..arithmetic import exp as e_to_the
from .floats import fraction_and_exponent, is_negative, nearest

#: 1 / 3, 1 / 5...: as many terms as the type shows for s below 0.1716.
_TERMS: tl.constexpr = tl.constexpr((1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3))
_TERMS64: tl.constexpr = tl.constexpr(
    (
        *(1 / 27, 1 / 25, 1 / 23, 1 / 21, 1 / 19, 1 / 17, 1 / 15),
        *(1 / 13, 1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3),
    )
)


@triton.jit
def _logarithm(x):
    """log(x) of a finite x > 0 in two parts."""
    f, e = fraction_and_exponent(x)
    low_half = f < 0.7071067811865476
    f = tl.where(low_half, f * 2.0, f)
    exponent = (e - low_half.to(e.dtype)).to(x.dtype)
    if x.dtype.scalar == tl.float32:
        TERMS: tl.constexpr = _TERMS
        LN2: tl.constexpr = 0.693145751953125  # so few digits that its products are exact
        LN2_LOW: tl.constexpr = 1.4286068203094173e-06
    else:
        TERMS: tl.constexpr = _TERMS64
        LN2: tl.constexpr = 0.6931471803691238
        LN2_LOW: tl.constexpr = 1.9082149292705877e-10
    n, d = f - 1.0, f + 1.0
    d_low = f - (d - 1.0)
    s = divide(n, d)
    s_low = divide(tl.fma(-s, d, n) - s * d_low, d)
    square = s * s
    tail = tl.full(x.shape, TERMS[0], x.dtype)
    for k in tl.static_range(1, len(TERMS)):
        tail = tail * square + TERMS[k]
    large, small = exponent * LN2, s + s
    high = large + small
    low = (small - (high - large)) + (exponent * LN2_LOW + 2.0 * (s_low + s * square * tail))
    total = high + low
    return total, low - (total - high)


@triton.jit
def float_power(x, y):
    x, y = tl.broadcast(x, y)
    size = tl.abs(x)
    ordinary = (size > 0.0) & (size < float("inf"))
    high, low = _logarithm(tl.where(ordinary, size, 1.0))
    product = y * high
    lost = tl.fma(y, high, -product) + y * low
    lost = tl.where(tl.abs(product) < 2000.0, lost, 0.0)
    power = e_to_the(product)
    power = tl.where(power < float("inf"), power + power * lost, power)
    inf = tl.full(x.shape, float("inf"), x.dtype)
    power = tl.where(size == 0.0, tl.where(y > 0.0, 0.0, inf), power)
    power = tl.where(size == float("inf"), tl.where(y > 0.0, inf, 0.0), power)
    whole = nearest(y) == y
    odd = whole & (nearest(y * 0.5) * 2.0 != y)
    power = tl.where(odd & is_negative(x), -power, power)
    nan = tl.full(x.shape, float("nan"), x.dtype)
    power = tl.where((x < 0.0) & (whole == 0) & (size < float("inf")), nan, power)
    power = tl.where((x != x) | (y != y), nan, power)
    endless = (tl.abs(y) == float("inf")) & (size == 1.0)
    return tl.where((y == 0.0) | (x == 1.0) | endless, 1.0, power)
