"""Matrix products."""

import triton
import triton.language as tl

from .indexing import memory, offset


@triton.jit
def matmul(
    a, b, out, M, N, K, chunk, part, batch_shape, sa, sb, so, am, ak, bk, bn, om, on,
    DOT: tl.constexpr, T: tl.constexpr, EVEN_K: tl.constexpr, GROUP_M: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out[i] = a[i] @ b[i] for every i of the batch, operands taken as type DOT, summed in T.

    Grid x is batch * tiles. Grid y cuts K into parts of `chunk` (a multiple of BLOCK_K), each of
    which writes its own result, `part` elements after the one before.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    block = tl.program_id(0).to(K.dtype)
    i = block // (tiles_m * tiles_n)
    tile = block % (tiles_m * tiles_n)
    # GROUP_M rows of tiles go together, column by column, so that what they share stays in L2
    group = tile // (GROUP_M * tiles_n)
    height = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    tile_m = group * GROUP_M + tile % (GROUP_M * tiles_n) % height
    tile_n = tile % (GROUP_M * tiles_n) // height

    rm = tile_m * BLOCK_M + tl.arange(0, BLOCK_M).to(K.dtype)
    rn = tile_n * BLOCK_N + tl.arange(0, BLOCK_N).to(K.dtype)
    rk = tl.arange(0, BLOCK_K).to(K.dtype)
    y = tl.program_id(1).to(K.dtype)
    first = y * chunk
    last = first + tl.minimum(chunk, K - first)
    # rows and columns past the end wrap around: in bounds without a mask, and never stored
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
    for k in range(first, last, BLOCK_K):
        if EVEN_K:
            x = tl.load(pa).to(DOT)
            z = tl.load(pb).to(DOT)
        else:
            x = tl.load(pa, mask=(rk < last - k)[None, :], other=0).to(DOT)
            z = tl.load(pb, mask=(rk < last - k)[:, None], other=0).to(DOT)
        if DOT.is_floating():
            total = tl.dot(x, z, total, input_precision="ieee", out_dtype=T)
        else:
            total += tl.sum(x[:, :, None] * z[None, :, :], 1).to(T)
        pa += BLOCK_K * ak
        pb += BLOCK_K * bk
    p = out + y * part + offset(i, batch_shape, so)
    p = p + (rm * om)[:, None] + (rn * on)[None, :]
    mask = (rm < M)[:, None] & (rn < N)[None, :]
    tl.store(p, total.to(out.dtype.element_ty), mask=mask)
