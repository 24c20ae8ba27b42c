"""Arithmetic that Triton's own operators round or treat otherwise than NumPy."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

#: 2 * sqrt(2 / pi) and 0.044715: the float32, and what it lacks.
_SLOPE: tl.constexpr = tl.constexpr(1.5957691669464111)
_SLOPE_LOW: tl.constexpr = tl.constexpr(-4.534068042105272e-08)
_CUBIC: tl.constexpr = tl.constexpr(0.044714998453855515)
_CUBIC_LOW: tl.constexpr = tl.constexpr(1.5461444854736329e-09)

#: -log2(e) / 4: the float32, and what it lacks.
_QUARTER: tl.constexpr = tl.constexpr(-0.3606737554073334)
_QUARTER_LOW: tl.constexpr = tl.constexpr(-4.814907464643761e-09)

#: (2**f - 1) / f for |f| <= 1/2, within 2^-25.9 of 2**f, and 1: by iterated weighted least squares.
_POWERS: tl.constexpr = tl.constexpr(
    (
        *(0.00015353361959569156, 0.0013398875016719103, 0.00961843691766262),
        *(0.055503323674201965, 0.24022647738456726, 0.6931471824645996, 1.0),
    )
)
#: 1.5 * 2^23: a sum with it is rounded to an integer, which its last bits are.
_ROUND: tl.constexpr = tl.constexpr(12582912.0)

#: (a + 4) Phi(-a) exp(a * a / 2) as a polynomial of (a - 4) / (a + 4), for 0 <= a <= 15, within
#: 2^-26; and with 5.5 for 4, for a <= 40, within 2^-56. By interpolation in Chebyshev's nodes.
_TAIL: tl.constexpr = tl.constexpr(
    (
        *(-0.0001255583920283243, 0.00018899652059189975, 0.0015668816631659865),
        *(-0.0035209727939218283, -0.007525402586907148, 0.06040618568658829),
        *(-0.18652330338954926, 0.38713669776916504, -0.6078965663909912, 0.7552851438522339),
    )
)
_TAIL64: tl.constexpr = tl.constexpr(
    (
        *(-2.6089786072799307e-09, -5.741271549765598e-09, 2.2933730888048783e-08),
        *(5.0471537980641335e-08, -1.7745106516978097e-07, -2.679978329902207e-07),
        *(1.4836476894253894e-06, 4.4646680155067967e-07, -1.2118743512648596e-05),
        *(1.6319949812801757e-05, 7.141478739249692e-05, -0.0003245226482919879),
        *(0.0002696040163971622, 0.0024429826748350683, -0.013923510567905448),
        *(0.04509758081477901, -0.10970308995854398, 0.21787243285796895),
        *(-0.3670490652936261, 0.5355964890624945, -0.685183420574338, 0.7737696342764068),
    )
)


@triton.jit
def divide(x, y):
    """x / y, correctly rounded: Triton's `/` on float32 may be off in the last bits."""
    if x.dtype.scalar == tl.float32:
        return tl.div_rn(x, y)
    else:
        return x / y


@triton.jit
def over(x, y):
    """x / y, where y is one number for many of x: in float32 by its inverse, within 1.5 ulp."""
    if x.dtype.scalar == tl.float32:
        return x * tl.div_rn(tl.full(y.shape, 1, y.dtype), y)
    else:
        return x / y


@triton.jit
def exp(x):
    """e**x within 2 ulp, subnormal results too.

    Triton's `tl.exp` of float32 is exp2(x * log2(e)), where the rounding of the product costs up to
    6 bits, and its `tl.exp2` flushes subnormals on GPUs.
    """
    return libdevice.exp(x)


@triton.jit
def sqrt(x):
    """The square root, correctly rounded: Triton's of float32 takes subnormals for 0 on GPUs."""
    if x.dtype.scalar == tl.float32:
        return tl.sqrt_rn(x)
    else:
        return tl.sqrt(x)


@triton.jit
def _cubic(x, square, a: tl.constexpr, b: tl.constexpr, c: tl.constexpr, d: tl.constexpr):
    """a x**3 + b x**2 + c x + d in two sums at once, which wait for few others."""
    high = tl.fma(x, tl.full(x.shape, a, x.dtype), b)
    return tl.fma(high, square, tl.fma(x, tl.full(x.shape, c, x.dtype), d))


@triton.jit
def gelu(x):
    """x * Phi(x), where Phi is the normal distribution: Phi(-a) = g(a) * exp(-a * a / 2) for a > 0,
    with a g that is of one size.

    No part of a result is subnormal before the result is, and what a * a loses to rounding is put
    back: it alone would cost 7 bits of a small result, and 10 in float64.
    """
    size = tl.abs(x)
    if x.dtype.scalar == tl.float32:
        TAIL: tl.constexpr = _TAIL
        # farther out a result below 0 is 0; a comparison keeps nan
        size = tl.where(size > 15.0, 15.0, size)
        inverse = 1.0 / (size + 4.0)
        at = tl.fma(inverse, tl.full(x.shape, -8.0, x.dtype), 1.0)
    else:
        TAIL: tl.constexpr = _TAIL64
        # farther out the exponential's root is 0; nan comes back with x
        size = tl.minimum(size, 64.0)
        inverse = 1.0 / (size + 5.5)
        at = (size - 5.5) * inverse
    # odd and even powers apart, in float32 in pairs again: short chains, which run side by side
    twice = at * at
    if x.dtype.scalar == tl.float32:
        fourth = twice * twice
        odd = _cubic(twice, fourth, TAIL[0], TAIL[2], TAIL[4], TAIL[6])
        odd = tl.fma(odd, twice, tl.full(x.shape, TAIL[8], x.dtype))
        even = _cubic(twice, fourth, TAIL[1], TAIL[3], TAIL[5], TAIL[7])
        even = tl.fma(even, twice, tl.full(x.shape, TAIL[9], x.dtype))
    else:
        odd = tl.full(x.shape, TAIL[0], x.dtype)
        even = tl.full(x.shape, TAIL[1], x.dtype)
        for k in tl.static_range(2, len(TAIL), 2):
            odd = tl.fma(odd, twice, tl.full(x.shape, TAIL[k], x.dtype))
            even = tl.fma(even, twice, tl.full(x.shape, TAIL[k + 1], x.dtype))
    g = tl.fma(odd, at, even)
    square = size * size
    lost = tl.fma(size, size, -square)
    if x.dtype.scalar == tl.float32:
        # 2 ** (n + f), where n is no less than -82: no number is subnormal
        quarter = tl.full(x.shape, _QUARTER, x.dtype)
        shifted = tl.fma(square, quarter, tl.full(x.shape, _ROUND, x.dtype))
        rest = tl.fma(lost, quarter, square * _QUARTER_LOW)
        f = tl.fma(square, quarter, _ROUND - shifted) + rest
        f2 = f * f
        factor = _cubic(f, f2, _POWERS[0], _POWERS[1], _POWERS[2], _POWERS[3])
        low = tl.fma(f, tl.full(x.shape, _POWERS[4], x.dtype), _POWERS[5])
        factor = tl.fma(tl.fma(factor, f2, low), f, tl.full(x.shape, _POWERS[6], x.dtype))
        bits = factor.to(tl.int32, bitcast=True) + (shifted.to(tl.int32, bitcast=True) << 23)
        factor = bits.to(tl.float32, bitcast=True)
    else:
        factor = exp(square * -0.25)
        factor -= factor * (lost * 0.25)
    if x.dtype.scalar == tl.float32:
        # 0 with the sign of x, nan for -inf
        return tl.where(x < 0, x * 0.0, x) - g * (inverse * size) * factor * factor
    else:
        below = tl.minimum(x, 64.0) * (g * inverse * factor) * factor
        return tl.where(x <= 0, below, x - below)


@triton.jit
def gelu_tanh(x):
    """x * (1 + tanh(u)) / 2 where u = sqrt(2 / pi) * (x + 0.044715 * x**3).

    That is x / (1 + exp(-2u)), and x * exp(2u) / (1 + exp(2u)) for u < 0, where exp(-2u) would
    overflow. In float32, 2u has two parts: its rounding alone would cost 7 bits of a small result.
    No product whose rounding matters is added to anything, as compilers make an fma of that.
    """
    if x.dtype.scalar == tl.float32:
        square = x * x
        square_low = tl.fma(x, x, -square)
        factor = tl.fma(square, _CUBIC, 1.0)
        factor_low = tl.fma(square, _CUBIC, 1.0 - factor) + square * _CUBIC_LOW
        factor_low += square_low * _CUBIC
        inner = x * factor
        inner_low = tl.fma(x, factor, -inner) + x * factor_low
        twice = inner * _SLOPE
        low = tl.fma(inner, _SLOPE, -twice) + inner * _SLOPE_LOW + inner_low * _SLOPE
        # farther out the exponential is 0 or 1, and `low` may be nan
        low = tl.where(tl.abs(twice) < 256.0, low, tl.zeros_like(low))
    else:
        twice = 1.5957691216057308 * (x + 0.044715 * x * x * x)
        low = tl.zeros_like(twice)
    # the root of exp(-|2u|), which is subnormal earlier than its product with x
    root = exp(tl.abs(twice) * -0.5)
    root = root + root * (tl.where(twice < 0, low, -low) * 0.5)
    return divide(tl.where(twice < 0, x * root * root, x), 1.0 + root * root)


@triton.jit
def maximum(x, y):
    """The larger one; nan if one is nan, as `numpy.maximum`.

    Compare and select, as the min/max instructions of some back ends lose nan.
    """
    return tl.where((x > y) | (x != x), x, y)


@triton.jit
def lowest(T: tl.constexpr):
    """The identity of `maximum` for type `T`: -inf, or the smallest integer."""
    if T.is_floating():
        return tl.full((), float("-inf"), T)
    elif T.is_int_unsigned():
        return tl.full((), 0, T)
    else:
        return tl.full((), -(2 ** (T.primitive_bitwidth - 1)), T)


#: Steps of a sum that are added one after the other, each rounding. What they give goes into the
#: whole sum with what that addition loses, so that the error of a sum does not grow with its
#: length: it stays below about IN_TURN + log2(lanes) units of the last place of sum |x|.
IN_TURN: tl.constexpr = tl.constexpr(64)


@triton.jit
def accumulate(total, lost, part):
    """total + part, and `lost` with what the rounding of that took away (nan where it overflows).

    Source: D. Knuth, "The Art of Computer Programming" 2, 4.2.2: the error of an addition is a
    number, and comes of five more.
    """
    if total.dtype.scalar.is_floating():
        now = total + part
        back = now - total
        lost += (total - (now - back)) + (part - back)
        return now, lost
    else:
        return total + part, lost


@triton.jit
def settled(total, lost):
    """The sum of what `accumulate` gives."""
    if total.dtype.scalar.is_floating():
        return tl.where(tl.abs(lost) < float("inf"), total + lost, total)
    else:
        return total
