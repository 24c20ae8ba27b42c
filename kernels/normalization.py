"""Kernels over the rows of a matrix: `m` rows anywhere (shape and strides, see `layouts`) of `n`
elements that are `cx` apart in the input and `co` apart in the output.

Each comes twice: a row in one piece (BLOCK_N >= n), and `_long`, which walks the row.
"""

import triton
import triton.language as tl

from .arithmetic import IN_TURN, accumulate, divide, over, settled, sqrt
from .indexing import across, offset, positions, rows_of_block


@triton.jit
def _affine(y, weight, bias, column, mask, sw, sb, T: tl.constexpr):
    """y * weight + bias, of which each may be None."""
    if weight is not None:
        y = y * tl.load(weight + column * sw, mask=mask).to(T)[None, :]
    if bias is not None:
        y = y + tl.load(bias + column * sb, mask=mask).to(T)[None, :]
    return y


@triton.jit
def _added(
    part, rows, start, n, row_mask, cx, mean,
    SQUARES: tl.constexpr, T: tl.constexpr, BLOCK_N: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """`part` and what a step adds to it; WHOLE: all of whose elements are there."""
    column, _, mask = across(start, n, row_mask, BLOCK_N)
    place = rows + (column * cx)[None, :]
    value = (tl.load(place) if WHOLE else tl.load(place, mask=mask, other=0)).to(T)
    if mean is not None:
        value -= mean[:, None]
        if not WHOLE:
            value = tl.where(mask, value, tl.zeros_like(value))
    if SQUARES:
        value *= value
    return part + value


@triton.jit
def _row_sums(
    rows, row_mask, n, cx, mean, SQUARES: tl.constexpr,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    """The sum of each row; SQUARES: of the squares of what differs from `mean` (None: from 0).

    APART: the last step of a row has code of its own, and the others look at no mask.
    """
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for begin in range(0, n, BLOCK_N * IN_TURN):
        end = begin + tl.minimum(BLOCK_N * IN_TURN, n - begin)
        part = tl.zeros([BLOCK_M, BLOCK_N], T)
        whole = tl.minimum(end, n - n % BLOCK_N) if APART else begin
        if APART:
            for start in range(begin, whole, BLOCK_N):
                part = _added(part, rows, start, n, row_mask, cx, mean, SQUARES, T, BLOCK_N, True)
        for start in range(whole, end, BLOCK_N):
            part = _added(part, rows, start, n, row_mask, cx, mean, SQUARES, T, BLOCK_N, False)
        total, lost = accumulate(total, lost, part)
    return tl.sum(settled(total, lost), 1)


@triton.jit
def _write_step(
    rows, out, weight, bias, start, row_mask, n, mean, root, cx, co, sw, sb,
    T: tl.constexpr, BLOCK_N: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """A step of `_write_rows`; WHOLE: all of whose elements are there."""
    column, column_mask, mask = across(start, n, row_mask, BLOCK_N)
    place = rows + (column * cx)[None, :]
    value = (tl.load(place) if WHOLE else tl.load(place, mask=mask)).to(T)
    if mean is not None:
        value -= mean[:, None]
    y = over(value, root[:, None])
    target = out + (column * co)[None, :]
    if WHOLE:
        y = _affine(y, weight, bias, column, None, sw, sb, T)
        tl.store(target, y.to(out.dtype.element_ty))
    else:
        y = _affine(y, weight, bias, column, column_mask, sw, sb, T)
        tl.store(target, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _write_rows(
    rows, out, weight, bias, row_mask, n, mean, root, cx, co, sw, sb,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    """out = (x - mean) / root * weight + bias; `mean`, `weight` and `bias` may be None."""
    whole = n - n % BLOCK_N if APART else n * 0
    if APART:
        for start in range(0, whole, BLOCK_N):
            _write_step(
                rows, out, weight, bias, start, row_mask, n, mean, root, cx, co, sw, sb,
                T, BLOCK_N, True,
            )  # fmt: skip
    for start in range(whole, n, BLOCK_N):
        _write_step(
            rows, out, weight, bias, start, row_mask, n, mean, root, cx, co, sw, sb,
            T, BLOCK_N, False,
        )  # fmt: skip


@triton.jit
def _whole_rows(
    x, m, n, shape, sx, cx, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Rows and columns of this block, their masks, and the elements; BLOCK_N >= n."""
    row, row_mask = positions(m, BLOCK_M)
    column, column_mask, mask = across(0, n, row_mask, BLOCK_N)
    rows = x + offset(row, shape, sx)[:, None]
    value = tl.load(rows + (column * cx)[None, :], mask=mask, other=0).to(T)
    return row, column, column_mask, mask, value


@triton.jit
def layer_norm(
    x, weight, bias, out, m, n, eps, shape, sx, so, cx, co, sw, sb,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, column, column_mask, mask, value = _whole_rows(x, m, n, shape, sx, cx, T, BLOCK_M, BLOCK_N)
    mean = divide(tl.sum(value, 1), n.to(T))
    centred = tl.where(mask, value - mean[:, None], tl.zeros_like(value))
    variance = divide(tl.sum(centred * centred, 1), n.to(T))
    y = over(centred, sqrt(variance + eps)[:, None])
    y = _affine(y, weight, bias, column, column_mask, sw, sb, T)
    p = out + offset(row, shape, so)[:, None] + (column * co)[None, :]
    tl.store(p, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm_long(
    x, weight, bias, out, m, n, eps, shape, sx, so, cx, co, sw, sb,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    row, row_mask, rows = rows_of_block(x, m, shape, sx, BLOCK_M, APART)
    total = _row_sums(rows, row_mask, n, cx, None, False, T, BLOCK_M, BLOCK_N, APART)
    mean = divide(total, n.to(T))
    squares = _row_sums(rows, row_mask, n, cx, mean, True, T, BLOCK_M, BLOCK_N, APART)
    root = sqrt(divide(squares, n.to(T)) + eps)
    target = out + offset(row, shape, so)[:, None]
    _write_rows(
        rows, target, weight, bias, row_mask, n, mean, root, cx, co, sw, sb, T, BLOCK_M, BLOCK_N,
        APART,
    )  # fmt: skip


@triton.jit
def rms_norm(
    x, weight, out, m, n, eps, shape, sx, so, cx, co, sw,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row, column, column_mask, mask, value = _whole_rows(x, m, n, shape, sx, cx, T, BLOCK_M, BLOCK_N)
    square = divide(tl.sum(value * value, 1), n.to(T))
    y = over(value, sqrt(square + eps)[:, None])
    y = _affine(y, weight, None, column, column_mask, sw, 0, T)
    p = out + offset(row, shape, so)[:, None] + (column * co)[None, :]
    tl.store(p, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def rms_norm_long(
    x, weight, out, m, n, eps, shape, sx, so, cx, co, sw,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    row, row_mask, rows = rows_of_block(x, m, shape, sx, BLOCK_M, APART)
    squares = _row_sums(rows, row_mask, n, cx, None, True, T, BLOCK_M, BLOCK_N, APART)
    root = sqrt(divide(squares, n.to(T)) + eps)
    target = out + offset(row, shape, so)[:, None]
    _write_rows(
        rows, target, weight, None, row_mask, n, None, root, cx, co, sw, 0, T, BLOCK_M, BLOCK_N,
        APART,
    )  # fmt: skip
