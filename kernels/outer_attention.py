"""Attention for devices without matrix units: both products are sums of outer products, which keep
a tile of sums in registers and take the other operand from panels, as `linear:matmul_outer` does.

Source: as of `attention`.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import divide, exp
from .attention import rows_of, seen_keys, seen_scores
from .indexing import element, memory, offset


@triton.jit
def attention(
    q, k, v, mask, slopes, starts_q, starts_k, out, lse, scratch,
    blocks, programs, L, S, D, DV, sequences, scale, softcap, left, right, begin, along,
    shape, sq, sk, sv, sm, ss, so, sl, ql, qd, ml, mn, sr, ol, od, ll,
    ENDS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, T: tl.constexpr,
    BLOCK_L: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """`attention:attention` of `blocks` tiles of queries, which `programs` programs share.

    `k` and `v` come from `linear:panels`: WIDTH keys side by side, and WIDTH columns of values.
    Each program has memory of its own in `scratch`: the powers of KEYS keys for a tile's queries,
    then its sums, COLUMNS each. STEP products are written out.
    """
    tiles = tl.cdiv(L, BLOCK_L)
    if starts_q is not None:
        tiles += sequences
    number = tl.program_id(0).to(S.dtype)
    scratch += number * (BLOCK_L * (KEYS + COLUMNS))
    for block in range(number, blocks, programs):
        i = block // tiles
        start, count, origin_q, origin_k, end, from_ = rows_of(
            block - i * tiles, i, L, S, starts_q, starts_k, sequences, None, begin, shape, None,
            ENDS, BLOCK_L,
        )  # fmt: skip
        line, l_mask, total = tile(
            memory(q) + offset(i, shape, sq) + origin_q * ql, q, k + offset(i, shape, sk),
            v + offset(i, shape, sv), mask, slopes, lse, scratch, i, start, count, origin_q,
            origin_k, end, S, D, DV, scale, softcap, left, right, from_, along,
            shape, sm, ss, sl, ql, qd, ml, mn, sr, ll,
            LEFT, RIGHT, T, BLOCK_L, KEYS, WIDTH, COLUMNS, STEP,
        )  # fmt: skip
        po = out + offset(i, shape, so) + origin_q * ol
        for column in range(0, DV, WIDTH):
            c, result = columns_of(scratch, column, total, BLOCK_L, KEYS, WIDTH, COLUMNS)
            p = (po + line * ol)[:, None] + (c * od)[None, :]
            inside = l_mask[:, None] & (c < DV)[None, :]
            tl.store(p, result.to(po.dtype.element_ty), mask=inside)
        tl.debug_barrier()


@triton.jit
def tile(
    pq, q, k, v, mask, slopes, lse, scratch, i, start, L, origin_q, origin_k, end, S, D, DV,
    scale, softcap, left, right, begin, along,
    shape, sm, ss, sl, ql, qd, ml, mn, sr, ll,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, T: tl.constexpr,
    BLOCK_L: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """Leave the sums of a tile of queries in `scratch`: their numbers, which are there, and by what
    the sums are to be divided.
    """
    row = tl.arange(0, BLOCK_L).to(S.dtype)
    line = start + row
    l_mask = line < L
    position = line * along + begin
    first = S * 0
    last = tl.maximum(end, 0)
    first, last = seen_keys(first, last, start, L, along, begin, left, right, LEFT, RIGHT, BLOCK_L)
    if start >= L:
        last = first
    slope = slopes
    if slopes is not None:
        slope = tl.load(slopes + offset(i, shape, ss) + line * sr, mask=l_mask, other=0).to(T)
    # queries past the end are read as the last one
    pq += tl.minimum(line, L - 1) * ql
    powers = scratch + row * KEYS
    sums = scratch + BLOCK_L * KEYS + row * COLUMNS
    lane = tl.arange(0, WIDTH).to(S.dtype)
    for column in range(0, DV, WIDTH):
        tl.store((sums + column)[:, None] + lane[None, :], tl.zeros([BLOCK_L, WIDTH], T))
    top = tl.full([BLOCK_L], float("-inf"), T)
    total = tl.zeros([BLOCK_L], T)
    # numbers of keys are those of all sequences here, so that panels begin at multiples of WIDTH
    for at in range((first + origin_k) // WIDTH * WIDTH, last + origin_k, KEYS):
        stop = tl.minimum(at + KEYS, last + origin_k)
        best = tl.full([BLOCK_L, WIDTH], float("-inf"), T)
        for panel in range(at, stop, WIDTH):
            score = _products(pq, k + panel * D + lane, q, D, qd, WIDTH, STEP, BLOCK_L, T)
            n = panel - origin_k + lane
            score = seen_scores(
                score * scale, line, l_mask, position, n, (n >= first) & (n < last), i, mask,
                slope, softcap, left, right, shape, sm, ml, mn, LEFT, RIGHT, T,
            )  # fmt: skip
            best = tl.maximum(best, score)
            tl.store((powers + (panel - at))[:, None] + lane[None, :], score)
        now = tl.maximum(top, tl.max(best, 1))
        shift = tl.where(now == float("-inf"), tl.zeros_like(now), now)
        factor = exp(top - shift)
        tl.debug_barrier()
        sum = tl.zeros([BLOCK_L, WIDTH], T)
        for panel in range(at, stop, WIDTH):
            p = (powers + (panel - at))[:, None] + lane[None, :]
            power = exp(tl.load(p) - shift[:, None])
            sum += power
            tl.store(p, power)
        total = total * factor + tl.sum(sum, 1)
        top = now
        tl.debug_barrier()
        for column in range(0, DV, WIDTH):
            p = (sums + column)[:, None] + lane[None, :]
            pv = v + column * S + at * WIDTH + lane
            value = tl.load(p) * factor[:, None]
            value = _weighted(value, powers, pv, stop - at, WIDTH, STEP)
            tl.store(p, value)
        tl.debug_barrier()
    if lse is not None:
        pl = lse + offset(i, shape, sl) + origin_q * ll + line * ll
        tl.store(pl, (top + libdevice.log(total)).to(lse.dtype.element_ty), mask=l_mask)
    # a query that sees no key has the result 0
    return line, l_mask, tl.where(total == 0, tl.full([BLOCK_L], 1, T), total)


@triton.jit
def columns_of(
    scratch, column, total, BLOCK_L: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """WIDTH columns of a tile's result, from `column` on, and their numbers."""
    lane = tl.arange(0, WIDTH).to(column.dtype)
    sums = scratch + BLOCK_L * KEYS + tl.arange(0, BLOCK_L).to(column.dtype) * COLUMNS
    found = tl.load((sums + column)[:, None] + lane[None, :])
    return column + lane, divide(found, total[:, None])


@triton.jit
def _products(
    pq, pk, q, D, qd, WIDTH: tl.constexpr, STEP: tl.constexpr, BLOCK_L: tl.constexpr,
    T: tl.constexpr,
):  # fmt: skip
    """Queries times a panel of keys."""
    score = tl.zeros([BLOCK_L, WIDTH], T)
    whole = D // STEP * STEP
    for d in range(0, whole, STEP):
        for j in tl.static_range(STEP):
            x = element(tl.load(pq + (d + j) * qd), q, T)
            score = _outer(score, x, tl.load(pk + (d + j) * WIDTH))
    for d in range(whole, D):
        score = _outer(score, element(tl.load(pq + d * qd), q, T), tl.load(pk + d * WIDTH))
    return score


@triton.jit
def _weighted(value, powers, pv, count, WIDTH: tl.constexpr, STEP: tl.constexpr):
    """value + powers of `count` keys times a panel of values."""
    whole = count // STEP * STEP
    for s in range(0, whole, STEP):
        for j in tl.static_range(STEP):
            value = _outer(value, tl.load(powers + (s + j)), tl.load(pv + (s + j) * WIDTH))
    for s in range(whole, count):
        value = _outer(value, tl.load(powers + s), tl.load(pv + s * WIDTH))
    return value


@triton.jit
def _outer(total, x, z):
    x = tl.broadcast_to(x[:, None], total.shape)
    return tl.fma(x, tl.broadcast_to(z[None, :], total.shape), total)
