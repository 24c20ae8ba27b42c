"""Sums of what a loss is for each element, by whichever function is `operator`."""

import triton
import triton.language as tl

from .arithmetic import accumulate, settled
from .indexing import load, span


@triton.jit
def operator(*elements):
    """Stands for the device function that a kernel is compiled with (`Launch.source`)."""
    return elements[0]


@triton.jit
def of_pairs(
    a, b, out, n, chunk, c, shape, sa, sb, TA: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[block]: the sum over the `chunk` elements of this block. `c`: a number that the function
    takes too, or None.
    """
    first = tl.program_id(0).to(n.dtype) * chunk
    last = first + tl.minimum(chunk, n - first)
    total = tl.zeros([BLOCK], TA)
    lost = tl.zeros([BLOCK], TA)
    for start in range(first, last, BLOCK):
        i, mask = span(start, last, BLOCK)
        x, y = load(a, i, mask, shape, sa, TA), load(b, i, mask, shape, sb, TA)
        if c is None:
            value = operator(x, y)
        else:
            value = operator(x, y, c.to(TA))
        total, lost = accumulate(total, lost, tl.where(mask, value, tl.zeros_like(value)))
    tl.store(out + tl.program_id(0), tl.sum(settled(total, lost), 0))
