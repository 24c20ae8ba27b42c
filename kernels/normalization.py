"""Kernels over the rows of a matrix: `m` rows anywhere (shape and strides, see `layouts`) of `n`
elements that are `cx` apart in the input and `co` apart in the output.

Each comes twice: a row in one piece (BLOCK_N >= n), and `_long`, which walks the row.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import IN_TURN, accumulate, divide, exp, settled, sqrt
from .indexing import offset, positions, span


@triton.jit
def softmax(
    x, out, m, n, shape, sx, so, cx, co,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    column, column_mask = span(0, n, BLOCK_N)
    mask = row_mask[:, None] & column_mask[None, :]
    rows = x + offset(row, shape, sx)[:, None]
    value = tl.load(rows + (column * cx)[None, :], mask=mask, other=float("-inf")).to(T)
    power = exp(value - tl.max(value, 1)[:, None])
    y = divide(power, tl.sum(power, 1)[:, None])
    p = out + offset(row, shape, so)[:, None] + (column * co)[None, :]
    tl.store(p, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def softmax_long(
    x, out, m, n, shape, sx, so, cx, co,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    rows = x + offset(row, shape, sx)[:, None]
    # every column of the tile keeps its own largest element and sum: the loop crosses no threads
    largest = tl.full([BLOCK_M, BLOCK_N], float("-inf"), T)
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for begin in range(0, n, BLOCK_N * IN_TURN):
        end = begin + tl.minimum(BLOCK_N * IN_TURN, n - begin)
        part = tl.zeros([BLOCK_M, BLOCK_N], T)
        before = largest
        for start in range(begin, end, BLOCK_N):
            column, column_mask = span(start, n, BLOCK_N)
            mask = row_mask[:, None] & column_mask[None, :]
            value = tl.load(rows + (column * cx)[None, :], mask=mask, other=float("-inf")).to(T)
            now = tl.where(value > largest, value, largest)
            # before the first finite element: -inf - -inf would be nan
            shift = tl.where(now == float("-inf"), tl.zeros_like(now), now)
            part = part * exp(largest - shift) + exp(value - shift)
            largest = now
        scale = exp(before - tl.where(largest == float("-inf"), tl.zeros_like(largest), largest))
        total, lost = accumulate(total * scale, lost * scale, part)
    total = settled(total, lost)
    top = tl.max(largest, 1)
    shift = tl.where(top == float("-inf"), tl.zeros_like(top), top)
    total_row = tl.sum(total * exp(largest - shift[:, None]), 1)
    target = out + offset(row, shape, so)[:, None]
    for start in range(0, n, BLOCK_N):
        column, column_mask = span(start, n, BLOCK_N)
        mask = row_mask[:, None] & column_mask[None, :]
        value = tl.load(rows + (column * cx)[None, :], mask=mask).to(T)
        y = divide(exp(value - top[:, None]), total_row[:, None])
        tl.store(target + (column * co)[None, :], y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def softmax_walk(
    x, out, m, n, shape, sx, so, cx, co,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """`softmax_long` for a device where reading a row again costs less than a second `exp`."""
    TURN: tl.constexpr = 2 * IN_TURN if BLOCK_N == 1 else IN_TURN
    row, row_mask = positions(m, BLOCK_M)
    rows = x + offset(row, shape, sx)[:, None]
    target = out + offset(row, shape, so)[:, None]
    largest = tl.full([BLOCK_M, BLOCK_N], float("-inf"), T)
    for start in range(0, n, BLOCK_N):
        column, column_mask = span(start, n, BLOCK_N)
        mask = row_mask[:, None] & column_mask[None, :]
        value = tl.load(rows + (column * cx)[None, :], mask=mask, other=float("-inf")).to(T)
        # nan need not be kept: its exp makes the sum nan
        largest = tl.where(value > largest, value, largest)
    top = tl.max(largest, 1)
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for begin in range(0, n, BLOCK_N * TURN):
        end = begin + tl.minimum(BLOCK_N * TURN, n - begin)
        part = tl.zeros([BLOCK_M, BLOCK_N], T)
        for start in range(begin, end, BLOCK_N):
            column, column_mask = span(start, n, BLOCK_N)
            mask = row_mask[:, None] & column_mask[None, :]
            value = tl.load(rows + (column * cx)[None, :], mask=mask, other=float("-inf")).to(T)
            power = libdevice.exp(value - top[:, None])
            part += tl.where(mask, power, tl.zeros_like(power))
            if out.dtype.element_ty == T:  # nothing is lost by keeping it there
                tl.store(target + (column * co)[None, :], power, mask=mask)
        total, lost = accumulate(total, lost, part)
    total = settled(total, lost)
    total_row = tl.sum(total, 1)
    for start in range(0, n, BLOCK_N):
        column, column_mask = span(start, n, BLOCK_N)
        mask = row_mask[:, None] & column_mask[None, :]
        p = target + (column * co)[None, :]
        if out.dtype.element_ty == T:
            power = tl.load(p, mask=mask)
        else:
            value = tl.load(rows + (column * cx)[None, :], mask=mask).to(T)
            power = libdevice.exp(value - top[:, None])
        tl.store(p, divide(power, total_row[:, None]).to(out.dtype.element_ty), mask=mask)


@triton.jit
def _affine(y, weight, bias, column, mask, sw, sb, T: tl.constexpr):
    """y * weight + bias, of which each may be None."""
    if weight is not None:
        y = y * tl.load(weight + column * sw, mask=mask).to(T)[None, :]
    if bias is not None:
        y = y + tl.load(bias + column * sb, mask=mask).to(T)[None, :]
    return y


@triton.jit
def layer_norm(
    x, weight, bias, out, m, n, eps, shape, sx, so, cx, co, sw, sb,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    column, column_mask = span(0, n, BLOCK_N)
    mask = row_mask[:, None] & column_mask[None, :]
    rows = x + offset(row, shape, sx)[:, None]
    value = tl.load(rows + (column * cx)[None, :], mask=mask, other=0).to(T)
    mean = divide(tl.sum(value, 1), n.to(T))
    centred = tl.where(mask, value - mean[:, None], tl.zeros_like(value))
    variance = divide(tl.sum(centred * centred, 1), n.to(T))
    y = divide(centred, sqrt(variance + eps)[:, None])
    y = _affine(y, weight, bias, column, column_mask, sw, sb, T)
    p = out + offset(row, shape, so)[:, None] + (column * co)[None, :]
    tl.store(p, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm_long(
    x, weight, bias, out, m, n, eps, shape, sx, so, cx, co, sw, sb,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    rows = x + offset(row, shape, sx)[:, None]
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for begin in range(0, n, BLOCK_N * IN_TURN):
        end = begin + tl.minimum(BLOCK_N * IN_TURN, n - begin)
        part = tl.zeros([BLOCK_M, BLOCK_N], T)
        for start in range(begin, end, BLOCK_N):
            column, column_mask = span(start, n, BLOCK_N)
            mask = row_mask[:, None] & column_mask[None, :]
            part += tl.load(rows + (column * cx)[None, :], mask=mask, other=0).to(T)
        total, lost = accumulate(total, lost, part)
    total = settled(total, lost)
    mean = divide(tl.sum(total, 1), n.to(T))
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for begin in range(0, n, BLOCK_N * IN_TURN):
        end = begin + tl.minimum(BLOCK_N * IN_TURN, n - begin)
        part = tl.zeros([BLOCK_M, BLOCK_N], T)
        for start in range(begin, end, BLOCK_N):
            column, column_mask = span(start, n, BLOCK_N)
            mask = row_mask[:, None] & column_mask[None, :]
            value = tl.load(rows + (column * cx)[None, :], mask=mask, other=0).to(T)
            centred = tl.where(mask, value - mean[:, None], tl.zeros_like(value))
            part += centred * centred
        total, lost = accumulate(total, lost, part)
    total = settled(total, lost)
    deviation = sqrt(divide(tl.sum(total, 1), n.to(T)) + eps)
    target = out + offset(row, shape, so)[:, None]
    for start in range(0, n, BLOCK_N):
        column, column_mask = span(start, n, BLOCK_N)
        mask = row_mask[:, None] & column_mask[None, :]
        value = tl.load(rows + (column * cx)[None, :], mask=mask).to(T)
        y = divide(value - mean[:, None], deviation[:, None])
        y = _affine(y, weight, bias, column, column_mask, sw, sb, T)
        tl.store(target + (column * co)[None, :], y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def rms_norm(
    x, weight, out, m, n, eps, shape, sx, so, cx, co, sw,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    column, column_mask = span(0, n, BLOCK_N)
    mask = row_mask[:, None] & column_mask[None, :]
    rows = x + offset(row, shape, sx)[:, None]
    value = tl.load(rows + (column * cx)[None, :], mask=mask, other=0).to(T)
    square = divide(tl.sum(value * value, 1), n.to(T))
    y = divide(value, sqrt(square + eps)[:, None])
    y = _affine(y, weight, None, column, column_mask, sw, 0, T)
    p = out + offset(row, shape, so)[:, None] + (column * co)[None, :]
    tl.store(p, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def rms_norm_long(
    x, weight, out, m, n, eps, shape, sx, so, cx, co, sw,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    rows = x + offset(row, shape, sx)[:, None]
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for begin in range(0, n, BLOCK_N * IN_TURN):
        end = begin + tl.minimum(BLOCK_N * IN_TURN, n - begin)
        part = tl.zeros([BLOCK_M, BLOCK_N], T)
        for start in range(begin, end, BLOCK_N):
            column, column_mask = span(start, n, BLOCK_N)
            mask = row_mask[:, None] & column_mask[None, :]
            value = tl.load(rows + (column * cx)[None, :], mask=mask, other=0).to(T)
            part += value * value
        total, lost = accumulate(total, lost, part)
    total = settled(total, lost)
    root = sqrt(divide(tl.sum(total, 1), n.to(T)) + eps)
    target = out + offset(row, shape, so)[:, None]
    for start in range(0, n, BLOCK_N):
        column, column_mask = span(start, n, BLOCK_N)
        mask = row_mask[:, None] & column_mask[None, :]
        value = tl.load(rows + (column * cx)[None, :], mask=mask).to(T)
        y = _affine(divide(value, root[:, None]), weight, None, column, column_mask, sw, 0, T)
        tl.store(target + (column * co)[None, :], y.to(out.dtype.element_ty), mask=mask)
