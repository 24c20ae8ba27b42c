"""The largest element of rows, and the sum of the exponentials of what they are below it."""

import triton
import triton.language as tl

from .arithmetic import IN_TURN, accumulate, exp, settled


@triton.jit
def elements(p, mask, NEGATE: tl.constexpr, T: tl.constexpr):
    """The elements at `p` in type `T`; -inf where `mask` is false (None: nowhere)."""
    if mask is None:
        value = tl.load(p).to(T)
        return -value if NEGATE else value
    elif NEGATE:
        return -tl.load(p, mask=mask, other=float("inf")).to(T)
    else:
        return tl.load(p, mask=mask, other=float("-inf")).to(T)


@triton.jit
def quick_exp(x):
    """e**x for x <= 0 as a term of a sum that is 1 at least, or of a result of a half type: its
    error is relative to 1, as the product's rounding makes a factor of 1 + x 2^-24 of it.
    """
    if x.dtype.scalar == tl.float32:
        return tl.exp2(x * 1.4426950408889634)
    else:
        return exp(x)


@triton.jit
def largest_and_total(
    rows, row_mask, n, cx, NEGATE: tl.constexpr, STAYS: tl.constexpr, T: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """The largest element of each of the rows at `rows`, and sum exp(x - largest), while each
    element is read once. STAYS: they are read again soon, and are asked to stay in the cache.

    Every column of the tile keeps its own largest element and sum: the loop crosses no threads;
    GROUP elements of it are taken at once, so that few of them are scaled anew.
    """
    largest = tl.full([BLOCK_M, BLOCK_N], float("-inf"), T)
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    STEP: tl.constexpr = BLOCK_N * GROUP
    lane = tl.arange(0, GROUP)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    lane = lane.to(n.dtype)
    for begin in range(0, n, STEP * IN_TURN):
        end = begin + tl.minimum(STEP * IN_TURN, n - begin)
        part = tl.zeros([BLOCK_M, BLOCK_N], T)
        before = largest
        for start in range(begin, end, STEP):
            column = start + lane
            mask = row_mask[:, None, None] & (lane < n - start)[None, :, :]
            p = rows[:, :, None] + (column * cx)[None, :, :]
            if STAYS:
                tl.static_assert(not NEGATE)
                value = tl.load(p, mask=mask, other=float("-inf"), eviction_policy="evict_last")
                value = value.to(T)
            else:
                value = elements(p, mask, NEGATE, T)
            most = tl.max(value, 1)
            now = tl.where(most > largest, most, largest)
            # before the first finite element: -inf - -inf would be nan
            shift = tl.where(now == float("-inf"), tl.zeros_like(now), now)
            part = part * quick_exp(largest - shift)
            part += tl.sum(quick_exp(value - shift[:, None, :]), 1)
            largest = now
        shift = tl.where(largest == float("-inf"), tl.zeros_like(largest), largest)
        scale = quick_exp(before - shift)
        total, lost = accumulate(total * scale, lost * scale, part)
    total = settled(total, lost)
    top = tl.max(largest, 1)
    shift = tl.where(top == float("-inf"), tl.zeros_like(top), top)
    return top, tl.sum(total * quick_exp(largest - shift[:, None]), 1)
