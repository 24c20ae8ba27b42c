"""Softmax and its relatives over rows: `m` rows anywhere (shape and strides, see `layouts`) of `n`
elements that are `cx` apart in the input and `co` apart in the output.

There are three: for a row in one piece (BLOCK_N >= n), `_long`, which walks the row, and `_walk`,
which does so where reading a row again costs less than a second `exp`. NEGATE: of -x. LOG: the
logarithm of the result.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import IN_TURN, accumulate, exp, over, settled
from .indexing import across, offset, positions, rows_of_block
from .row_exponentials import elements, largest_and_total


@triton.jit
def softmax(
    x, out, m, n, shape, sx, so, cx, co, LOG: tl.constexpr, NEGATE: tl.constexpr,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    column, _, mask = across(0, n, row_mask, BLOCK_N)
    rows = x + offset(row, shape, sx)[:, None]
    value = elements(rows + (column * cx)[None, :], mask, NEGATE, T)
    apart = value - tl.max(value, 1)[:, None]
    power = exp(apart)
    total = tl.sum(power, 1)
    if LOG:
        y = apart - libdevice.log(total)[:, None]
    else:
        y = over(power, total[:, None])
    p = out + offset(row, shape, so)[:, None] + (column * co)[None, :]
    tl.store(p, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def softmax_long(
    x, out, m, n, shape, sx, so, cx, co, LOG: tl.constexpr, NEGATE: tl.constexpr,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    rows = x + offset(row, shape, sx)[:, None]
    top, total_row = largest_and_total(
        rows, row_mask, n, cx, NEGATE, False, T, BLOCK_M, BLOCK_N, GROUP
    )  # fmt: skip
    target = out + offset(row, shape, so)[:, None]
    for start in range(0, n, BLOCK_N):
        column, _, mask = across(start, n, row_mask, BLOCK_N)
        value = elements(rows + (column * cx)[None, :], mask, NEGATE, T)
        if LOG:
            y = (value - top[:, None]) - libdevice.log(total_row)[:, None]
        else:
            y = over(exp(value - top[:, None]), total_row[:, None])
        tl.store(target + (column * co)[None, :], y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _larger(largest, rows, start, n, row_mask, cx, NEGATE: tl.constexpr, WHOLE: tl.constexpr):
    """The larger ones of `largest` and of a step's elements; WHOLE: all of them are there.

    nan need not be kept: its exp makes the sum nan.
    """
    column, _, mask = across(start, n, row_mask, largest.shape[1])
    place = rows + (column * cx)[None, :]
    value = elements(place, None if WHOLE else mask, NEGATE, largest.dtype)
    return tl.where(value > largest, value, largest)


@triton.jit
def _with_powers(
    part, rows, target, start, n, row_mask, top, cx, co,
    LOG: tl.constexpr, NEGATE: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """`part` and a step's exponentials, which are stored if nothing is lost by it."""
    column, _, mask = across(start, n, row_mask, part.shape[1])
    place = rows + (column * cx)[None, :]
    value = elements(place, None if WHOLE else mask, NEGATE, part.dtype)
    power = libdevice.exp(value - top[:, None])
    if target.dtype.element_ty == part.dtype and not LOG:
        tl.store(target + (column * co)[None, :], power, mask=None if WHOLE else mask)
    return part + (power if WHOLE else tl.where(mask, power, tl.zeros_like(power)))


@triton.jit
def _finished(
    rows, target, start, n, row_mask, top, total_row, cx, co,
    LOG: tl.constexpr, NEGATE: tl.constexpr, BLOCK_N: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Write a step's results."""
    T: tl.constexpr = top.dtype
    column, _, tile = across(start, n, row_mask, BLOCK_N)
    mask = None if WHOLE else tile
    p = target + (column * co)[None, :]
    if LOG:
        value = elements(rows + (column * cx)[None, :], mask, NEGATE, T)
        y = (value - top[:, None]) - libdevice.log(total_row)[:, None]
    elif target.dtype.element_ty == T:
        y = over(tl.load(p, mask=mask), total_row[:, None])
    else:
        value = elements(rows + (column * cx)[None, :], mask, NEGATE, T)
        power = libdevice.exp(value - top[:, None])
        y = over(power, total_row[:, None])
    tl.store(p, y.to(target.dtype.element_ty), mask=mask)


@triton.jit
def softmax_walk(
    x, out, m, n, shape, sx, so, cx, co, LOG: tl.constexpr, NEGATE: tl.constexpr,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    """`softmax_long` for a device where reading a row again costs less than a second `exp`."""
    TURN: tl.constexpr = 2 * IN_TURN if BLOCK_N == 1 else IN_TURN
    row, row_mask, rows = rows_of_block(x, m, shape, sx, BLOCK_M, APART)
    target = out + offset(row, shape, so)[:, None]
    whole = n - n % BLOCK_N if APART else n * 0
    largest = tl.full([BLOCK_M, BLOCK_N], float("-inf"), T)
    if APART:
        for start in range(0, whole, BLOCK_N):
            largest = _larger(largest, rows, start, n, row_mask, cx, NEGATE, True)
    for start in range(whole, n, BLOCK_N):
        largest = _larger(largest, rows, start, n, row_mask, cx, NEGATE, False)
    top = tl.max(largest, 1)
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for begin in range(0, n, BLOCK_N * TURN):
        end = begin + tl.minimum(BLOCK_N * TURN, n - begin)
        part = tl.zeros([BLOCK_M, BLOCK_N], T)
        rest = tl.minimum(end, whole) if APART else begin
        if APART:
            for start in range(begin, rest, BLOCK_N):
                part = _with_powers(
                    part, rows, target, start, n, row_mask, top, cx, co, LOG, NEGATE, True
                )
        for start in range(rest, end, BLOCK_N):
            part = _with_powers(
                part, rows, target, start, n, row_mask, top, cx, co, LOG, NEGATE, False
            )
        total, lost = accumulate(total, lost, part)
    total_row = tl.sum(settled(total, lost), 1)
    if APART:
        for start in range(0, whole, BLOCK_N):
            _finished(
                rows, target, start, n, row_mask, top, total_row, cx, co, LOG, NEGATE, BLOCK_N, True
            )
    for start in range(whole, n, BLOCK_N):
        _finished(
            rows, target, start, n, row_mask, top, total_row, cx, co, LOG, NEGATE, BLOCK_N, False
        )
