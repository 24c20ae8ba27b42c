"""Functions of half types, computed in float32 as exactly as a half type shows and no further.

An exponential that is subnormal would be 0 on GPUs (`tl.exp2`), so results take its root twice.
"""

import triton
import triton.language as tl

#: log2(Phi(-a)) / 2 as a polynomial of 0 <= a <= 14.5, where Phi is the normal distribution: Phi is
#: within 2^-16.8 for a <= 5.7, farther than float16 reaches, and within 2^-14.1; from there on it
#: falls, and is below -170 at 22. By iterated weighted least squares in Chebyshev's nodes.
_TAIL: tl.constexpr = tl.constexpr(
    (
        *(2.687616622309985e-11, -2.7321507278799118e-09, 1.2016035100259614e-07),
        *(-3.0410185445362004e-06, 4.967963104718365e-05, -0.0005582575686275959),
        *(0.0045129163190722466, -0.02737235836684704, -0.22894340753555298),
        *(-0.5757047533988953, -0.4999941885471344),
    )
)


@triton.jit
def gelu(x):
    """x * Phi(x)."""
    size = tl.minimum(tl.abs(x), 22.0)
    root = tl.full(x.shape, _TAIL[0], x.dtype)
    for k in tl.static_range(1, len(_TAIL)):
        root = root * size + _TAIL[k]
    root = tl.exp2(root)
    below = x < 0
    return x * tl.where(below, root, 1.0) * tl.where(below, root, 1.0 - root * root)


@triton.jit
def sigmoid_times(x, y):
    """sigmoid(x) * y."""
    root = tl.exp2(tl.abs(x) * -0.7213475204444817)
    return tl.where(x < 0, y * root * root, y) / (1.0 + root * root)


@triton.jit
def tanh(x):
    """1 - 2 / (1 + e**2x); near 0, where that cancels, the beginning of its series."""
    far = 1.0 - 2.0 / (1.0 + tl.exp2(x * 2.8853900817779268))
    near = x * (1.0 - x * x * (1.0 / 3.0))
    return tl.where(tl.abs(x) < 0.0625, near, far)
