"""Softmax and its relatives over rows: `m` rows anywhere (shape and strides, see `layouts`) of `n`
elements that are `cx` apart in the input and `co` apart in the output.

There are three: for a row in one piece (BLOCK_N >= n), `_long`, which walks the row, and `_walk`,
which does so where reading a row again costs less than a second `exp`. NEGATE: of -x. LOG: the
logarithm of the result.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import IN_TURN, accumulate, divide, exp, settled
from .indexing import across, offset, positions


@triton.jit
def _row(p, mask, NEGATE: tl.constexpr, T: tl.constexpr):
    """The elements at `p` in type `T`; -inf where `mask` is false."""
    if NEGATE:
        return -tl.load(p, mask=mask, other=float("inf")).to(T)
    return tl.load(p, mask=mask, other=float("-inf")).to(T)


@triton.jit
def softmax(
    x, out, m, n, shape, sx, so, cx, co, LOG: tl.constexpr, NEGATE: tl.constexpr,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    column, _, mask = across(0, n, row_mask, BLOCK_N)
    rows = x + offset(row, shape, sx)[:, None]
    value = _row(rows + (column * cx)[None, :], mask, NEGATE, T)
    apart = value - tl.max(value, 1)[:, None]
    power = exp(apart)
    total = tl.sum(power, 1)
    if LOG:
        y = apart - libdevice.log(total)[:, None]
    else:
        y = divide(power, total[:, None])
    p = out + offset(row, shape, so)[:, None] + (column * co)[None, :]
    tl.store(p, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def softmax_long(
    x, out, m, n, shape, sx, so, cx, co, LOG: tl.constexpr, NEGATE: tl.constexpr,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    rows = x + offset(row, shape, sx)[:, None]
    # every column of the tile keeps its own largest element and sum: the loop crosses no threads;
    # GROUP elements of it are taken at once, so that few of them are scaled anew
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
            value = _row(rows[:, :, None] + (column * cx)[None, :, :], mask, NEGATE, T)
            most = tl.max(value, 1)
            now = tl.where(most > largest, most, largest)
            # before the first finite element: -inf - -inf would be nan
            shift = tl.where(now == float("-inf"), tl.zeros_like(now), now)
            part = part * exp(largest - shift) + tl.sum(exp(value - shift[:, None, :]), 1)
            largest = now
        scale = exp(before - tl.where(largest == float("-inf"), tl.zeros_like(largest), largest))
        total, lost = accumulate(total * scale, lost * scale, part)
    total = settled(total, lost)
    top = tl.max(largest, 1)
    shift = tl.where(top == float("-inf"), tl.zeros_like(top), top)
    total_row = tl.sum(total * exp(largest - shift[:, None]), 1)
    target = out + offset(row, shape, so)[:, None]
    for start in range(0, n, BLOCK_N):
        column, _, mask = across(start, n, row_mask, BLOCK_N)
        value = _row(rows + (column * cx)[None, :], mask, NEGATE, T)
        if LOG:
            y = (value - top[:, None]) - libdevice.log(total_row)[:, None]
        else:
            y = divide(exp(value - top[:, None]), total_row[:, None])
        tl.store(target + (column * co)[None, :], y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def softmax_walk(
    x, out, m, n, shape, sx, so, cx, co, LOG: tl.constexpr, NEGATE: tl.constexpr,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """`softmax_long` for a device where reading a row again costs less than a second `exp`."""
    TURN: tl.constexpr = 2 * IN_TURN if BLOCK_N == 1 else IN_TURN
    row, row_mask = positions(m, BLOCK_M)
    rows = x + offset(row, shape, sx)[:, None]
    target = out + offset(row, shape, so)[:, None]
    largest = tl.full([BLOCK_M, BLOCK_N], float("-inf"), T)
    for start in range(0, n, BLOCK_N):
        column, _, mask = across(start, n, row_mask, BLOCK_N)
        value = _row(rows + (column * cx)[None, :], mask, NEGATE, T)
        # nan need not be kept: its exp makes the sum nan
        largest = tl.where(value > largest, value, largest)
    top = tl.max(largest, 1)
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for begin in range(0, n, BLOCK_N * TURN):
        end = begin + tl.minimum(BLOCK_N * TURN, n - begin)
        part = tl.zeros([BLOCK_M, BLOCK_N], T)
        for start in range(begin, end, BLOCK_N):
            column, _, mask = across(start, n, row_mask, BLOCK_N)
            value = _row(rows + (column * cx)[None, :], mask, NEGATE, T)
            power = libdevice.exp(value - top[:, None])
            part += tl.where(mask, power, tl.zeros_like(power))
            if out.dtype.element_ty == T and not LOG:  # nothing is lost by keeping it there
                tl.store(target + (column * co)[None, :], power, mask=mask)
        total, lost = accumulate(total, lost, part)
    total = settled(total, lost)
    total_row = tl.sum(total, 1)
    for start in range(0, n, BLOCK_N):
        column, _, mask = across(start, n, row_mask, BLOCK_N)
        p = target + (column * co)[None, :]
        if LOG:
            value = _row(rows + (column * cx)[None, :], mask, NEGATE, T)
            y = (value - top[:, None]) - libdevice.log(total_row)[:, None]
        elif out.dtype.element_ty == T:
            y = divide(tl.load(p, mask=mask), total_row[:, None])
        else:
            value = _row(rows + (column * cx)[None, :], mask, NEGATE, T)
            y = divide(libdevice.exp(value - top[:, None]), total_row[:, None])
        tl.store(p, y.to(out.dtype.element_ty), mask=mask)
