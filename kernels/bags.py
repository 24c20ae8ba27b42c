"""Rows of an array that belong together, to one row: segments, and bags of an embedding."""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl

from .arithmetic import divide, lowest, maximum
from .functions.arithmetic import minimum
from .indexing import element, memory, offset, span
from .maps import highest


@triton.jit
def _first(index, number, count, step, halvings):
    """The first of `count` sorted numbers that is not below `number`."""
    low = count * 0
    high = count
    for _ in range(halvings):
        middle = low + (high - low) // 2
        own = tl.load(index + middle * step, mask=middle < count, other=0).to(tl.int64)
        below = (low < high) & (own < number)
        high = tl.where((low < high) & (own >= number), middle, high)
        low = tl.where(below, middle + 1, low)
    return low


@triton.jit
def bags(
    x, index, offsets, weights, out, bags, count, length, each, halvings, columns, shape, step,
    index_step, index_skip, offset_step, weight_step, weight_skip, out_step, sx, so,
    OP: tl.constexpr, BY: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The sum, mean, maximum or minimum of the rows of each bag; 0 of a bag without rows.

    BY: what says which rows. `segments`: `index` has the bag of each of `count` rows, sorted.
    `offsets`: bag b is of the rows that `index` says, from offsets[b] to offsets[b + 1] (the last
    one to `count`). `each`: of `each` such rows, with a `skip` between the
    bags' indices (and weights). Indices stay inside of `length`, and count from
    the end below 0. One after the other, so that sums have an order.
    """
    blocks = tl.cdiv(columns, BLOCK)
    block = tl.program_id(0).to(columns.dtype)
    bag = block // blocks
    column, mask = span(block % blocks * BLOCK, columns, BLOCK)
    if BY == "segments":
        begin = _first(index, bag.to(tl.int64), count, index_step, halvings)
        end = _first(index, bag.to(tl.int64) + 1, count, index_step, halvings)
    elif BY == "offsets":
        begin = tl.load(offsets + bag * offset_step).to(tl.int64)
        last = tl.load(offsets + (bag + 1) * offset_step, mask=bag + 1 < bags, other=0).to(tl.int64)
        end = tl.where(bag + 1 < bags, last, count)
        end = tl.minimum(tl.maximum(end, 0), count).to(count.dtype)
        begin = tl.minimum(tl.maximum(begin, 0), count).to(count.dtype)
    else:
        begin = bag * each
        end = begin + each
        index += bag * index_skip
        if weights is not None:
            weights += bag * weight_skip
    if OP == "max":
        total = tl.zeros([BLOCK], T) + lowest(T)
    elif OP == "min":
        total = tl.zeros([BLOCK], T) + highest(T)
    else:
        total = tl.zeros([BLOCK], T)
    px = memory(x) + offset(column, shape, sx)
    for k in range(begin, end):
        if BY == "segments":
            row = k
        else:
            own = tl.load(index + k * index_step).to(tl.int64)
            own = tl.where(own < 0, own + length, own)
            row = tl.minimum(tl.maximum(own, 0), length - 1).to(columns.dtype)
        value = element(tl.load(px + row * step, mask=mask, other=0), x, T)
        if weights is not None:
            value *= tl.load(weights + k * weight_step).to(T)
        if OP == "max":
            total = maximum(total, value)
        elif OP == "min":
            total = minimum(total, value)
        else:
            total += value
    if OP == "mean":
        total = divide(total, (column * 0 + tl.maximum(end - begin, 1)).to(T))
    total = tl.where(end > begin, total, tl.zeros_like(total))
    p = out + bag * out_step + offset(column, shape, so)
    tl.store(p, total.to(out.dtype.element_ty), mask=mask)
