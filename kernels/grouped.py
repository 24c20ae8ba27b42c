"""Products with one matrix for each part of the rows, fetched by a copy engine (`described`)."""

import triton
import triton.language as tl

from .attention import bound


@triton.jit
def places(
    starts, before, out, M, N, parts, om, on,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """For each part, how many tiles of BLOCK rows come before it; behind them, how many there are.
    Blocks but the first give 0 to those of ROWS rows each that belong to no part.
    """
    if tl.program_id(0) == 0:
        count = parts * 0
        for at in range(0, parts, BLOCK_P):
            part = at + tl.arange(0, BLOCK_P).to(M.dtype)
            inside = part < parts
            first = bound(starts, tl.where(inside, part, 0), M)
            last = bound(starts, tl.where(inside, part + 1, 0), M)
            own = tl.where(inside & (last > first), tl.cdiv(last - first, BLOCK), 0)
            tl.store(before + part, (count + tl.cumsum(own, 0) - own).to(tl.int32), mask=inside)
            count += tl.sum(own, 0)
        tl.store(before + parts, count.to(tl.int32))
    else:
        row = (tl.program_id(0) - 1).to(M.dtype) * ROWS + tl.arange(0, ROWS).to(M.dtype)
        none = (row < bound(starts, 0, M)) | ((row >= bound(starts, parts, M)) & (row < M))
        if tl.max(none.to(tl.int32), 0) > 0:
            for at in range(0, N, BLOCK_N):
                column = at + tl.arange(0, BLOCK_N).to(M.dtype)
                p = out + (row * om)[:, None] + (column * on)[None, :]
                zero = tl.zeros([ROWS, BLOCK_N], out.dtype.element_ty)
                tl.store(p, zero, mask=none[:, None] & (column < N)[None, :])


@triton.jit
def matmul_in_turn(
    x, weight, starts, before, out, M, N, K, parts, rx, rp, rw, om,
    W_T: tl.constexpr, STORED: tl.constexpr, STEPS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows of x times the matrix of their part, by blocks that make one tile after the other;
    `before` is from `places`. Rows of x begin `rx` apart, matrices `rp`, their rows (W_T: columns)
    `rw`, all at multiples of 16 bytes. 2**STEPS is no less than `parts`. Tiles of a part that need
    the same columns of its matrix come after each other.
    """
    m, n, last, count = M.to(tl.int32), N.to(tl.int32), K.to(tl.int32), parts.to(tl.int32)
    apart, along = rp.to(tl.int64), rw.to(tl.int64)
    dx = tl.make_tensor_descriptor(x, [m, last], [rx.to(tl.int64), 1], [BLOCK_M, BLOCK_K])
    if W_T:
        dw = tl.make_tensor_descriptor(
            weight, [count, n, last], [apart, along, 1], [1, BLOCK_N, BLOCK_K]
        )
    else:
        dw = tl.make_tensor_descriptor(
            weight, [count, last, n], [apart, along, 1], [1, BLOCK_K, BLOCK_N]
        )
    if STORED:
        do = tl.make_tensor_descriptor(out, [m, n], [om.to(tl.int64), 1], [BLOCK_M, BLOCK_N // 2])
    tiles_n = tl.cdiv(n, BLOCK_N)
    tiles = tl.load(before + count) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):
        number = tile * 0
        for step in tl.static_range(STEPS):
            ahead = number + (1 << (STEPS - 1 - step))
            place = tl.load(before + ahead, mask=ahead < count, other=2147483647)
            number = tl.where(place <= tile // tiles_n, ahead, number)
        own = tl.load(before + number)
        height = tl.load(before + number + 1) - own
        inside = tile - own * tiles_n
        tile_n = inside // height
        row = bound(starts, number, m) + (inside - tile_n * height) * BLOCK_M
        end = bound(starts, number + 1, m)
        column = tile_n * BLOCK_N
        total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, last, BLOCK_K):
            z = dx.load([row, k])
            if W_T:
                w = tl.reshape(dw.load([number, column, k]), [BLOCK_N, BLOCK_K]).T
            else:
                w = tl.reshape(dw.load([number, k, column]), [BLOCK_K, BLOCK_N])
            total = tl.dot(z, w, total)
        value = total.to(out.dtype.element_ty)
        if STORED and row + BLOCK_M <= end:
            halves = tl.permute(tl.reshape(value, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            do.store([row, column], left)
            do.store([row, column + BLOCK_N // 2], right)
        else:
            rm = row + tl.arange(0, BLOCK_M)
            rn = column + tl.arange(0, BLOCK_N)
            p = out + (rm.to(M.dtype) * om)[:, None] + rn.to(M.dtype)[None, :]
            tl.store(p, value, mask=(rm < end)[:, None] & (rn < n)[None, :])
