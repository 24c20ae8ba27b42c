"""Activation functions."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..arithmetic import divide
from ..arithmetic import exp as e_to_the
from ..arithmetic import gelu as _gelu
from ..arithmetic import gelu_tanh as _gelu_tanh
from .floats import times_infinite
from .halves import gelu as _gelu_of_half
from .halves import sigmoid_times


@triton.jit
def relu(x):
    return tl.where(x < 0, tl.zeros_like(x), x)


@triton.jit
def relu_squared(x):
    return tl.where(x < 0, tl.zeros_like(x), x * x)


@triton.jit
def gelu(x):
    if x.dtype.scalar.primitive_bitwidth == 16:
        return _gelu_of_half(x.to(tl.float32))
    else:
        return _gelu(x)


@triton.jit
def gelu_tanh(x):
    if x.dtype.scalar.primitive_bitwidth == 16:
        return _gelu_tanh(x.to(tl.float32))
    else:
        return _gelu_tanh(x)


@triton.jit
def sigmoid(x):
    """1 / (1 + e**-x), by an exponential that cannot overflow."""
    power = e_to_the(-tl.abs(x))
    return tl.where(x < 0, power, tl.full(x.shape, 1, x.dtype)) / (1.0 + power)


@triton.jit
def log_sigmoid(x):
    return tl.where(x < 0, x, tl.where(x != x, x, 0.0)) - libdevice.log1p(e_to_the(-tl.abs(x)))


@triton.jit
def silu(x):
    if x.dtype.scalar.primitive_bitwidth == 16:
        wide = x.to(tl.float32)
        return sigmoid_times(wide, wide)
    else:
        return x * sigmoid(x)


@triton.jit
def silu_mul(x, y):
    if x.dtype.scalar.primitive_bitwidth == 16:
        wide = x.to(tl.float32)
        other = y.to(tl.float32)
        return times_infinite(wide, other, sigmoid_times(wide, wide) * other)
    else:
        return times_infinite(x, y, x * sigmoid(x) * y)


@triton.jit
def quick_gelu(x):
    return x * sigmoid(1.702 * x)


@triton.jit
def softplus(x, beta, threshold):
    scaled = x * beta
    top = tl.where(scaled < 0, tl.zeros_like(x), scaled)
    soft = divide(top + libdevice.log1p(e_to_the(-tl.abs(scaled))), beta)
    return tl.where(scaled > threshold, x, soft)


@triton.jit
def mish(x):
    """x tanh(log(1 + e**x)), where the tanh is a quotient of polynomials of e**x."""
    power = e_to_the(tl.where(x > 30.0, 30.0, x))
    up = power * (power + 2.0)
    return x * tl.where(x > 30.0, 1.0, divide(up, up + 2.0))


@triton.jit
def clipped(x, low, high):
    """Within low and high; nan stays."""
    x = tl.where(x < low, low, x)
    return tl.where(x > high, high, x)


@triton.jit
def relu6(x):
    return clipped(x, tl.zeros_like(x), tl.full(x.shape, 6, x.dtype))


@triton.jit
def hardtanh(x, min_val, max_val):
    return clipped(x, min_val, max_val)


@triton.jit
def hardsigmoid(x, alpha, beta):
    return clipped(x * alpha + beta, tl.zeros_like(x), tl.full(x.shape, 1, x.dtype))


@triton.jit
def hardswish(x):
    gate = clipped(x + 3.0, tl.zeros_like(x), tl.full(x.shape, 6, x.dtype))
    return x * divide(gate, 6.0)


@triton.jit
def softsign(x):
    return divide(x, 1.0 + tl.abs(x))


@triton.jit
def tanhshrink(x):
    """x - tanh(x); near 0, where that cancels, by its series."""
    square = x * x
    series = 1.0 / 3.0 + square * (-2.0 / 15.0 + square * (17.0 / 315.0 - square * (62.0 / 2835.0)))
    return tl.where(tl.abs(x) < 0.05, x * square * series, x - libdevice.tanh(x))


@triton.jit
def softshrink(x, lambd):
    zero = tl.zeros_like(x)
    low = tl.where(x < -lambd, x + lambd, tl.where(x != x, x, zero))
    return tl.where(x > lambd, x - lambd, low)


@triton.jit
def hardshrink(x, lambd):
    return tl.where((x >= -lambd) & (x <= lambd), tl.zeros_like(x), x)


@triton.jit
def shrink(x, lambd, bias):
    low = tl.where(x < -lambd, x + bias, tl.zeros_like(x))
    return tl.where(x > lambd, x - bias, low)


@triton.jit
def threshold(x, limit, value):
    return tl.where(x <= limit, value, x)


@triton.jit
def thresholded_relu(x, alpha):
    return tl.where(x > alpha, x, tl.zeros_like(x))


@triton.jit
def elu(x, alpha):
    return tl.where(x > 0, x, alpha * libdevice.expm1(x))


@triton.jit
def selu(x):
    inner = tl.where(x > 0, x, 1.6732632423543772 * libdevice.expm1(x))
    return 1.0507009873554805 * inner


@triton.jit
def celu(x, alpha):
    return tl.where(x > 0, x, alpha * libdevice.expm1(divide(x, alpha)))


@triton.jit
def leaky_relu(x, slope):
    return tl.where(x > 0, x, x * slope)


@triton.jit
def rrelu(x, lower, upper):
    return leaky_relu(x, (lower + upper) * 0.5)
