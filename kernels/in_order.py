"""Sums of elements by their integers, one after the other: for processors that have few blocks at a
time, where putting the integers in order first costs more than adding one by one.
"""

import triton
import triton.language as tl

from .indexing import memory, offset

__all__ = ["add_weights"]


@triton.jit
def add_weights(index, weights, out, n, length, shape, si, sw, T: tl.constexpr):
    """out[index[i]] += weights[i], for one i after the other; integers outside add nothing. One
    block does it all: of several threads, each would add.
    """
    pi, pw = memory(index), memory(weights)
    for i in range(n):
        k = tl.to_tensor(i).to(n.dtype)
        own = tl.load(pi + offset(k, shape, si)).to(tl.int64)
        if (own >= 0) & (own < length):
            p = out + own
            tl.store(p, tl.load(p) + tl.load(pw + offset(k, shape, sw)).to(T))
