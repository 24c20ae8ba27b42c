"""Elements of one array that are taken in pairs: halves that gate each other, and rotations.

The pair's second element is `apart` elements after the first one; see `indexing` for the rest.
"""

import triton
import triton.language as tl

from .functions.activations import sigmoid
from .indexing import at, element, load, memory, part, steps_of, store


@triton.jit
def operator(*elements):
    """Stands for the device function that a kernel is compiled with (`Launch.source`)."""
    return elements[0]


@triton.jit
def halves(
    x, out, n, from_gate, from_other, shape, sx, so, TA: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The gate is in `x` from `from_gate` on, what it is for from `from_other` on."""
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        gate = load(x + from_gate, i, mask, shape, sx, TA)
        value = load(x + from_other, i, mask, shape, sx, TA)
        store(out, operator(gate, value), i, mask, shape, so, False)


@triton.jit
def rope(
    x, cosine, sine, out, n, apart, out_apart, shape, sx, sc, ss, so,
    BACK: tl.constexpr, T: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Each pair turned by its angle; BACK: by its negative, which is the gradient too."""
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        p = memory(x)
        first = element(tl.load(at(p, i, shape, sx), mask=mask, other=0), x, T)
        second = element(tl.load(at(p + apart, i, shape, sx), mask=mask, other=0), x, T)
        c = tl.load(at(cosine, i, shape, sc), mask=mask, other=0).to(T)
        s = tl.load(at(sine, i, shape, ss), mask=mask, other=0).to(T)
        if BACK:
            s = -s
        store(out, first * c - second * s, i, mask, shape, so, False)
        store(out + out_apart, second * c + first * s, i, mask, shape, so, False)


@triton.jit
def glu_backward(
    d, x, out, n, apart, out_apart, shape, sd, sx, so, T: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The gradients of both halves of x, whose second one is the gate of the first."""
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        grad = load(d, i, mask, shape, sd, T)
        value = load(x, i, mask, shape, sx, T)
        open_ = sigmoid(load(x + apart, i, mask, shape, sx, T))
        store(out, grad * open_, i, mask, shape, so, False)
        store(out + out_apart, grad * value * (open_ * (1.0 - open_)), i, mask, shape, so, False)
