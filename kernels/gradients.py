"""Gradients of row kernels.

`m` rows anywhere (shape and strides, see `layouts`) of `n` elements; elements of a row are `cd`,
`cx`, `co` apart in the gradient of the result, in what the kernel had or gave, and in the output.
"""

import triton
import triton.language as tl

from .arithmetic import accumulate, divide, exp, settled, sqrt
from .indexing import across, offset, positions
from .row_sums import products_of_rows


@triton.jit
def softmax_backward(
    d, x, out, m, n, shape, sd, sx, so, cd, cx, co, LOG: tl.constexpr,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """`x` is what softmax (LOG: log_softmax) gave."""
    row, row_mask = positions(m, BLOCK_M)
    pd = d + offset(row, shape, sd)[:, None]
    px = x + offset(row, shape, sx)[:, None]
    factor = None if LOG else px
    whole = products_of_rows(pd, factor, row_mask, n, cd, cx, T, BLOCK_M, BLOCK_N)[:, None]
    goal = out + offset(row, shape, so)[:, None]
    for start in range(0, n, BLOCK_N):
        column, _, mask = across(start, n, row_mask, BLOCK_N)
        slope = tl.load(pd + (column * cd)[None, :], mask=mask, other=0).to(T)
        y = tl.load(px + (column * cx)[None, :], mask=mask, other=0).to(T)
        if LOG:
            slope = slope - exp(y) * whole
        else:
            slope = (slope - whole) * y
        tl.store(goal + (column * co)[None, :], slope.to(out.dtype.element_ty), mask=mask)


@triton.jit
def norm_backward(
    d, x, weight, out, scaled, m, n, eps, shape, sd, sx, so, cd, cx, co, sw, RMS: tl.constexpr,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Of layer_norm (RMS: rms_norm) of `x`. `scaled` gets d times what the kernel had before its
    weight, rows side by side: summed over the rows, that is the gradient of the weight.
    """
    row, row_mask = positions(m, BLOCK_M)
    pd = d + offset(row, shape, sd)[:, None]
    px = x + offset(row, shape, sx)[:, None]
    mean = tl.zeros([BLOCK_M, 1], T)
    if not RMS:
        total = products_of_rows(px, None, row_mask, n, cx, cx, T, BLOCK_M, BLOCK_N)
        mean = divide(total, n.to(T))[:, None]
    square = tl.zeros([BLOCK_M, BLOCK_N], T)
    along = tl.zeros([BLOCK_M, BLOCK_N], T)
    slopes = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost_square = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost_along = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost_slopes = tl.zeros([BLOCK_M, BLOCK_N], T)
    for start in range(0, n, BLOCK_N):
        column, column_mask, mask = across(start, n, row_mask, BLOCK_N)
        value = tl.load(px + (column * cx)[None, :], mask=mask, other=0).to(T)
        apart = tl.where(mask, value - mean, tl.zeros_like(value))
        slope = tl.load(pd + (column * cd)[None, :], mask=mask, other=0).to(T)
        slope = _weighted(slope, weight, column, column_mask, sw, T)
        square, lost_square = accumulate(square, lost_square, apart * apart)
        along, lost_along = accumulate(along, lost_along, slope * apart)
        slopes, lost_slopes = accumulate(slopes, lost_slopes, slope)
    count = n.to(T)
    variance = divide(tl.sum(settled(square, lost_square), 1), count)
    root = divide(tl.full([BLOCK_M], 1, T), sqrt(variance + eps))
    tilt = divide(tl.sum(settled(along, lost_along), 1) * root, count)[:, None]
    level = divide(tl.sum(settled(slopes, lost_slopes), 1), count)[:, None]
    root = root[:, None]
    goal = out + offset(row, shape, so)[:, None]
    for start in range(0, n, BLOCK_N):
        column, column_mask, mask = across(start, n, row_mask, BLOCK_N)
        value = tl.load(px + (column * cx)[None, :], mask=mask, other=0).to(T)
        given = tl.load(pd + (column * cd)[None, :], mask=mask, other=0).to(T)
        own = (value - mean) * root
        slope = _weighted(given, weight, column, column_mask, sw, T)
        if RMS:
            slope = (slope - own * tilt) * root
        else:
            slope = (slope - level - own * tilt) * root
        tl.store(goal + (column * co)[None, :], slope.to(out.dtype.element_ty), mask=mask)
        if scaled is not None:
            tl.store(scaled + (row * n)[:, None] + column[None, :], given * own, mask=mask)


@triton.jit
def _weighted(value, weight, column, mask, sw, T: tl.constexpr):
    if weight is not None:
        value = value * tl.load(weight + column * sw, mask=mask, other=0).to(T)[None, :]
    return value
