"""Matrix products whose first factor, or both, are made of arrays as they are read
(`xtarget.fuse`)."""

import triton
import triton.language as tl

from .indexing import element, memory, offset
from .linear import stored, tile_of
from .tails import beside, columns_of, elements


@triton.jit
def operator(*elements):
    """Stands for the device function of what follows a product."""
    return elements[0]


@triton.jit
def before(*elements):
    """Stands for the device function that makes the first factor."""
    return elements[0]


@triton.jit
def second(*elements):
    """Stands for the device function that makes the second factor."""
    return elements[0]


@triton.jit
def matmul(
    a, b, out, M, N, K, chunk, part, batch_shape, sa, sb, so, am, ak, bk, bn, om, on,
    c, d, e, f, sc, sd, se, sf, cm, cn, dm, dn, em, en, fm, fn,
    g, h, sg, sh, gm, gk, hm, hk, u, v, su, sv, uk, un, vk, vn,
    C: tl.constexpr, D: tl.constexpr, E: tl.constexpr, F: tl.constexpr,
    G: tl.constexpr, H: tl.constexpr, U: tl.constexpr, V: tl.constexpr,
    DOT: tl.constexpr, T: tl.constexpr, EVEN_K: tl.constexpr, FOLD: tl.constexpr,
    GROUP_M: tl.constexpr, SECOND: tl.constexpr, THEN: tl.constexpr, PIECES: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`linear.matmul_then`, or without THEN `linear.matmul`, of what `before` makes of `a` and,
    beside it, `g` and `h`: these stand beside the first factor as `c` to `f` do beside the product
    (`tails`), with steps from row to row and along K. With SECOND the second factor is what
    `second` makes of `b` and, beside it, `u` and `v`, with steps along K and from column to column.
    """
    tiles_n = tl.cdiv(N, BLOCK_N)
    i, tile_m, tile_n = tile_of(tl.program_id(0).to(K.dtype), tl.cdiv(M, BLOCK_M), tiles_n, GROUP_M)
    rm = tile_m * BLOCK_M + tl.arange(0, BLOCK_M).to(K.dtype)
    rn = tile_n * BLOCK_N + tl.arange(0, BLOCK_N).to(K.dtype)
    y = tl.program_id(1).to(K.dtype)
    first = y * chunk
    last = first + tl.minimum(chunk, K - first)
    pb = memory(b) + offset(i, batch_shape, sb) + (rn % N * bn)[None, :]
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    # `before` and `second` stand for other functions in this one only, so both loops call them
    if FOLD:
        for begin in range(first, last, FOLD):
            partial = tl.zeros([BLOCK_M, BLOCK_N], T)
            for k in range(begin, begin + tl.minimum(last - begin, FOLD), BLOCK_K):
                made = before(*_given(
                    a, i, rm % M, k, last, batch_shape, sa, am, ak,
                    g, h, sg, sh, gm, gk, hm, hk, G, H, EVEN_K, BLOCK_K,
                ))  # fmt: skip
                if SECOND:
                    other = second(*_given_columns(
                        b, i, rn % N, k, last, batch_shape, sb, bk, bn,
                        u, v, su, sv, uk, un, vk, vn, U, V, EVEN_K, BLOCK_K,
                    ))  # fmt: skip
                else:
                    other = _columns(b, pb, k, last, bk, EVEN_K, BLOCK_K)
                partial = _product(partial, made, other, b, k, last, DOT, SECOND, EVEN_K, BLOCK_K)
            total += partial
    else:
        for k in range(first, last, BLOCK_K):
            made = before(*_given(
                a, i, rm % M, k, last, batch_shape, sa, am, ak,
                g, h, sg, sh, gm, gk, hm, hk, G, H, EVEN_K, BLOCK_K,
            ))  # fmt: skip
            if SECOND:
                other = second(*_given_columns(
                    b, i, rn % N, k, last, batch_shape, sb, bk, bn,
                    u, v, su, sv, uk, un, vk, vn, U, V, EVEN_K, BLOCK_K,
                ))  # fmt: skip
            else:
                other = _columns(b, pb, k, last, bk, EVEN_K, BLOCK_K)
            total = _product(total, made, other, b, k, last, DOT, SECOND, EVEN_K, BLOCK_K)
    p = out + y * part + offset(i, batch_shape, so)
    if not THEN:
        stored(p, total, rm, rn, rm < M, rn < N, om, on)
    else:
        WIDTH: tl.constexpr = BLOCK_N // PIECES
        for number in tl.static_range(PIECES):
            columns = tile_n * BLOCK_N + number * WIDTH + tl.arange(0, WIDTH).to(K.dtype)
            found = elements(
                columns_of(total, number, PIECES), c, d, e, f, sc, sd, se, sf,
                cm, cn, dm, dn, em, en, fm, fn, C, D, E, F,
                i, batch_shape, rm, columns, rm < M, columns < N,
            )  # fmt: skip
            stored(p, operator(*found), rm, columns, rm < M, columns < N, om, on)


@triton.jit
def _along_k(k, last, EVEN_K: tl.constexpr, BLOCK_K: tl.constexpr):
    """Indices along K, and whether they are before `last`."""
    rk = k + tl.arange(0, BLOCK_K).to(k.dtype)
    if EVEN_K:
        return rk, tl.full([BLOCK_K], 1, tl.int1)
    else:
        return rk, rk < last


@triton.jit
def _given(
    a, i, rm, k, last, batch_shape, sa, am, ak, g, h, sg, sh, gm, gk, hm, hk,
    G: tl.constexpr, H: tl.constexpr, EVEN_K: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """What a tile of the first factor is made of. The rows `rm` are in bounds."""
    rk, inside = _along_k(k, last, EVEN_K, BLOCK_K)
    rows = tl.full([rm.shape[0]], 1, tl.int1)
    own = beside(a, sa, am, ak, "whole", i, batch_shape, rm, rk, rows, inside)
    return elements(
        own, g, h, None, None, sg, sh, None, None, gm, gk, hm, hk, 0, 0, 0, 0, G, H, None, None,
        i, batch_shape, rm, rk, rows, inside,
    )  # fmt: skip


@triton.jit
def _given_columns(
    b, i, rn, k, last, batch_shape, sb, bk, bn, u, v, su, sv, uk, un, vk, vn,
    U: tl.constexpr, V: tl.constexpr, EVEN_K: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """What a tile of the second factor is made of. The columns `rn` are in bounds."""
    rk, inside = _along_k(k, last, EVEN_K, BLOCK_K)
    columns = tl.full([rn.shape[0]], 1, tl.int1)
    own = beside(b, sb, bk, bn, "whole", i, batch_shape, rk, rn, inside, columns)
    return elements(
        own, u, v, None, None, su, sv, None, None, uk, un, vk, vn, 0, 0, 0, 0, U, V, None, None,
        i, batch_shape, rk, rn, inside, columns,
    )  # fmt: skip


@triton.jit
def _columns(b, pb, k, last, bk, EVEN_K: tl.constexpr, BLOCK_K: tl.constexpr):
    """A tile of the second factor as it lies."""
    rk = k + tl.arange(0, BLOCK_K).to(k.dtype)
    if EVEN_K:
        return tl.load(pb + (rk * bk)[:, None])
    else:
        return tl.load(pb + (rk * bk)[:, None], mask=(rk < last)[:, None], other=0)


@triton.jit
def _product(
    total, made, other, b, k, last,
    DOT: tl.constexpr, SECOND: tl.constexpr, EVEN_K: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """total + (tile of the first factor) @ (tile of the second)."""
    x = made.to(DOT)
    if SECOND:
        z = other.to(DOT)
    else:
        z = element(other, b, DOT)
    if not EVEN_K:
        # what is made of nothing may be anything
        inside = k + tl.arange(0, BLOCK_K).to(k.dtype) < last
        x = tl.where(inside[None, :], x, tl.zeros(x.shape, DOT))
        if SECOND:
            z = tl.where(inside[:, None], z, tl.zeros(z.shape, DOT))
    return tl.dot(x, z, total, input_precision="ieee", out_dtype=total.dtype)
