"""Matrix products."""

import triton
import triton.language as tl

from .arithmetic import IN_TURN, accumulate, settled
from .indexing import element, memory, offset, span
from .tails import columns_of, elements

#: Outer products that are added one after the other; a multiple of every BLOCK_K.
PRODUCTS: tl.constexpr = tl.constexpr(256)


def of_pairs(total, x, z, _semantic=None):
    """total + the products of both bfloat16 of words, by a function that CPUs' compiler knows."""
    types = {(tl.float32, tl.int32, tl.int32): ("_Z13xt_bf16_pairsfii", tl.float32)}
    return tl.core.extern_elementwise(
        "", "", [total, x, z], types, is_pure=True, _semantic=_semantic
    )


# what `triton.language.core.extern` sets, but for a signature, whose value no key can tell
of_pairs.__triton_builtin__ = True


@triton.jit
def operator(*elements):
    """Stands for the device function that a kernel with a tail is compiled with."""
    return elements[0]


@triton.jit
def tile_of(block, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """The number of a block's matrix in the batch, and its tile's row and column of tiles."""
    i = block // (tiles_m * tiles_n)
    tile = block % (tiles_m * tiles_n)
    # GROUP_M rows of tiles go together, column by column, so that what they share stays in L2
    group = tile // (GROUP_M * tiles_n)
    height = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    tile_m = group * GROUP_M + tile % (GROUP_M * tiles_n) % height
    tile_n = tile % (GROUP_M * tiles_n) // height
    return i, tile_m, tile_n


@triton.jit
def matmul(
    a, b, out, M, N, K, chunk, part, batch_shape, sa, sb, so, am, ak, bk, bn, om, on,
    DOT: tl.constexpr, T: tl.constexpr, EVEN_K: tl.constexpr, FOLD: tl.constexpr,
    FEW: tl.constexpr, GROUP_M: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out[i] = a[i] @ b[i] for every i of the batch, operands taken as type DOT, summed in T.

    Grid x is batch * tiles. Grid y cuts K into parts of `chunk` (a multiple of BLOCK_K), each of
    which writes its own result, `part` elements after the one before. FOLD: so many products are
    added one after the other (a multiple of BLOCK_K), and what they give to the whole; 0 is all.
    FEW: a tile has more rows than there are; those past the end are not read.
    """
    i, rm, column, total = _tile(
        a, b, M, N, K, chunk, batch_shape, sa, sb, am, ak, bk, bn,
        DOT, T, EVEN_K, FOLD, FEW, GROUP_M, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip
    rn = column + tl.arange(0, BLOCK_N).to(K.dtype)
    p = out + tl.program_id(1).to(K.dtype) * part + offset(i, batch_shape, so)
    stored(p, total, rm, rn, rm < M, rn < N, om, on)


@triton.jit
def matmul_then(
    a, b, out, M, N, K, chunk, part, batch_shape, sa, sb, so, am, ak, bk, bn, om, on,
    c, d, e, f, sc, sd, se, sf, cm, cn, dm, dn, em, en, fm, fn,
    C: tl.constexpr, D: tl.constexpr, E: tl.constexpr, F: tl.constexpr,
    DOT: tl.constexpr, T: tl.constexpr, EVEN_K: tl.constexpr, FOLD: tl.constexpr,
    FEW: tl.constexpr, GROUP_M: tl.constexpr, PIECES: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`matmul` of a whole K, whose tiles go through `operator` with what stands beside them
    (`tails`) before they are stored. PIECES: one after the other, for they need registers too.
    """
    i, rm, column, total = _tile(
        a, b, M, N, K, chunk, batch_shape, sa, sb, am, ak, bk, bn,
        DOT, T, EVEN_K, FOLD, FEW, GROUP_M, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip
    p = out + offset(i, batch_shape, so)
    WIDTH: tl.constexpr = BLOCK_N // PIECES
    for number in tl.static_range(PIECES):
        columns = column + number * WIDTH + tl.arange(0, WIDTH).to(K.dtype)
        found = elements(
            columns_of(total, number, PIECES), c, d, e, f, sc, sd, se, sf,
            cm, cn, dm, dn, em, en, fm, fn, C, D, E, F,
            i, batch_shape, rm, columns, rm < M, columns < N,
        )  # fmt: skip
        stored(p, operator(*found), rm, columns, rm < M, columns < N, om, on)


@triton.jit
def stored(p, value, rm, rn, mask_m, mask_n, om, on):
    """Store a tile of the matrix at `p`."""
    p = p + (rm * om)[:, None] + (rn * on)[None, :]
    tl.store(p, value.to(p.dtype.element_ty), mask=mask_m[:, None] & mask_n[None, :])


@triton.jit
def _tile(
    a, b, M, N, K, chunk, batch_shape, sa, sb, am, ak, bk, bn,
    DOT: tl.constexpr, T: tl.constexpr, EVEN_K: tl.constexpr, FOLD: tl.constexpr,
    FEW: tl.constexpr, GROUP_M: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A block's tile: its matrix in the batch, its rows, its first column, and its sums."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    i, tile_m, tile_n = tile_of(tl.program_id(0).to(K.dtype), tl.cdiv(M, BLOCK_M), tiles_n, GROUP_M)

    rm = tile_m * BLOCK_M + tl.arange(0, BLOCK_M).to(K.dtype)
    rn = tile_n * BLOCK_N + tl.arange(0, BLOCK_N).to(K.dtype)
    rk = tl.arange(0, BLOCK_K).to(K.dtype)
    y = tl.program_id(1).to(K.dtype)
    first = y * chunk
    last = first + tl.minimum(chunk, K - first)
    # rows and columns past the end wrap around: in bounds without a mask, and never stored
    some = (rm < M)[:, None]
    pa = (
        memory(a)
        + offset(i, batch_shape, sa)
        + (rm % M * am)[:, None]
        + ((first + rk) * ak)[None, :]
    )
    pb = (
        memory(b)
        + offset(i, batch_shape, sb)
        + ((first + rk) * bk)[:, None]
        + (rn % N * bn)[None, :]
    )
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    if FOLD:
        for begin in range(first, last, FOLD):
            end = begin + tl.minimum(last - begin, FOLD)
            partial = tl.zeros([BLOCK_M, BLOCK_N], T)
            for k in range(begin, end, BLOCK_K):
                partial = _product(partial, a, b, pa, pb, rk, last - k, some, DOT, EVEN_K, FEW)
                pa += BLOCK_K * ak
                pb += BLOCK_K * bk
            total += partial
    else:
        for k in range(first, last, BLOCK_K):
            total = _product(total, a, b, pa, pb, rk, last - k, some, DOT, EVEN_K, FEW)
            pa += BLOCK_K * ak
            pb += BLOCK_K * bk
    return i, rm, tile_n * BLOCK_N, total


@triton.jit
def _product(
    total, a, b, pa, pb, rk, left, some,
    DOT: tl.constexpr, EVEN_K: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """total + (tile of `a` at `pa`) @ (tile of `b` at `pb`), of which `left` elements count."""
    if EVEN_K:
        if FEW:
            x = element(tl.load(pa, mask=some, other=0), a, DOT)
        else:
            x = element(tl.load(pa), a, DOT)
        z = element(tl.load(pb), b, DOT)
    else:
        inside = (rk < left)[None, :]
        if FEW:
            inside = inside & some
        x = element(tl.load(pa, mask=inside, other=0), a, DOT)
        z = element(tl.load(pb, mask=(rk < left)[:, None], other=0), b, DOT)
    # of float64, NVIDIA's compiler (Triton 3.6) fails for an operand that was converted from less
    narrower: tl.constexpr = tl.float64 == DOT and (
        a.dtype.element_ty != tl.float64 or b.dtype.element_ty != tl.float64
    )
    if DOT.is_floating() and not narrower:
        total = tl.dot(x, z, total, input_precision="ieee", out_dtype=total.dtype)
    else:
        total += tl.sum(x[:, :, None] * z[None, :, :], 1).to(total.dtype)
    return total


@triton.jit
def matmul_outer(
    a, b, out, M, N, K, height, chunk, part, batch_shape, sa, sb, so, am, ak, bk, bn, om, on,
    DOT: tl.constexpr, T: tl.constexpr, GROUP_M: tl.constexpr, PANELS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`matmul` for devices without matrix units or shared memory: a sum of outer products, which
    keeps a tile of the result in registers and takes one element of `a` and one row of `b` at a
    time. The sums have the order of `matmul`'s. A block makes up to `height` tiles, one below the
    other; grid x is batch * columns of tiles * such blocks.

    PANELS: `b` comes from `panels`, in pieces of BLOCK_N columns; its strides mean nothing then.
    With integers for DOT and a T that is none, elements of `a` and `b` are words of two bfloat16
    that follow each other along K, `b`'s by `panels_of_pairs`; K and the strides count words.
    """
    i, tile_n, first, last = _outer_tiles(M, N, K, height, GROUP_M, BLOCK_M, BLOCK_N)
    p = out + tl.program_id(1).to(K.dtype) * part + offset(i, batch_shape, so)
    for tile_m in range(first, last):
        rm, rn, n_mask, total = _outer_tile(
            a, b, M, N, K, chunk, batch_shape, sa, sb, am, ak, bk, bn, i, tile_m, tile_n,
            DOT, T, PANELS, BLOCK_M, BLOCK_N, BLOCK_K,
        )  # fmt: skip
        stored(p, total, rm, rn, rm < M, n_mask, om, on)


@triton.jit
def matmul_outer_then(
    a, b, out, M, N, K, height, chunk, part, batch_shape, sa, sb, so, am, ak, bk, bn, om, on,
    c, d, e, f, sc, sd, se, sf, cm, cn, dm, dn, em, en, fm, fn,
    C: tl.constexpr, D: tl.constexpr, E: tl.constexpr, F: tl.constexpr,
    DOT: tl.constexpr, T: tl.constexpr, GROUP_M: tl.constexpr, PANELS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`matmul_outer` of a whole K, with a tail as that of `matmul_then`."""
    i, tile_n, first, last = _outer_tiles(M, N, K, height, GROUP_M, BLOCK_M, BLOCK_N)
    p = out + offset(i, batch_shape, so)
    for tile_m in range(first, last):
        rm, rn, n_mask, total = _outer_tile(
            a, b, M, N, K, chunk, batch_shape, sa, sb, am, ak, bk, bn, i, tile_m, tile_n,
            DOT, T, PANELS, BLOCK_M, BLOCK_N, BLOCK_K,
        )  # fmt: skip
        found = elements(
            total, c, d, e, f, sc, sd, se, sf, cm, cn, dm, dn, em, en, fm, fn, C, D, E, F,
            i, batch_shape, rm, rn, rm < M, n_mask,
        )  # fmt: skip
        stored(p, operator(*found), rm, rn, rm < M, n_mask, om, on)


@triton.jit
def _outer_tiles(
    M, N, K, height, GROUP_M: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """A block's tiles: their matrix in the batch, their column of tiles, and which of its rows."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    block = tl.program_id(0).to(K.dtype)
    i, block_m, tile_n = tile_of(block, tl.cdiv(tiles_m, height), tiles_n, GROUP_M)
    first = block_m * height
    return i, tile_n, first, tl.minimum(first + height, tiles_m)


@triton.jit
def _outer_tile(
    a, b, M, N, K, chunk, batch_shape, sa, sb, am, ak, bk, bn, i, tile_m, tile_n,
    DOT: tl.constexpr, T: tl.constexpr, PANELS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A tile: its rows, its columns and their mask, its sums."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    if DOT.is_int() and T.is_floating():  # words of two elements each
        a = a.to(tl.pointer_type(tl.int32), bitcast=True)
    rm = tile_m * BLOCK_M + tl.arange(0, BLOCK_M).to(K.dtype)
    rn, n_mask = span(tile_n * BLOCK_N, N, BLOCK_N)
    y = tl.program_id(1).to(K.dtype)
    first = y * chunk
    length = tl.minimum(chunk, K - first)
    pa = memory(a) + offset(i, batch_shape, sa) + first * ak + tl.minimum(rm, M - 1) * am
    if PANELS:
        pb = b + ((i * tiles_n + tile_n) * K + first) * BLOCK_N + tl.arange(0, BLOCK_N)
        step = BLOCK_N
    else:
        pb = memory(b) + offset(i, batch_shape, sb) + first * bk + rn * bn
        step = bk
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    whole = length // BLOCK_K * BLOCK_K
    # from the first to the second loop go sums only: Triton 3.6 and 3.7 would take addresses from
    # thread to thread through shared memory, step by step
    for begin in range(0, whole, PRODUCTS):
        end = begin + tl.minimum(PRODUCTS, whole - begin)
        partial = tl.zeros([BLOCK_M, BLOCK_N], T)
        for k in range(begin, end, BLOCK_K):
            xa, xb = pa + k * ak, pb + k * step
            for j in tl.static_range(BLOCK_K):
                partial = _outer(partial, a, b, xa + j * ak, xb + j * step, n_mask, DOT, PANELS)
        total, lost = accumulate(total, lost, partial)
    pa += whole * ak
    pb += whole * step
    for _ in range(whole, length):
        total = _outer(total, a, b, pa, pb, n_mask, DOT, PANELS)
        pa += ak
        pb += step
    return rm, rn, n_mask, settled(total, lost)


@triton.jit
def _outer(total, a, b, pa, pb, mask, DOT: tl.constexpr, PANELS: tl.constexpr):
    """total + (column of `a` at `pa`) * (row of `b` at `pb`)."""
    if DOT.is_int() and total.dtype.is_floating():
        x = tl.broadcast_to(tl.load(pa)[:, None], total.shape)
        total = of_pairs(total, x, tl.broadcast_to(tl.load(pb)[None, :], total.shape))
    else:
        total = _outer_product(total, a, b, pa, pb, mask, DOT, PANELS)
    return total


@triton.jit
def _outer_product(total, a, b, pa, pb, mask, DOT: tl.constexpr, PANELS: tl.constexpr):
    x = element(tl.load(pa), a, DOT)[:, None]
    if PANELS:
        z = tl.load(pb).to(DOT)[None, :]
    else:
        z = element(tl.load(pb, mask=mask, other=0), b, DOT)[None, :]
    if DOT.is_floating():
        return tl.fma(tl.broadcast_to(x, total.shape), tl.broadcast_to(z, total.shape), total)
    return total + (x * z).to(total.dtype)


@triton.jit
def matvec(
    a, b, out, M, K, chunk, part, batch_shape, sa, sb, so, am, ak, bk, om,
    DOT: tl.constexpr, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`matmul_outer` where `b` is one vector a matrix: rows of `a` times the vector. Elements of a
    row are `ak` apart, of the vector `bk`.
    """
    block = tl.program_id(0).to(K.dtype)
    tiles = tl.cdiv(M, BLOCK_M)
    i = block // tiles
    rm, m_mask = span((block - i * tiles) * BLOCK_M, M, BLOCK_M)
    y = tl.program_id(1).to(K.dtype)
    first = y * chunk
    length = tl.minimum(chunk, K - first)
    pa = memory(a) + offset(i, batch_shape, sa) + first * ak
    pb = memory(b) + offset(i, batch_shape, sb) + first * bk
    rows = rm * am
    lane = tl.arange(0, BLOCK_K).to(K.dtype)
    total = tl.zeros([BLOCK_M, BLOCK_K], T)
    lost = tl.zeros([BLOCK_M, BLOCK_K], T)
    for begin in range(0, length, BLOCK_K * IN_TURN):
        end = begin + tl.minimum(BLOCK_K * IN_TURN, length - begin)
        partial = tl.zeros([BLOCK_M, BLOCK_K], T)
        for start in range(begin, end, BLOCK_K):
            mask = lane < length - start
            # a step's first element is reached by itself, so that neighbours are seen as such
            p = (pa + start * ak) + rows[:, None]
            x = tl.load(p + (lane * ak)[None, :], mask=m_mask[:, None] & mask[None, :], other=0)
            z = tl.load(pb + start * bk + lane * bk, mask=mask, other=0)
            partial += (element(x, a, DOT) * element(z, b, DOT)[None, :]).to(T)
        total, lost = accumulate(total, lost, partial)
    total = settled(total, lost)
    p = out + y * part + offset(i, batch_shape, so) + rm * om
    tl.store(p, tl.sum(total, 1).to(out.dtype.element_ty), mask=m_mask)


@triton.jit
def panels(
    x, out, count, K, shape, sx, step, xk, to_panel, to_k, to_matrix,
    T: tl.constexpr, FILL: tl.constexpr, WIDTH: tl.constexpr, PART: tl.constexpr,
    BLOCK_K: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Copy matrices as panels of WIDTH columns, in type T.

    Columns are `step` apart in `x` and side by side in `out`, elements of a column `xk` and `to_k`;
    panels are `to_panel` apart. FILL: the last panel's missing columns become zeros, and are left
    alone otherwise. Grid: parts of PART columns of the panels, batch, STEPS pieces of BLOCK_K.
    """
    part = tl.program_id(0).to(K.dtype)
    panel = part // (WIDTH // PART)
    begin = part % (WIDTH // PART) * PART
    i = tl.program_id(1).to(K.dtype)
    column, column_mask = span(panel * WIDTH + begin, count, PART)
    from_ = memory(x) + offset(i, shape, sx)
    to = out + i * to_matrix + panel * to_panel + begin
    lane = tl.arange(0, PART)[None, :]
    first = tl.program_id(2).to(K.dtype) * (STEPS * BLOCK_K)
    end = first + tl.minimum(STEPS * BLOCK_K, K - first)
    rest = first
    if STEPS > 1:  # whole pieces without masks
        whole = panel * WIDTH + begin + PART <= count
        rest += tl.where(whole, (end - first) // BLOCK_K * BLOCK_K, 0)
        for start in range(first, rest, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            p = from_ + (k * xk)[:, None] + (column * step)[None, :]
            tl.store(to + (k * to_k)[:, None] + lane, element(tl.load(p), x, T))
    for start in range(rest, end, BLOCK_K):
        k, k_mask = span(start, K, BLOCK_K)
        mask = k_mask[:, None] & column_mask[None, :]
        p = from_ + (k * xk)[:, None] + (column * step)[None, :]
        value = element(tl.load(p, mask=mask, other=0), x, T)
        target = to + (k * to_k)[:, None] + lane
        tl.store(target, value, mask=k_mask[:, None] if FILL else mask)


@triton.jit
def panel_part(
    count, K, start, to_panel, to_k, to_matrix,
    WIDTH: tl.constexpr, PART: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """This block's part of `panels` from place `start` along K on: the matrix, places along K and
    columns, which of them are there, and the part's places among the results.
    """
    part = tl.program_id(0).to(K.dtype)
    panel = part // (WIDTH // PART)
    begin = part % (WIDTH // PART) * PART
    i = tl.program_id(1).to(K.dtype)
    column, column_mask = span(panel * WIDTH + begin, count, PART)
    k, k_mask = span(start, K, BLOCK_K)
    place = i * to_matrix + panel * to_panel + begin
    place = place + (k * to_k)[:, None] + tl.arange(0, PART)[None, :]
    return i, k, k_mask, column, column_mask, place


@triton.jit
def panels_of_pairs(
    x, out, count, K, shape, sx, step, xk, to_panel, to_k, to_matrix,
    WORDS: tl.constexpr, FILL: tl.constexpr, WIDTH: tl.constexpr, PART: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`panels` of bfloat16 as words of two elements that follow each other in a column; an odd K
    ends with a zero. `to_k` is the distance between words, and grid z cuts the words. WORDS: they
    lie in memory as they are.
    """
    part = tl.program_id(0).to(K.dtype)
    panel = part // (WIDTH // PART)
    begin = part % (WIDTH // PART) * PART
    i = tl.program_id(1).to(K.dtype)
    column, column_mask = span(panel * WIDTH + begin, count, PART)
    w, w_mask = span(tl.program_id(2).to(K.dtype) * BLOCK_K, (K + 1) // 2, BLOCK_K)
    mask = w_mask[:, None] & column_mask[None, :]
    p = x.to(tl.pointer_type(tl.int16), bitcast=True) + offset(i, shape, sx)
    p = p + (w * (2 * xk))[:, None] + (column * step)[None, :]
    if WORDS:
        value = tl.load(p.to(tl.pointer_type(tl.int32), bitcast=True), mask=mask, other=0)
    else:
        low = tl.load(p, mask=mask, other=0).to(tl.int32) & 0xFFFF
        both = mask & (w * 2 < K - 1)[:, None]
        value = low | (tl.load(p + xk, mask=both, other=0).to(tl.int32) << 16)
    target = out + i * to_matrix + panel * to_panel + begin
    target = target + (w * to_k)[:, None] + tl.arange(0, PART)[None, :]
    tl.store(target, value, mask=w_mask[:, None] if FILL else mask)
