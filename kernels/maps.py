"""Functions that reductions apply to each element before they combine it, and to the result."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import divide, exp, lowest, sqrt
from .arithmetic import maximum as _maximum
from .functions.arithmetic import fmax, fmin, minimum


@triton.jit
def before(value, centre, p, MAP: tl.constexpr):
    """One element as it takes part; `centre` is a number of its own for each result."""
    if MAP == "abs":
        return tl.abs(value)
    elif MAP == "square":
        return value * value
    elif MAP == "power":
        return libdevice.pow(tl.abs(value), p)
    elif MAP == "nonzero":
        return value != 0
    elif MAP == "number":  # 0 for nan
        return tl.where(value == value, value, tl.zeros_like(value))
    elif MAP == "is_number":
        return value == value
    elif MAP == "deviation":
        apart = value - centre
        return apart * apart
    elif MAP == "exp":
        # of -inf - -inf and inf - inf: 0 and 1
        apart = tl.where(value == centre, tl.zeros_like(value), value - centre)
        return tl.where(value == float("-inf"), tl.zeros_like(value), exp(apart))
    else:
        return value


@triton.jit
def after(total, aux, count, p, FINISH: tl.constexpr):
    """A result from the sum of all elements; `aux` is a number of its own for each result."""
    if FINISH == "mean":
        return divide(total, count.to(total.dtype))
    elif FINISH == "deviation":
        return sqrt(divide(total, count.to(total.dtype)))
    elif FINISH == "inverse_root":
        root = sqrt(total + p.to(total.dtype))
        return divide(tl.full(root.shape, 1, root.dtype), root)
    elif FINISH == "root":
        return sqrt(total)
    elif FINISH == "power":
        return libdevice.pow(total, p)
    elif FINISH == "log":
        return libdevice.log(total)
    elif FINISH == "log_of_exp":
        return tl.where(tl.abs(aux) == float("inf"), aux, libdevice.log(total) + aux)
    elif FINISH == "ratio":
        return divide(total, aux.to(total.dtype))
    elif FINISH == "plus":
        return total + p.to(total.dtype)
    else:
        return total


@triton.jit
def highest(T: tl.constexpr):
    """The identity of `minimum` for type `T`: inf, or the largest integer."""
    if T.is_floating():
        return tl.full((), float("inf"), T)
    elif T.is_int_unsigned():
        return tl.full((), 2**T.primitive_bitwidth - 1, T)
    else:
        return tl.full((), 2 ** (T.primitive_bitwidth - 1) - 1, T)


@triton.jit
def product(x, y):
    return x * y


@triton.jit
def _maximumf(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _minimumf(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def identity(T: tl.constexpr, OP: tl.constexpr):
    """The neutral element of `OP`."""
    if OP == "prod":
        return tl.full((), 1, T)
    elif OP == "max" or OP == "maximumf":
        return lowest(T)
    elif OP == "min" or OP == "minimumf":
        return highest(T)
    elif T.is_floating():
        return tl.full((), float("nan"), T)
    elif OP == "fmax":
        return lowest(T)
    else:
        return highest(T)


@triton.jit
def combine(x, y, OP: tl.constexpr):
    """Two elements to one. `maximumf` is `max` by the instruction of a device that keeps nan."""
    if OP == "prod":
        return x * y
    elif OP == "maximumf":
        return _maximumf(x, y)
    elif OP == "minimumf":
        return _minimumf(x, y)
    elif OP == "max":
        return _maximum(x, y)
    elif OP == "min":
        return minimum(x, y)
    elif OP == "fmax":
        return fmax(x, y)
    else:
        return fmin(x, y)


@triton.jit
def combined(x, OP: tl.constexpr):
    """The elements of each row to one."""
    if OP == "prod":
        return tl.reduce(x, 1, product)
    elif OP == "maximumf":
        return tl.reduce(x, 1, _maximumf)
    elif OP == "minimumf":
        return tl.reduce(x, 1, _minimumf)
    elif OP == "max":
        return tl.reduce(x, 1, _maximum)
    elif OP == "min":
        return tl.reduce(x, 1, minimum)
    elif OP == "fmax":
        return tl.reduce(x, 1, fmax)
    else:
        return tl.reduce(x, 1, fmin)
