"""Gated linear units: a function of the gate, `x`, times `y`."""

import triton
import triton.language as tl

from ..arithmetic import divide, exp
from ..arithmetic import gelu as _gelu
from ..arithmetic import gelu_tanh as _gelu_tanh
from .floats import times_infinite


@triton.jit
def _sigmoid(x):
    power = exp(-tl.abs(x))
    return divide(tl.where(x < 0, power, power * 0 + 1.0), power + 1.0)


@triton.jit
def sigmoid_mul(x, y):
    return _sigmoid(x) * y


@triton.jit
def silu_mul(x, y):
    return times_infinite(x, y, x * _sigmoid(x) * y)


@triton.jit
def gelu_mul(x, y):
    return _gelu(x) * y


@triton.jit
def gelu_tanh_mul(x, y):
    return _gelu_tanh(x) * y


@triton.jit
def relu_mul(x, y):
    return tl.where(x < 0, tl.zeros_like(x), x) * y
