"""Products of matrices of 8-bit numbers by the units that multiply these: integers, summed in int32
(which wraps), and floating numbers, summed in float32.

The units take signed integers. An unsigned one is 128 more than the signed one that its bits are
with the highest flipped: sums of the other operand's numbers make up for that at the end.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl

from .linear import tile_of


@triton.jit
def _numbers(p, KIND: tl.constexpr):
    """An array of bytes as one of the numbers that they are."""
    if KIND == "e4m3":
        return p.to(tl.pointer_type(tl.float8e4nv), bitcast=True)
    elif KIND == "e5m2":
        return p.to(tl.pointer_type(tl.float8e5), bitcast=True)
    else:
        return p.to(tl.pointer_type(tl.int8), bitcast=True)


@triton.jit
def _settled(total, a_sums, b_sums, a_scale, b_scale, ra, rb, rows, columns, m_mask, n_mask, K):
    """Return what the sums of a tile stand for. `b_sums`: of the columns of b, where a is unsigned;
    `a_sums`: of the rows of a, where b is.
    """
    if b_sums is not None:
        total += 128 * tl.load(b_sums + columns, mask=n_mask, other=0)[None, :]
    if a_sums is not None:
        total += 128 * tl.load(a_sums + rows, mask=m_mask, other=0)[:, None]
        if b_sums is not None:
            total += 16384 * K.to(tl.int32)
    if a_scale is not None:
        one = tl.load(a_scale + rows * ra, mask=m_mask, other=0).to(tl.float32)
        other = tl.load(b_scale + columns * rb, mask=n_mask, other=0).to(tl.float32)
        return total.to(tl.float32) * one[:, None] * other[None, :]
    else:
        return total


@triton.jit
def _sum(
    da, db, row, column, first, last, T: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A tile's sum of the products from `first` to `last`."""
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    for k in range(first, last, BLOCK_K):
        total = tl.dot(da.load([row, k]), db.load([column, k]).T, total, out_dtype=T)
    return total


@triton.jit
def matmul_in_turn(
    a, b, out, a_sums, b_sums, a_scale, b_scale, M, N, K, pa, pb, om, on, ra, rb,
    KIND_A: tl.constexpr, KIND_B: tl.constexpr, T: tl.constexpr, FOLD: tl.constexpr,
    STORED: tl.constexpr, GROUP_M: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """a @ b.T by blocks that make one tile after the other, from descriptors: elements of a row lie
    side by side in both operands, rows begin `pa` and `pb` apart, at multiples of 16 bytes.

    FOLD: the units keep few digits of a sum of floating numbers (14 bits on Hopper), so sums of so
    many products are added in T; 0 is all. STORED: by the copy engine, too.
    """
    m, n, last = M.to(tl.int32), N.to(tl.int32), K.to(tl.int32)
    da = tl.make_tensor_descriptor(
        _numbers(a, KIND_A), [m, last], [pa.to(tl.int64), 1], [BLOCK_M, BLOCK_K]
    )
    db = tl.make_tensor_descriptor(
        _numbers(b, KIND_B), [n, last], [pb.to(tl.int64), 1], [BLOCK_N, BLOCK_K]
    )
    if STORED:
        do = tl.make_tensor_descriptor(out, [m, n], [om.to(tl.int64), 1], [BLOCK_M, BLOCK_N // 2])
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    FLAT: tl.constexpr = FOLD == 0
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=FLAT):
        _, tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP_M)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        if FOLD:
            total = tl.zeros([BLOCK_M, BLOCK_N], T)
            for first in range(0, last, FOLD):
                end = tl.minimum(first + FOLD, last)
                total += _sum(da, db, row, column, first, end, T, BLOCK_M, BLOCK_N, BLOCK_K)
        else:
            total = _sum(da, db, row, column, 0, last, T, BLOCK_M, BLOCK_N, BLOCK_K)
        rm = row + tl.arange(0, BLOCK_M).to(M.dtype)
        rn = column + tl.arange(0, BLOCK_N).to(M.dtype)
        inside_m, inside_n = rm < M, rn < N
        value = _settled(
            total, a_sums, b_sums, a_scale, b_scale, ra, rb, rm, rn, inside_m, inside_n, K
        ).to(out.dtype.element_ty)
        # in halves: shared memory for a whole tile would cost a stage, of wide results more than is
        HALF: tl.constexpr = BLOCK_N // 2
        WIDE: tl.constexpr = (
            out.dtype.element_ty.primitive_bitwidth == 32 and BLOCK_M * BLOCK_N > 16384
        )
        if STORED or WIDE:
            halves = tl.permute(tl.reshape(value, (BLOCK_M, 2, HALF)), (0, 2, 1))
            left, right = tl.split(halves)
            if STORED:
                do.store([row, column], left)
                do.store([row, column + HALF], right)
            else:
                rn = column + tl.arange(0, HALF).to(M.dtype)
                p = out + (rm * om)[:, None] + (rn * on)[None, :]
                tl.store(p, left, mask=inside_m[:, None] & (rn < N)[None, :])
                p += HALF * on
                tl.store(p, right, mask=inside_m[:, None] & (rn < N - HALF)[None, :])
        else:
            p = out + (rm * om)[:, None] + (rn * on)[None, :]
            tl.store(p, value, mask=inside_m[:, None] & inside_n[None, :])


@triton.jit
def _signed(p, mask, UNSIGNED: tl.constexpr):
    """Integers of 8 bits; unsigned ones less 128. What is not there is 0."""
    if UNSIGNED:
        return (tl.load(p, mask=mask, other=128) ^ 128).to(tl.int8, bitcast=True)
    else:
        return tl.load(p, mask=mask, other=0)


@triton.jit
def matmul_integers(
    a, b, out, a_scale, b_scale, M, N, K, am, ak, bk, bn, om, on, ra, rb,
    A_UNSIGNED: tl.constexpr, B_UNSIGNED: tl.constexpr, GROUP_M: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """a @ b of integers in any layout, a tile a block."""
    block = tl.program_id(0).to(K.dtype)
    _, tile_m, tile_n = tile_of(block, tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    rm = tile_m * BLOCK_M + tl.arange(0, BLOCK_M).to(K.dtype)
    rn = tile_n * BLOCK_N + tl.arange(0, BLOCK_N).to(K.dtype)
    lane = tl.arange(0, BLOCK_K).to(K.dtype)
    inside_m, inside_n = rm < M, rn < N
    pa = a + (rm * am)[:, None] + (lane * ak)[None, :]
    pb = b + (lane * bk)[:, None] + (rn * bn)[None, :]
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.int32)
    of_a = tl.zeros([BLOCK_M], tl.int32)
    of_b = tl.zeros([BLOCK_N], tl.int32)
    for k in range(0, K, BLOCK_K):
        inside = lane < K - k
        x = _signed(pa, inside_m[:, None] & inside[None, :], A_UNSIGNED)
        z = _signed(pb, inside[:, None] & inside_n[None, :], B_UNSIGNED)
        total = tl.dot(x, z, total, out_dtype=tl.int32)
        if B_UNSIGNED:
            of_a += tl.sum(x.to(tl.int32), 1)
        if A_UNSIGNED:
            of_b += tl.sum(z.to(tl.int32), 0)
        pa += BLOCK_K * ak
        pb += BLOCK_K * bk
    if B_UNSIGNED:
        total += 128 * of_a[:, None]
    if A_UNSIGNED:
        total += 128 * of_b[None, :]
        if B_UNSIGNED:
            total += 16384 * K.to(tl.int32)
    value = _settled(total, None, None, a_scale, b_scale, ra, rb, rm, rn, inside_m, inside_n, K).to(
        out.dtype.element_ty
    )
    p = out + (rm * om)[:, None] + (rn * on)[None, :]
    tl.store(p, value, mask=inside_m[:, None] & inside_n[None, :])


@triton.jit
def laid(
    x, out, rows, K, step, xk, pitch,
    UNSIGNED: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows of bytes, side by side and `pitch` apart; of unsigned integers, these less 128."""
    r = tl.program_id(0).to(K.dtype) * BLOCK_R + tl.arange(0, BLOCK_R).to(K.dtype)
    k = tl.program_id(1).to(K.dtype) * BLOCK_K + tl.arange(0, BLOCK_K).to(K.dtype)
    mask = (r < rows)[:, None] & (k < K)[None, :]
    value = tl.load(x + (r * step)[:, None] + (k * xk)[None, :], mask=mask, other=0)
    if UNSIGNED:
        value = value ^ 128
    tl.store(out + (r * pitch)[:, None] + k[None, :], value, mask=mask)


@triton.jit
def sums(
    x, out, rows, K, step, xk,
    UNSIGNED: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The sum of each row's signed integers (`laid`), in int32."""
    r = tl.program_id(0).to(K.dtype) * BLOCK_R + tl.arange(0, BLOCK_R).to(K.dtype)
    lane = tl.arange(0, BLOCK_K).to(K.dtype)
    total = tl.zeros([BLOCK_R, BLOCK_K], tl.int32)
    for k in range(0, K, BLOCK_K):
        mask = (r < rows)[:, None] & (lane < K - k)[None, :]
        p = x + (r * step)[:, None] + ((k + lane) * xk)[None, :]
        total += _signed(p, mask, UNSIGNED).to(tl.int32)
    tl.store(out + r, tl.sum(total, 1), mask=r < rows)
