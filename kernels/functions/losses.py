"""Losses of one element: of what was predicted, `x`, and of what is right, `y`."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..arithmetic import divide, exp


@triton.jit
def mse(x, y):
    apart = x - y
    return apart * apart


@triton.jit
def l1(x, y):
    return tl.abs(x - y)


@triton.jit
def huber(x, y, delta):
    apart = tl.abs(x - y)
    return tl.where(apart < delta, 0.5 * apart * apart, delta * (apart - 0.5 * delta))


@triton.jit
def smooth_l1(x, y, beta):
    apart = tl.abs(x - y)
    return tl.where(apart < beta, divide(0.5 * apart * apart, apart * 0 + beta), apart - 0.5 * beta)


@triton.jit
def _log(x):
    """The logarithm, which is not below -100, as torch's loss has it."""
    return tl.maximum(libdevice.log(x), -100.0)


@triton.jit
def bce(x, y):
    wrong = (x < 0) | (x > 1) | (x != x)
    loss = (y - 1.0) * tl.maximum(libdevice.log1p(-x), -100.0) - y * _log(x)
    return tl.where(wrong, float("nan"), loss)


@triton.jit
def bce_with_logits(x, y):
    return tl.where(x > 0, x, x * 0) - x * y + libdevice.log1p(exp(-tl.abs(x)))


@triton.jit
def log_loss(x, y, eps):
    return -y * libdevice.log(x + eps) - (1.0 - y) * libdevice.log(1.0 - x + eps)


@triton.jit
def hinge(x, y):
    apart = 1.0 - x * y
    return tl.where(apart < 0, tl.zeros_like(apart), apart)


@triton.jit
def squared_hinge(x, y):
    apart = hinge(x, y)
    return apart * apart


@triton.jit
def hinge_embedding(x, y, margin):
    apart = margin - x
    other = tl.where(apart < 0, tl.zeros_like(apart), apart)
    return tl.where(y == 1, x, tl.where(y == -1, other, other + x))


@triton.jit
def soft_margin(x, y):
    """log(1 + exp(-x * y)), which does not overflow."""
    z = -x * y
    return tl.where(z < 0, tl.zeros_like(z), z) + libdevice.log1p(exp(-tl.abs(z)))


@triton.jit
def kl_div(x, y):
    """y * (log y - x): `x` is the logarithm of a probability, `y` a probability."""
    return tl.where(y == 0, y * 0, y * libdevice.log(y)) - y * x


@triton.jit
def kl_div_of_logs(x, y):
    return exp(y) * (y - x)


@triton.jit
def poisson_nll_of_log(x, y, eps):
    return exp(x) - y * x


@triton.jit
def poisson_nll(x, y, eps):
    return x - y * libdevice.log(x + eps)
