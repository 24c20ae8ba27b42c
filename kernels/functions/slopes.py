"""Gradients of activation functions: `d` is the gradient of the result."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..arithmetic import exp as e_to_the
from .activations import sigmoid as _sigmoid


@triton.jit
def sigmoid(d, y):
    """From the result."""
    return d * ((1.0 - y) * y)


@triton.jit
def tanh(d, y):
    """From the result."""
    return d * ((1.0 - y) * (1.0 + y))


@triton.jit
def silu(d, x):
    s = _sigmoid(x)
    return d * (s * (1.0 + x * (1.0 - s)))


@triton.jit
def gelu(d, x):
    below = 0.5 * libdevice.erfc(x * -0.7071067811865476)
    return d * (below + x * (0.3989422804014327 * e_to_the(-0.5 * x * x)))


@triton.jit
def gelu_tanh(d, x):
    t = libdevice.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))
    inner = 0.7978845608028654 * (1.0 + 0.134145 * x * x)
    return d * (0.5 * (1.0 + t) + 0.5 * x * ((1.0 - t) * (1.0 + t)) * inner)


@triton.jit
def elu(d, x, alpha):
    return tl.where(x > 0, d, d * alpha * e_to_the(tl.where(x > 0, 0.0, x)))


@triton.jit
def leaky_relu(d, x, negative_slope):
    return tl.where(x > 0, d, d * negative_slope)


@triton.jit
def threshold(d, x, limit):
    return tl.where(x <= limit, tl.zeros_like(d), d)


@triton.jit
def shrink(d, x, lambd):
    return tl.where((x >= -lambd) & (x <= lambd), tl.zeros_like(d), d)


@triton.jit
def hardtanh(d, x, min_val, max_val):
    return tl.where((x <= min_val) | (x >= max_val), tl.zeros_like(d), d)


@triton.jit
def hardsigmoid(d, x):
    return tl.where((x > -3.0) & (x < 3.0), d * (1.0 / 6.0), tl.zeros_like(d))


@triton.jit
def hardswish(d, x):
    inside = d * (x * (1.0 / 3.0) + 0.5)
    return tl.where(x < -3.0, tl.zeros_like(d), tl.where(x <= 3.0, inside, d))


@triton.jit
def softplus(d, x, beta, threshold):
    return tl.where(x * beta > threshold, d, d * _sigmoid(x * beta))


@triton.jit
def log_sigmoid(d, x):
    return d * _sigmoid(-x)


@triton.jit
def dropout(d, kept, scale):
    return tl.where(kept, d * scale, d * 0.0)
