"""Gradients of attention: of queries, and of keys and values. The scores are made again, from what
`attention` gave as the logarithm of their sum.

Source: T. Dao, "FlashAttention-2" (2023), section 2.3.2.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import divide, exp
from .attention import rows_product
from .indexing import offset


@triton.jit
def _tile(p, row, mask, column, c_mask, step, across, DOT: tl.constexpr):
    """Rows of an array, and columns."""
    p = p + (row * step)[:, None] + (column * across)[None, :]
    return tl.load(p, mask=mask[:, None] & c_mask[None, :], other=0).to(DOT)


@triton.jit
def _sum_of(total, weight, rows, MATRIX: tl.constexpr):
    """total + weight @ rows, MATRIX as in `attention:rows_product`."""
    if MATRIX != "":
        return tl.dot(
            weight.to(rows.dtype), rows, total, input_precision=MATRIX, out_dtype=total.dtype
        )
    else:
        return total + tl.sum(weight[:, :, None] * rows[None, :, :], 1).to(total.dtype)


@triton.jit
def _weights(
    score, line, n, seen, total, scale, softcap, left, right, begin,
    LEFT: tl.constexpr, RIGHT: tl.constexpr,
):  # fmt: skip
    """The softmax of products of queries and keys, and its slope by them without the part that
    the values give.
    """
    score = score * scale
    slope = tl.zeros_like(score) + scale
    if softcap is not None:
        bent = libdevice.tanh(divide(score, tl.zeros_like(score) + softcap))
        score = bent * softcap
        slope = slope * (1 - bent * bent)
    position = line + begin
    if RIGHT:
        seen = seen & (n[None, :] <= position[:, None] + right)
    if LEFT:
        seen = seen & (n[None, :] >= position[:, None] - left)
    weight = exp(tl.where(seen, score - total[:, None], float("-inf")))
    return weight, slope


@triton.jit
def _changes(
    query, slopes, total, own, key, value, line, l_mask, n, n_mask, scale, softcap,
    left, right, begin, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    MATRIX: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """The weights of a tile of queries and keys, and the gradient of their products."""
    seen = l_mask[:, None] & n_mask[None, :]
    weight, slope = _weights(
        rows_product(query, key, MATRIX, T), line, n, seen, total, scale, softcap,
        left, right, begin, LEFT, RIGHT,
    )  # fmt: skip
    change = weight * (rows_product(slopes, value, MATRIX, T) - own[:, None]) * slope
    return weight, change


@triton.jit
def levels(
    out, d, level, rows, DV, shape, so, sd, ov, dv_step, T: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """For each query, the sum of the products of its result and the gradient of that."""
    row = tl.program_id(0).to(rows.dtype) * BLOCK + tl.arange(0, BLOCK).to(rows.dtype)
    mask = row < rows
    c = tl.arange(0, BLOCK_V).to(rows.dtype)
    both = mask[:, None] & (c < DV)[None, :]
    po = out + offset(row, shape, so)[:, None] + (c * ov)[None, :]
    pd = d + offset(row, shape, sd)[:, None] + (c * dv_step)[None, :]
    value = tl.load(po, mask=both, other=0).to(T) * tl.load(pd, mask=both, other=0).to(T)
    tl.store(level + row, tl.sum(value, 1), mask=mask)


@triton.jit
def scaled_levels(
    out, d, lse, rows, L, DV, pitch, size, shape, so, sd, sl, ol, od, dl, dd, ll,
    BLOCK: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """For each of `size` queries, `pitch` of each head, `lse` to base 2, and behind them all the
    sum of the products of its result and the gradient of that. One that sees no key, and one past
    L, has inf and so no weights.
    """
    place = tl.program_id(0).to(L.dtype) * BLOCK + tl.arange(0, BLOCK).to(L.dtype)
    i = place // pitch
    line = place - i * pitch
    mask = line < L
    c = tl.arange(0, BLOCK_V).to(L.dtype)
    both = mask[:, None] & (c < DV)[None, :]
    po = out + (offset(i, shape, so) + line * ol)[:, None] + (c * od)[None, :]
    pd = d + (offset(i, shape, sd) + line * dl)[:, None] + (c * dd)[None, :]
    value = tl.load(po, mask=both, other=0).to(tl.float32)
    level = tl.sum(value * tl.load(pd, mask=both, other=0).to(tl.float32), 1)
    total = tl.load(lse + offset(i, shape, sl) + line * ll, mask=mask, other=float("-inf"))
    total = tl.where(total == float("-inf"), float("inf"), total * 1.4426950408889634)
    tl.store(rows + place, total)
    tl.store(rows + size + place, level)


@triton.jit
def _own_tile(
    length, INDEX: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr
):
    """This block's tile of `length` rows: the number of its matrix, its first row, its rows and
    their mask, and the columns of heads and of values.
    """
    tiles = tl.cdiv(length, BLOCK)
    block = tl.program_id(0).to(INDEX)
    i = block // tiles
    start = (block - i * tiles) * BLOCK
    line = start + tl.arange(0, BLOCK).to(INDEX)
    c = tl.arange(0, BLOCK_D).to(INDEX)
    e = tl.arange(0, BLOCK_V).to(INDEX)
    return i, start, line, line < length, c, e


@triton.jit
def of_queries(
    q, k, v, lse, d, level, out, L, S, D, DV, scale, softcap, left, right, begin,
    shape, sq, sk, sv, sl, sd, se, so, ql, qd, kn, kd, vn, vd, ll, dl, dd, ol, od,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, MATRIX: tl.constexpr,
    DOT: tl.constexpr, T: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """The gradient of a tile of queries: a walk over the keys. `d` is that of the result; strides
    as of `attention`, those of `level` are `se`.
    """
    i, start, line, l_mask, c, e = _own_tile(L, S.dtype, BLOCK_L, BLOCK_D, BLOCK_V)
    query = _tile(q + offset(i, shape, sq), line, l_mask, c, c < D, ql, qd, DOT)
    slopes = _tile(d + offset(i, shape, sd), line, l_mask, e, e < DV, dl, dd, DOT)
    total = tl.load(lse + offset(i, shape, sl) + line * ll, mask=l_mask, other=0).to(T)
    total = tl.where(total == float("-inf"), float("inf"), total)  # it sees no key
    own = tl.load(level + offset(i, shape, se) + line, mask=l_mask, other=0).to(T)
    first = tl.zeros_like(S)
    last = S
    if RIGHT:
        last = tl.minimum(last, tl.minimum(start + BLOCK_L, L) + begin + right)
    if LEFT:
        first = tl.maximum(first, start + begin - left)
    grad = tl.zeros([BLOCK_L, BLOCK_D], T)
    for at in range(first, last, BLOCK_S):
        n = at + tl.arange(0, BLOCK_S).to(S.dtype)
        n_mask = n < last
        key = _tile(k + offset(i, shape, sk), n, n_mask, c, c < D, kn, kd, DOT)
        value = _tile(v + offset(i, shape, sv), n, n_mask, e, e < DV, vn, vd, DOT)
        _, change = _changes(
            query, slopes, total, own, key, value, line, l_mask, n, n_mask, scale, softcap,
            left, right, begin, LEFT, RIGHT, MATRIX, T,
        )  # fmt: skip
        grad = _sum_of(grad, change, key, MATRIX)
    p = out + offset(i, shape, so) + (line * ol)[:, None] + (c * od)[None, :]
    tl.store(p, grad.to(out.dtype.element_ty), mask=l_mask[:, None] & (c < D)[None, :])


@triton.jit
def of_keys(
    q, k, v, lse, d, level, out, out_v, L, S, D, DV, group, scale, softcap, left, right, begin,
    shape, sq, sk, sv, sl, sd, se, so, sw, gq, gl, gd, ge,
    ql, qd, kn, kd, vn, vd, ll, dl, dd, ol, od, wl, wd,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, MATRIX: tl.constexpr,
    DOT: tl.constexpr, T: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """The gradients of a tile of keys and of their values: a walk over the queries of all `group`
    heads that share them, in their order. Heads are `g` and the array's letter apart.
    """
    i, start, n, n_mask, c, e = _own_tile(S, S.dtype, BLOCK_S, BLOCK_D, BLOCK_V)
    key = _tile(k + offset(i, shape, sk), n, n_mask, c, c < D, kn, kd, DOT)
    value = _tile(v + offset(i, shape, sv), n, n_mask, e, e < DV, vn, vd, DOT)
    first = tl.zeros_like(S)
    last = L
    if RIGHT:
        first = tl.maximum(first, start - begin - right)
    if LEFT:
        last = tl.minimum(last, tl.minimum(start + BLOCK_S, S) - begin + left)
    grad = tl.zeros([BLOCK_S, BLOCK_D], T)
    grad_v = tl.zeros([BLOCK_S, BLOCK_V], T)
    for head in range(group):
        h = head.to(S.dtype)
        pq = q + offset(i, shape, sq) + h * gq
        pd = d + offset(i, shape, sd) + h * gd
        pl = lse + offset(i, shape, sl) + h * gl
        pe = level + offset(i, shape, se) + h * ge
        for at in range(first, last, BLOCK_L):
            line = at + tl.arange(0, BLOCK_L).to(S.dtype)
            l_mask = line < last
            query = _tile(pq, line, l_mask, c, c < D, ql, qd, DOT)
            slopes = _tile(pd, line, l_mask, e, e < DV, dl, dd, DOT)
            total = tl.load(pl + line * ll, mask=l_mask, other=0).to(T)
            total = tl.where(total == float("-inf"), float("inf"), total)
            own = tl.load(pe + line, mask=l_mask, other=0).to(T)
            weight, change = _changes(
                query, slopes, total, own, key, value, line, l_mask, n, n_mask, scale, softcap,
                left, right, begin, LEFT, RIGHT, MATRIX, T,
            )  # fmt: skip
            grad = _sum_of(grad, tl.trans(change), query, MATRIX)
            grad_v = _sum_of(grad_v, tl.trans(weight), slopes, MATRIX)
    p = out + offset(i, shape, so) + (n * ol)[:, None] + (c * od)[None, :]
    tl.store(p, grad.to(out.dtype.element_ty), mask=n_mask[:, None] & (c < D)[None, :])
    p = out_v + offset(i, shape, sw) + (n * wl)[:, None] + (e * wd)[None, :]
    tl.store(p, grad_v.to(out_v.dtype.element_ty), mask=n_mask[:, None] & (e < DV)[None, :])
