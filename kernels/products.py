"""The steps that follow a product: factors, an array that is added, an activation."""

import triton
import triton.language as tl

from .functions.activations import gelu, gelu_tanh, relu, sigmoid, silu
from .indexing import load, part, steps_of, store


@triton.jit
def finish(
    x, c, out, n, alpha, beta, shape, sx, sc, so, ACTIVATION: tl.constexpr, T: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """ACTIVATION(alpha * x + beta * c); without `c`, and without factors that are None."""
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        value = load(x, i, mask, shape, sx, T)
        if alpha is not None:
            value = value * alpha.to(T)
        if c is not None:
            added = load(c, i, mask, shape, sc, T)
            if beta is not None:
                added = added * beta.to(T)
            value = value + added
        store(out, activated(value, ACTIVATION), i, mask, shape, so, False)


@triton.jit
def activated(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        return relu(x)
    elif ACTIVATION == "gelu":
        return gelu(x)
    elif ACTIVATION == "gelu_tanh":
        return gelu_tanh(x)
    elif ACTIVATION == "silu":
        return silu(x)
    elif ACTIVATION == "sigmoid":
        return sigmoid(x)
    else:
        return x


@triton.jit
def scaled(
    x, a_scale, b_scale, out, n, shape, sx, sa, sb, so, T: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """x * a_scale * b_scale: of a product of integers, what it stands for."""
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        value = load(x, i, mask, shape, sx, T)
        value *= load(a_scale, i, mask, shape, sa, T)
        value *= load(b_scale, i, mask, shape, sb, T)
        store(out, value, i, mask, shape, so, False)
