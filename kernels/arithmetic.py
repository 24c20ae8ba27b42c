"""Arithmetic that Triton's own operators round or treat otherwise than NumPy."""

# Triton needs the `else` after a return: without it the other branch is compiled too.
# ruff: noqa: RET505

import triton
import triton.language as tl

_LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
#: log2(e) minus its float32 value.
_LOG2E_LOW: tl.constexpr = tl.constexpr(1.9259629911266175e-08)
_LN2: tl.constexpr = tl.constexpr(0.6931471805599453)


@triton.jit
def divide(x, y):
    """x / y, correctly rounded: Triton's `/` on float32 may be off in the last bits."""
    if x.dtype.scalar == tl.float32:
        return tl.div_rn(x, y)
    else:
        return x / y


@triton.jit
def exp(x):
    """e**x within about 2 ulp.

    Back ends compute a float32 `exp` as exp2(x * log2(e)), where the product's rounding costs up to
    5 bits for large |x|. The lost part is put back to first order.
    """
    if x.dtype.scalar == tl.float32:
        t = x * _LOG2E
        lost = tl.fma(x, _LOG2E, -t) + x * _LOG2E_LOW
        y = tl.exp2(t)
        # outside, y is 0, inf or nan (or `lost` is nan) and has nothing to put right
        return tl.where(tl.abs(x) < 88.72, y + y * (lost * _LN2), y)
    else:
        return tl.exp(x)


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
