"""Attention of queries, keys and values that are made of arrays as they are read, and whose result
goes through further operators before it is stored (`xtarget.fuse`).

Source: as of `attention`.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import divide
from .attention import of_parts, powers, rows_of, rows_product, seen_keys, seen_scores, weighted
from .indexing import element, memory, offset
from .linear import panel_part
from .outer_attention import columns_of, tile
from .tails import beside, elements

# device functions come in their place: of what panels are of, of keys, of what follows, of queries
# and of values
from .tails import placeholder as before
from .tails import placeholder as key
from .tails import placeholder as operator
from .tails import placeholder as query
from .tails import placeholder as value


@triton.jit
def _kept(made, inside, DOT: tl.constexpr):
    """Return elements that operators give, as type DOT: 0 outside, where they may be anything."""
    return tl.where(inside, made.to(DOT), tl.zeros(made.shape, DOT))


@triton.jit
def score(*elements):
    """Stands for the device function of the scores."""
    return elements[0]


@triton.jit
def attention(
    q, k, v, mask, slopes, out, lse, L, S, D, DV, chunk, part, part_lse,
    scale, softcap, left, right, begin, along,
    shape, sq, sk, sv, sm, ss, so, sl, ql, qd, kn, kd, vn, vd, ml, mn, sr, ol, od, ll,
    e, f, u, y, se, sf, su, sy, em, en, fm, fn, um, un, ym, yn,
    g, h, sg, sh, gm, gk, hm, hk, p, z, sp, sz, pm, pk, zm, zk, w, x, sw, sx, wm, wk, xm, xk,
    i0, i1, i2, i3, i4, i5, i6, si0, si1, si2, si3, si4, si5, si6,
    i0m, i0n, i1m, i1n, i2m, i2n, i3m, i3n, i4m, i4n, i5m, i5n, i6m, i6n,
    E: tl.constexpr, F: tl.constexpr, U: tl.constexpr, Y: tl.constexpr,
    G: tl.constexpr, H: tl.constexpr, P: tl.constexpr, Z: tl.constexpr,
    W: tl.constexpr, X: tl.constexpr,
    I0: tl.constexpr, I1: tl.constexpr, I2: tl.constexpr, I3: tl.constexpr,
    I4: tl.constexpr, I5: tl.constexpr, I6: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, MATRIX: tl.constexpr,
    FAST: tl.constexpr, DOT: tl.constexpr, T: tl.constexpr,
    QUERY: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, THEN: tl.constexpr,
    SCORE: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """`attention:attention` of arrays. With QUERY, KEY and VALUE `query` of `q`, `g` and `h`, `key`
    of `k`, `p` and `z`, and `value` of `v`, `w` and `x` come in the place of `q`, `k` and `v`; with
    THEN the result goes through `operator` with `e`, `f`, `u` and `y`, and with SCORE each product
    of a query and a key, times `scale`, through `score` with `i0` to `i6`. What
    stands beside has strides along `shape`, and from row to row and along the row (`tails`).
    """
    tiles = tl.cdiv(L, BLOCK_L)
    block = tl.program_id(0).to(S.dtype)
    n_head = block // tiles
    start = (block - n_head * tiles) * BLOCK_L
    line = start + tl.arange(0, BLOCK_L).to(S.dtype)
    rd = tl.arange(0, BLOCK_D).to(S.dtype)
    rv = tl.arange(0, BLOCK_V).to(S.dtype)
    l_mask = line < L
    d_mask = rd < D
    v_mask = rv < DV
    position = line * along + begin
    number = tl.program_id(1).to(S.dtype)
    first = number * chunk
    last = first + tl.minimum(chunk, tl.maximum(S - first, 0))
    first, last = seen_keys(first, last, start, L, along, begin, left, right, LEFT, RIGHT, BLOCK_L)
    rows = tl.minimum(line, L - 1)  # those past the end are read as the last one
    every = tl.full([BLOCK_L], 1, tl.int1)
    own = beside(q, sq, ql, qd, "whole", n_head, shape, rows, rd, every, d_mask)
    if QUERY:
        made = query(*elements(
            own, g, h, None, None, sg, sh, None, None, gm, gk, hm, hk, 0, 0, 0, 0, G, H, None, None,
            n_head, shape, rows, rd, every, d_mask,
        ))  # fmt: skip
        queries = _kept(made, d_mask[None, :], DOT)
    else:
        queries = element(own, q, DOT)
    slope = slopes
    if slopes is not None:
        slope = tl.load(slopes + offset(n_head, shape, ss) + line * sr, mask=l_mask, other=0).to(T)
    top = tl.full([BLOCK_L], float("-inf"), T)
    total = tl.zeros([BLOCK_L], T)
    sums = tl.zeros([BLOCK_L, BLOCK_V], T)
    for at in range(first, last, BLOCK_S):
        n = at + tl.arange(0, BLOCK_S).to(S.dtype)
        n_mask = n < last
        own_k = beside(k, sk, kn, kd, "whole", n_head, shape, n, rd, n_mask, d_mask)
        if KEY:
            made_k = key(*elements(
                own_k, p, z, None, None, sp, sz, None, None, pm, pk, zm, zk, 0, 0, 0, 0,
                P, Z, None, None, n_head, shape, n, rd, n_mask, d_mask,
            ))  # fmt: skip
            keys = _kept(made_k, n_mask[:, None] & d_mask[None, :], DOT)
        else:
            keys = element(own_k, k, DOT)
        products = rows_product(queries, keys, MATRIX, T) * scale
        if SCORE:
            found = score(*_beside_scores(
                products, i0, i1, i2, i3, i4, i5, i6, si0, si1, si2, si3, si4, si5, si6,
                i0m, i0n, i1m, i1n, i2m, i2n, i3m, i3n, i4m, i4n, i5m, i5n, i6m, i6n,
                I0, I1, I2, I3, I4, I5, I6, n_head, shape, line, n, l_mask, n_mask,
            ))  # fmt: skip
            products = found.to(T)
        seen = seen_scores(
            products, line, l_mask, position, n, n_mask, n_head, mask, slope, softcap, left, right,
            shape, sm, ml, mn, LEFT, RIGHT, T,
        )  # fmt: skip
        now, power, factor = powers(seen, top, FAST)
        own_v = beside(v, sv, vn, vd, "whole", n_head, shape, n, rv, n_mask, v_mask)
        if VALUE:
            made_v = value(*elements(
                own_v, w, x, None, None, sw, sx, None, None, wm, wk, xm, xk, 0, 0, 0, 0,
                W, X, None, None, n_head, shape, n, rv, n_mask, v_mask,
            ))  # fmt: skip
            values = _kept(made_v, n_mask[:, None] & v_mask[None, :], DOT)
        else:
            values = element(own_v, v, DOT)
        total = total * factor + tl.sum(power, 1)
        sums = weighted(sums * factor[:, None], power, values, MATRIX, DOT)
        top = now
    # a query that sees no key has the result 0
    result = divide(sums, tl.where(total == 0, tl.full([BLOCK_L], 1, T), total)[:, None])
    if THEN:
        result = operator(*elements(
            result, e, f, u, y, se, sf, su, sy, em, en, fm, fn, um, un, ym, yn,
            E, F, U, Y, n_head, shape, line, rv, l_mask, v_mask,
        ))  # fmt: skip
    po = out + number * part + offset(n_head, shape, so) + (line * ol)[:, None] + (rv * od)[None, :]
    tl.store(po, result.to(out.dtype.element_ty), mask=l_mask[:, None] & v_mask[None, :])
    if lse is not None:
        pl = lse + number * part_lse + offset(n_head, shape, sl) + line * ll
        tl.store(pl, (top + libdevice.log(total)).to(lse.dtype.element_ty), mask=l_mask)


@triton.jit
def _beside_scores(
    products, i0, i1, i2, i3, i4, i5, i6, si0, si1, si2, si3, si4, si5, si6,
    i0m, i0n, i1m, i1n, i2m, i2n, i3m, i3n, i4m, i4n, i5m, i5n, i6m, i6n,
    I0: tl.constexpr, I1: tl.constexpr, I2: tl.constexpr, I3: tl.constexpr,
    I4: tl.constexpr, I5: tl.constexpr, I6: tl.constexpr,
    i, shape, line, n, l_mask, n_mask,
):  # fmt: skip
    """A tile of scores and what stands beside them: what `score` takes."""
    first = elements(
        products, i0, i1, i2, i3, si0, si1, si2, si3, i0m, i0n, i1m, i1n, i2m, i2n, i3m, i3n,
        I0, I1, I2, I3, i, shape, line, n, l_mask, n_mask,
    )  # fmt: skip
    if i4 is None:
        return first
    else:
        more = elements(
            products, i4, i5, i6, None, si4, si5, si6, None, i4m, i4n, i5m, i5n, i6m, i6n, 0, 0,
            I4, I5, I6, None, i, shape, line, n, l_mask, n_mask,
        )  # fmt: skip
        if i5 is None:
            return first[0], first[1], first[2], first[3], first[4], more[1]
        elif i6 is None:
            return first[0], first[1], first[2], first[3], first[4], more[1], more[2]
        else:
            return first[0], first[1], first[2], first[3], first[4], more[1], more[2], more[3]


@triton.jit
def joined(
    x, x_lse, out, rows, parts, DV, shape, so, od,
    e, f, u, y, se, sf, su, sy, em, en, fm, fn, um, un, ym, yn,
    E: tl.constexpr, F: tl.constexpr, U: tl.constexpr, Y: tl.constexpr,
    T: tl.constexpr, BLOCK: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """`attention:joined`, whose result goes through `operator`."""
    row = tl.program_id(0).to(rows.dtype) * BLOCK + tl.arange(0, BLOCK).to(rows.dtype)
    r_mask = row < rows
    rv = tl.arange(0, BLOCK_V).to(rows.dtype)
    v_mask = rv < DV
    result, _ = of_parts(x, x_lse, row, r_mask, rv, rows, parts, DV, T, BLOCK, BLOCK_V)
    # each row is one of `shape`
    result = operator(*elements(
        result, e, f, u, y, se, sf, su, sy, em, en, fm, fn, um, un, ym, yn,
        E, F, U, Y, row[:, None], shape, row, rv, r_mask, v_mask,
    ))  # fmt: skip
    p = out + offset(row, shape, so)[:, None] + (rv * od)[None, :]
    tl.store(p, result.to(out.dtype.element_ty), mask=r_mask[:, None] & v_mask[None, :])


@triton.jit
def outer(
    q, k, v, mask, slopes, out, scratch,
    blocks, programs, L, S, D, DV, scale, softcap, left, right, begin, along,
    shape, sq, sk, sv, sm, ss, so, ql, qd, ml, mn, sr, ol, od,
    e, f, u, y, se, sf, su, sy, em, en, fm, fn, um, un, ym, yn,
    E: tl.constexpr, F: tl.constexpr, U: tl.constexpr, Y: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, T: tl.constexpr,
    BLOCK_L: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """`outer_attention:attention` of arrays, whose result goes through `operator`."""
    tiles = tl.cdiv(L, BLOCK_L)
    number = tl.program_id(0).to(S.dtype)
    scratch += number * (BLOCK_L * (KEYS + COLUMNS))
    for block in range(number, blocks, programs):
        i = block // tiles
        start, count, origin_q, origin_k, end, from_ = rows_of(
            block - i * tiles, i, L, S, None, None, 0, None, begin, shape, None, False, BLOCK_L,
        )  # fmt: skip
        line, l_mask, total = tile(
            memory(q) + offset(i, shape, sq), q, k + offset(i, shape, sk), v + offset(i, shape, sv),
            mask, slopes, None, scratch, i, start, count, origin_q, origin_k, end, S, D, DV,
            scale, softcap, left, right, from_, along, shape, sm, ss, None, ql, qd, ml, mn, sr, 0,
            LEFT, RIGHT, T, BLOCK_L, KEYS, WIDTH, COLUMNS, STEP,
        )  # fmt: skip
        po = out + offset(i, shape, so)
        for column in range(0, DV, WIDTH):
            rv, result = columns_of(scratch, column, total, BLOCK_L, KEYS, WIDTH, COLUMNS)
            v_mask = rv < DV
            found = operator(*elements(
                result, e, f, u, y, se, sf, su, sy, em, en, fm, fn, um, un, ym, yn,
                E, F, U, Y, i, shape, line, rv, l_mask, v_mask,
            ))  # fmt: skip
            p = (po + line * ol)[:, None] + (rv * od)[None, :]
            inside = l_mask[:, None] & v_mask[None, :]
            tl.store(p, found.to(po.dtype.element_ty), mask=inside)
        tl.debug_barrier()


@triton.jit
def panels(
    x, out, count, K, shape, sx, step, xk, to_panel, to_k, to_matrix,
    g, h, sg, sh, gm, gk, hm, hk, G: tl.constexpr, H: tl.constexpr,
    T: tl.constexpr, FILL: tl.constexpr, WIDTH: tl.constexpr, PART: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`linear:panels` of what `before` makes of `x`, `g` and `h`: these have strides along `shape`,
    along a column, and from one to the next.
    """
    i, k, k_mask, column, column_mask, place = panel_part(
        count, K, tl.program_id(2).to(K.dtype) * BLOCK_K, to_panel, to_k, to_matrix,
        WIDTH, PART, BLOCK_K,
    )  # fmt: skip
    own = beside(x, sx, xk, step, "whole", i, shape, k, column, k_mask, column_mask)
    made = before(*elements(
        own, g, h, None, None, sg, sh, None, None, gm, gk, hm, hk, 0, 0, 0, 0, G, H, None, None,
        i, shape, k, column, k_mask, column_mask,
    ))  # fmt: skip
    mask = k_mask[:, None] & column_mask[None, :]
    # what is made of nothing may be anything
    made = tl.where(mask, made.to(T), tl.zeros([BLOCK_K, PART], T))
    tl.store(out + place, made, mask=k_mask[:, None] if FILL else mask)
