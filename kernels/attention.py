"""Attention: softmax of the products of queries and keys, times the values, in one walk over the
keys that keeps no scores in memory.

Source: M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018), section 3;
T. Dao, "FlashAttention-2" (2023), sections 3.1 and 3.2.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import divide
from .arithmetic import exp as exact_exp
from .indexing import element, memory, offset


@triton.jit
def attention(
    q, k, v, mask, slopes, table, lengths, starts_q, starts_k, out, lse,
    L, S, D, DV, sequences, chunk, part, part_lse, scale, softcap, left, right, begin, along,
    page, pages,
    shape, sq, sk, sv, sm, ss, st, sn, so, sl,
    ql, qd, kn, kd, vn, vd, ml, mn, sr, tn, kp, vp, ol, od, ll,
    ENDS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, MATRIX: tl.constexpr,
    FAST: tl.constexpr, DOT: tl.constexpr, T: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """L queries and S keys for each index of `shape`; strides are `s` and the array's letter along
    that, then its letter and that of the axis.

    Query l is at position `l * along + begin`, counted from the last of `lengths` keys where there
    are lengths; it sees keys from `left` before (LEFT) to `right` after (RIGHT). `table` has the
    number of the page that keys of this index are in, `page` of them each; pages are `kp` and `vp`
    apart, and one that is not among `pages` is not read. Grid y cuts the keys into parts of
    `chunk`, which write results of their own, `part` and `part_lse` elements apart.

    With `starts_q` the L queries are those of `sequences` one after the other, whose first ones
    they say, and `starts_k` their first keys. ENDS: the last query is at the last key.
    """
    tiles = tl.cdiv(L, BLOCK_L)
    if starts_q is not None:
        tiles += sequences
    block = tl.program_id(0).to(S.dtype)
    i = block // tiles
    start, L, origin_q, origin_k, end, begin = rows_of(
        block - i * tiles, i, L, S, starts_q, starts_k, sequences, lengths, begin, shape, sn,
        ENDS, BLOCK_L,
    )  # fmt: skip
    line = start + tl.arange(0, BLOCK_L).to(S.dtype)
    d = tl.arange(0, BLOCK_D).to(S.dtype)
    l_mask = line < L
    d_mask = d < D
    position = line * along + begin
    y = tl.program_id(1).to(S.dtype)
    first = y * chunk
    last = first + tl.minimum(chunk, tl.maximum(end - first, 0))
    first, last = seen_keys(first, last, start, L, along, begin, left, right, LEFT, RIGHT, BLOCK_L)

    pq = memory(q) + offset(i, shape, sq) + origin_q * ql + (line * ql)[:, None] + (d * qd)[None, :]
    query = element(tl.load(pq, mask=l_mask[:, None] & d_mask[None, :], other=0), q, DOT)
    dv = tl.arange(0, BLOCK_V).to(S.dtype)
    v_mask = dv < DV
    pk = memory(k) + offset(i, shape, sk) + origin_k * kn
    pv = memory(v) + offset(i, shape, sv) + origin_k * vn
    slope = slopes
    if slopes is not None:
        slope = tl.load(slopes + offset(i, shape, ss) + line * sr, mask=l_mask, other=0).to(T)
    top = tl.full([BLOCK_L], float("-inf"), T)
    total = tl.zeros([BLOCK_L], T)
    sums = tl.zeros([BLOCK_L, BLOCK_V], T)
    for at in range(first, last, BLOCK_S):
        n = at + tl.arange(0, BLOCK_S).to(S.dtype)
        n_mask = n < last
        if table is not None:
            pt = table + offset(i, shape, st) + n // page * tn
            number = tl.load(pt, mask=n_mask, other=-1).to(S.dtype)
            n_mask = n_mask & (number >= 0) & (number < pages)
            number = tl.where(n_mask, number, 0)
            row_k = number * kp + n % page * kn
            row_v = number * vp + n % page * vn
        else:
            row_k = n * kn
            row_v = n * vn
        p = pk + row_k[:, None] + (d * kd)[None, :]
        key = element(tl.load(p, mask=n_mask[:, None] & d_mask[None, :], other=0), k, DOT)
        score = rows_product(query, key, MATRIX, T) * scale
        score = seen_scores(
            score, line, l_mask, position, n, n_mask, i, mask, slope, softcap, left, right,
            shape, sm, ml, mn, LEFT, RIGHT, T,
        )  # fmt: skip
        now, power, factor = powers(score, top, FAST)
        p = pv + row_v[:, None] + (dv * vd)[None, :]
        value = element(tl.load(p, mask=n_mask[:, None] & v_mask[None, :], other=0), v, DOT)
        total = total * factor + tl.sum(power, 1)
        sums = weighted(sums * factor[:, None], power, value, MATRIX, DOT)
        top = now
    # a query that sees no key has the result 0
    result = divide(sums, tl.where(total == 0, tl.full([BLOCK_L], 1, T), total)[:, None])
    po = (
        out
        + y * part
        + offset(i, shape, so)
        + origin_q * ol
        + (line * ol)[:, None]
        + (dv * od)[None, :]
    )
    tl.store(po, result.to(out.dtype.element_ty), mask=l_mask[:, None] & v_mask[None, :])
    if lse is not None:
        pl = lse + y * part_lse + offset(i, shape, sl) + origin_q * ll + line * ll
        tl.store(pl, (top + libdevice.log(total)).to(lse.dtype.element_ty), mask=l_mask)


@triton.jit
def rows_of(
    tile, i, L, S, starts_q, starts_k, sequences, lengths, begin, shape, sn,
    ENDS: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    """The first query of a tile, how many there are, the first of its sequence's queries and keys,
    the end of the keys, and the position of the first query.
    """
    origin_q = i * 0
    origin_k = i * 0
    start = tile * BLOCK_L
    end = S
    if starts_q is not None:
        number = sequence_of(starts_q, tile, sequences, L, BLOCK_L)
        origin_q = bound(starts_q, number, L)
        origin_k = bound(starts_k, number, S)
        start = (tile - origin_q // BLOCK_L - number) * BLOCK_L
        L = tl.maximum(bound(starts_q, number + 1, L) - origin_q, 0)
        end = tl.maximum(bound(starts_k, number + 1, S) - origin_k, 0)
        start = tl.where(start < 0, L, start)  # only where starts are not in order
        if ENDS:
            begin += end - L
    elif lengths is not None:
        end = tl.minimum(tl.load(lengths + offset(i, shape, sn)).to(S.dtype), S)
        begin += end
    return start, L, origin_q, origin_k, end, begin


@triton.jit
def seen_keys(
    first, last, start, L, along, begin, left, right,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    """The keys among `first` to `last` that any of the queries of a block may see, which begin with
    `start` (`attention`).
    """
    if RIGHT:
        last = tl.minimum(last, (tl.minimum(start + BLOCK_L, L) - 1) * along + begin + right + 1)
    if LEFT:
        first = tl.maximum(first, start * along + begin - left)
    return first, last


@triton.jit
def seen_scores(
    score, line, l_mask, position, n, n_mask, i, mask, slope, softcap, left, right,
    shape, sm, ml, mn, LEFT: tl.constexpr, RIGHT: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Products of queries and keys n as the softmax takes them, -inf where a query does not see
    the key.
    """
    if softcap is not None:
        score = libdevice.tanh(divide(score, tl.zeros_like(score) + softcap)) * softcap
    if slope is not None:
        apart = tl.abs(position[:, None] - n[None, :])
        score -= slope[:, None] * apart.to(T)
    seen = tl.broadcast_to(n_mask[None, :], score.shape)
    if RIGHT:
        seen = seen & (n[None, :] <= position[:, None] + right)
    if LEFT:
        seen = seen & (n[None, :] >= position[:, None] - left)
    if mask is not None:
        pm = memory(mask) + offset(i, shape, sm) + (line * ml)[:, None] + (n * mn)[None, :]
        given = tl.load(pm, mask=seen & l_mask[:, None], other=0)
        if mask.dtype.element_ty == tl.int1:
            seen = seen & (given != 0)
        else:
            score += given.to(T)
    return tl.where(seen, score, float("-inf"))


@triton.jit
def bound(starts, number, n):
    """Where a sequence starts, whatever `starts` contains: from 0 to `n`."""
    place = tl.load(starts + number).to(tl.int64)
    return tl.minimum(tl.maximum(place, 0), n).to(n.dtype)


@triton.jit
def sequence_of(starts, tile, sequences, n, BLOCK: tl.constexpr):
    """The sequence of a tile. Sequence b has the tiles from starts[b] // BLOCK + b on: enough for
    its elements, and those of the next one come after them.
    """
    low = tile * 0
    high = low + sequences - 1
    while low < high:
        middle = low + (high - low + 1) // 2
        before = bound(starts, middle, n) // BLOCK + middle <= tile
        low = tl.where(before, middle, low)
        high = tl.where(before, high, middle - 1)
    return low


@triton.jit
def powers(score, top, FAST: tl.constexpr):
    """The new maxima, the powers of a tile of scores, and the factor of what old ones gave."""
    now = tl.maximum(top, tl.max(score, 1))
    shift = tl.where(now == float("-inf"), tl.zeros_like(now), now)
    power = power_of(score - shift[:, None], FAST)
    return now, power, power_of(top - shift, FAST)


@triton.jit
def power_of(x, FAST: tl.constexpr):
    """e**x. FAST: within what a half type holds."""
    if FAST:
        return tl.exp(x)
    else:
        return exact_exp(x)


@triton.jit
def rows_product(a, b, MATRIX: tl.constexpr, T: tl.constexpr):
    """a @ b.T, of rows of both. MATRIX: how `tl.dot` takes float32 numbers; empty: without it."""
    if MATRIX != "":
        return tl.dot(a, tl.trans(b), input_precision=MATRIX, out_dtype=T)
    else:
        return tl.sum(a[:, None, :] * b[None, :, :], 2).to(T)


@triton.jit
def weighted(sums, power, value, MATRIX: tl.constexpr, DOT: tl.constexpr):
    """sums + power @ value, MATRIX as in `rows_product`"""
    if MATRIX != "":
        return tl.dot(power.to(DOT), value, sums, input_precision=MATRIX, out_dtype=sums.dtype)
    else:
        return sums + tl.sum(power[:, :, None] * value[None, :, :].to(sums.dtype), 1)


@triton.jit
def joined(
    x, x_lse, out, lse, rows, parts, DV, shape, so, sl, od,
    T: tl.constexpr, BLOCK: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """One result of the parts that `attention` leaves: (part, row, DV) and (part, row)."""
    row = tl.program_id(0).to(rows.dtype) * BLOCK + tl.arange(0, BLOCK).to(rows.dtype)
    r_mask = row < rows
    dv = tl.arange(0, BLOCK_V).to(rows.dtype)
    result, level = of_parts(x, x_lse, row, r_mask, dv, rows, parts, DV, T, BLOCK, BLOCK_V)
    p = out + offset(row, shape, so)[:, None] + (dv * od)[None, :]
    tl.store(p, result.to(out.dtype.element_ty), mask=r_mask[:, None] & (dv < DV)[None, :])
    if lse is not None:
        pl = lse + offset(row, shape, sl)
        tl.store(pl, level.to(lse.dtype.element_ty), mask=r_mask)


@triton.jit
def of_parts(
    x, x_lse, row, r_mask, dv, rows, parts, DV,
    T: tl.constexpr, BLOCK: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Rows of the result of all parts, and the logs of their sums."""
    top = tl.full([BLOCK], float("-inf"), T)
    for y in range(parts):
        own = tl.load(x_lse + y * rows + row, mask=r_mask, other=float("-inf"))
        top = tl.where(own > top, own, top)
    shift = tl.where(top == float("-inf"), tl.zeros_like(top), top)
    total = tl.zeros([BLOCK], T)
    sums = tl.zeros([BLOCK, BLOCK_V], T)
    mask = r_mask[:, None] & (dv < DV)[None, :]
    for y in range(parts):
        own = tl.load(x_lse + y * rows + row, mask=r_mask, other=float("-inf"))
        weight = exact_exp(own - shift)
        p = x + (y * rows + row)[:, None] * DV + dv[None, :]
        total += weight
        sums += weight[:, None] * tl.load(p, mask=mask, other=0)
    result = divide(sums, tl.where(total == 0, tl.full([BLOCK], 1, T), total)[:, None])
    return result, shift + libdevice.log(total)
