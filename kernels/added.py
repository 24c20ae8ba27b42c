"""Norms of the sum of two arrays, which is written too.

`m` rows anywhere (shape and strides, see `layouts`) of `n` elements, which are `cx`, `cr`, `co`
apart in the two and in the output; the sum's are side by side. `add_norm` walks a row,
`add_norm_whole` has it in one piece (BLOCK_N >= n).
"""

import triton
import triton.language as tl

from .arithmetic import accumulate, divide, over, settled, sqrt
from .indexing import across, offset, positions


@triton.jit
def _both(px, pr, column, cx, cr, mask, T: tl.constexpr):
    """The sums of a tile's elements; 0 where `mask` is false."""
    value = tl.load(px + (column * cx)[None, :], mask=mask, other=0).to(T)
    return value + tl.load(pr + (column * cr)[None, :], mask=mask, other=0).to(T)


@triton.jit
def add_norm(
    x, residual, weight, bias, out, total, m, n, eps, shape, sx, sr, so, st, cx, cr, co, ct, sw, sb,
    RMS: tl.constexpr, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    px = x + offset(row, shape, sx)[:, None]
    pr = residual + offset(row, shape, sr)[:, None]
    pt = total + offset(row, shape, st)[:, None]
    whole = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for start in range(0, n, BLOCK_N):
        column, column_mask, mask = across(start, n, row_mask, BLOCK_N)
        value = _both(px, pr, column, cx, cr, mask, T)
        tl.store(pt + (column * ct)[None, :], value.to(total.dtype.element_ty), mask=mask)
        if RMS:
            value = value * value
        whole, lost = accumulate(whole, lost, value)
    mean = divide(tl.sum(settled(whole, lost), 1), n.to(T))
    if RMS:
        root = sqrt(mean + eps)[:, None]
        mean = tl.zeros([BLOCK_M, 1], T)
    else:
        mean = mean[:, None]
        whole = tl.zeros([BLOCK_M, BLOCK_N], T)
        lost = tl.zeros([BLOCK_M, BLOCK_N], T)
        for start in range(0, n, BLOCK_N):
            column, column_mask, mask = across(start, n, row_mask, BLOCK_N)
            value = _both(px, pr, column, cx, cr, mask, T)
            apart = tl.where(mask, value - mean, tl.zeros_like(value))
            whole, lost = accumulate(whole, lost, apart * apart)
        root = sqrt(divide(tl.sum(settled(whole, lost), 1), n.to(T)) + eps)[:, None]
    goal = out + offset(row, shape, so)[:, None]
    for start in range(0, n, BLOCK_N):
        column, column_mask, mask = across(start, n, row_mask, BLOCK_N)
        value = _both(px, pr, column, cx, cr, mask, T)
        y = over(value - mean, root)
        if weight is not None:
            y = y * tl.load(weight + column * sw, mask=column_mask, other=0).to(T)[None, :]
        if bias is not None:
            y = y + tl.load(bias + column * sb, mask=column_mask, other=0).to(T)[None, :]
        tl.store(goal + (column * co)[None, :], y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def add_norm_whole(
    x, residual, weight, bias, out, total, m, n, eps, shape, sx, sr, so, st, cx, cr, co, ct, sw, sb,
    RMS: tl.constexpr, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, row_mask = positions(m, BLOCK_M)
    column, column_mask, mask = across(0, n, row_mask, BLOCK_N)
    px = x + offset(row, shape, sx)[:, None]
    pr = residual + offset(row, shape, sr)[:, None]
    pt = total + offset(row, shape, st)[:, None]
    value = _both(px, pr, column, cx, cr, mask, T)
    if RMS and weight is not None:  # while the sum is made; for two sums registers are scarce
        factor = tl.load(weight + column * sw, mask=column_mask, other=0)
    tl.store(pt + (column * ct)[None, :], value.to(total.dtype.element_ty), mask=mask)
    if not RMS:
        mean = divide(tl.sum(value, 1), n.to(T))
        value = tl.where(mask, value - mean[:, None], tl.zeros_like(value))
    square = divide(tl.sum(value * value, 1), n.to(T))
    y = over(value, sqrt(square + eps)[:, None])
    if weight is not None:
        if not RMS:
            factor = tl.load(weight + column * sw, mask=column_mask, other=0)
        y = y * factor.to(T)[None, :]
    if bias is not None:
        y = y + tl.load(bias + column * sb, mask=column_mask, other=0).to(T)[None, :]
    goal = out + offset(row, shape, so)[:, None]
    tl.store(goal + (column * co)[None, :], y.to(out.dtype.element_ty), mask=mask)
