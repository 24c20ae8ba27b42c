"""Gradients of attention for NVIDIA's sm_90, in Gluon: one group of warps fetches, two compute, as
in `hopper_attention`. Nothing is added up in memory, so that results are the same each time.

`rows` has two numbers for each query, `pitch` of them for each head, and those of all heads one
after the other: the logarithm to base 2 of the sum of its weights, and its level
(`attention_gradients:scaled_levels`).

Source: T. Dao, "FlashAttention-2" (2023), section 2.3.2.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from .hopper_attention import (
    barriers,
    columns_of,
    fetch,
    fetch_keys,
    place,
    put,
    rows_of,
    seen,
    seen_tiles,
    store_rows,
    turns,
    whole,
)


@gluon.jit
def _load_for_queries(
    dq, dd, dk, dv, sq, sd, sk, sv, q_full, q_empty, k_full, k_empty, v_full, v_empty,
    tiles, tiles_l, heads, group, together, S, right,
    RIGHT: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_S: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    HALF: gl.constexpr = BLOCK_L // 2
    it = 0
    for turn in range(turns(tiles)):
        b, h, m = place(turn, tiles_l, heads, together, True)
        n, _ = seen_tiles(m, S, right, RIGHT, BLOCK_L, BLOCK_S)
        mbarrier.wait(q_empty.index(0), turn & 1 ^ 1)
        mbarrier.expect(q_full.index(0), BLOCK_L * (sq.shape[4] + sd.shape[4]) * 2)
        for half in gl.static_range(2):
            line = m * BLOCK_L + half * HALF
            fetch(dq, [b, h, line, 0], q_full.index(0), sq.index(half))
            fetch(dd, [b, h, line, 0], q_full.index(0), sd.index(half))
        it = fetch_keys(
            dk, dv, sk, sv, k_full, k_empty, v_full, v_empty, b, h, group, n, it, BLOCK_S, STAGES
        )


@gluon.jit
def _step_of_queries(
    query, slopes, sk, sv, k_full, k_empty, v_full, v_empty, sums, total, own, zero, it, at, row,
    S, scale, right, MASKED: gl.constexpr, RIGHT: gl.constexpr, BLOCK_S: gl.constexpr,
    BLOCK_D: gl.constexpr, BLOCK_V: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Add what a tile of keys gives to the gradient of a tile of queries."""
    SCORES: gl.constexpr = zero.type.layout
    CHANGES: gl.constexpr = gl.DotOperandLayout(0, sums.type.layout, 2)
    stage = it % STAGES
    mbarrier.wait(k_full.index(stage), it // STAGES & 1)
    key = columns_of(sk.index(stage), BLOCK_S, BLOCK_D)
    first = warpgroup_mma(query, key, zero, use_acc=False, is_async=True)
    mbarrier.wait(v_full.index(stage), it // STAGES & 1)
    value = columns_of(sv.index(stage), BLOCK_S, BLOCK_V)
    second = warpgroup_mma(slopes, value, zero, use_acc=False, is_async=True)
    score = warpgroup_mma_wait(1, deps=[first])
    weight = gl.exp2(score * scale - total[:, None])
    if MASKED:
        weight = gl.where(seen(at, row, S, right, RIGHT, BLOCK_S, SCORES), weight, 0.0)
    change = warpgroup_mma_wait(0, deps=[second])
    mbarrier.arrive(v_empty.index(stage), count=1)
    change = weight * (change - own[:, None])
    change = gl.convert_layout(change.to(sk.dtype), CHANGES)
    token = warpgroup_mma(change, rows_of(sk.index(stage), BLOCK_S, BLOCK_D), sums, is_async=True)
    sums = warpgroup_mma_wait(0, deps=[token])
    mbarrier.arrive(k_empty.index(stage), count=1)
    return sums


@gluon.jit
def _compute_of_queries(
    sq, sd, sk, sv, q_full, q_empty, k_full, k_empty, v_full, v_empty, rows, out,
    tiles, tiles_l, heads, together, L, S, D, pitch, size, scale, right, ob, oh, ol,
    RIGHT: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_S: gl.constexpr, BLOCK_D: gl.constexpr,
    BLOCK_V: gl.constexpr, STAGES: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """Half WHICH of each tile's queries."""
    HALF: gl.constexpr = BLOCK_L // 2
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_S, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    query = rows_of(sq.index(WHICH), HALF, BLOCK_D)
    slopes = rows_of(sd.index(WHICH), HALF, BLOCK_V)
    zero = gl.zeros([HALF, BLOCK_S], gl.float32, SCORES)
    it = 0
    for turn in range(turns(tiles)):
        b, h, m = place(turn, tiles_l, heads, together, True)
        n, all_see = seen_tiles(m, S, right, RIGHT, BLOCK_L, BLOCK_S)
        start = m * BLOCK_L + WHICH * HALF
        row = start + gl.arange(0, HALF, layout=gl.SliceLayout(1, SCORES))
        p = rows + ((b * heads + h) * pitch + row)
        total = gl.load(p)
        own = gl.load(p + size)
        sums = gl.zeros([HALF, BLOCK_D], gl.float32, SUMS)
        mbarrier.wait(q_full.index(0), turn & 1)
        at = n * BLOCK_S
        for _ in range(n - all_see):
            at -= BLOCK_S
            sums = _step_of_queries(
                query, slopes, sk, sv, k_full, k_empty, v_full, v_empty, sums, total, own, zero,
                it, at, row, S, scale, right, True, RIGHT, BLOCK_S, BLOCK_D, BLOCK_V, STAGES,
            )  # fmt: skip
            it += 1
        for _ in range(all_see):
            sums = _step_of_queries(
                query, slopes, sk, sv, k_full, k_empty, v_full, v_empty, sums, total, own, zero,
                it, at, row, S, scale, right, False, RIGHT, BLOCK_S, BLOCK_D, BLOCK_V, STAGES,
            )  # fmt: skip
            it += 1
        mbarrier.arrive(q_empty.index(0), count=1)
        store_rows(
            out, sums * (scale * 0.6931471805599453), b, h, start, L, D, ob, oh, ol, HALF, BLOCK_D
        )


@gluon.jit
def of_queries(
    q, k, v, d, rows, out, B, heads, group, together, L, S, D, DV, pitch, scale, right,
    qb, qh, ql, kb, kh, kn, vb, vh, vn, db, dh, dl, ob, oh, ol,
    RIGHT: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_S: gl.constexpr,
    BLOCK_D: gl.constexpr, BLOCK_V: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """The gradient of queries; arguments as of `hopper_attention:attention`, and `d`, the gradient
    of the result.
    """
    T: gl.constexpr = k.dtype.element_ty
    Q: gl.constexpr = [1, 1, BLOCK_L // 2, BLOCK_D]
    R: gl.constexpr = [1, 1, BLOCK_L // 2, BLOCK_V]
    K: gl.constexpr = [1, 1, BLOCK_S, BLOCK_D]
    V: gl.constexpr = [1, 1, BLOCK_S, BLOCK_V]
    Q_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for(Q, T)
    R_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for(R, T)
    K_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for(K, T)
    V_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for(V, T)
    B, heads, group, together = whole(B), whole(heads), whole(group), whole(together)
    L, S, D, DV, right = whole(L), whole(S), whole(D), whole(DV), whole(right)
    pitch = whole(pitch)
    dq = tma.make_tensor_descriptor(q, [B, heads, L, D], [qb, qh, ql, 1], Q, Q_SHARED)
    dd = tma.make_tensor_descriptor(d, [B, heads, L, DV], [db, dh, dl, 1], R, R_SHARED)
    dk = tma.make_tensor_descriptor(k, [B, heads // group, S, D], [kb, kh, kn, 1], K, K_SHARED)
    dv = tma.make_tensor_descriptor(v, [B, heads // group, S, DV], [vb, vh, vn, 1], V, V_SHARED)
    sq = gl.allocate_shared_memory(T, [2, 1, 1, BLOCK_L // 2, BLOCK_D], Q_SHARED)
    sd = gl.allocate_shared_memory(T, [2, 1, 1, BLOCK_L // 2, BLOCK_V], R_SHARED)
    sk = gl.allocate_shared_memory(T, [STAGES, 1, 1, BLOCK_S, BLOCK_D], K_SHARED)
    sv = gl.allocate_shared_memory(T, [STAGES, 1, 1, BLOCK_S, BLOCK_V], V_SHARED)
    q_full, q_empty = barriers(1)
    k_full, k_empty = barriers(STAGES)
    v_full, v_empty = barriers(STAGES)
    fence_async_shared()
    tiles_l = (L + BLOCK_L - 1) // BLOCK_L
    tiles = B * heads * tiles_l
    size = B * heads * pitch
    gl.warp_specialize(
        [
            (_compute_of_queries, (
                sq, sd, sk, sv, q_full, q_empty, k_full, k_empty, v_full, v_empty, rows, out,
                tiles, tiles_l, heads, together, L, S, D, pitch, size, scale, right,
                ob, oh, ol, RIGHT, BLOCK_L, BLOCK_S, BLOCK_D, BLOCK_V, STAGES, 0,
            )),
            (_compute_of_queries, (
                sq, sd, sk, sv, q_full, q_empty, k_full, k_empty, v_full, v_empty, rows, out,
                tiles, tiles_l, heads, together, L, S, D, pitch, size, scale, right,
                ob, oh, ol, RIGHT, BLOCK_L, BLOCK_S, BLOCK_D, BLOCK_V, STAGES, 1,
            )),
            (_load_for_queries, (
                dq, dd, dk, dv, sq, sd, sk, sv, q_full, q_empty, k_full, k_empty, v_full, v_empty,
                tiles, tiles_l, heads, group, together, S, right, RIGHT, BLOCK_L, BLOCK_S, STAGES,
            )),
        ],
        [4, 1],
        [232, 40],
    )  # fmt: skip


@gluon.jit
def _seeing_tiles(
    m, L, S, right, RIGHT: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_S: gl.constexpr
):
    """Of the tiles of queries, the first that sees keys of a tile, the first that sees all of them,
    and the number of tiles.
    """
    n = (L + BLOCK_L - 1) // BLOCK_L
    first = 0
    all_seen = 0
    if RIGHT:
        first = gl.minimum(gl.maximum(m * BLOCK_S - right, 0) // BLOCK_L, n)
        last = gl.minimum((m + 1) * BLOCK_S, S) - 1
        all_seen = (gl.maximum(last - right, 0) + BLOCK_L - 1) // BLOCK_L
        all_seen = gl.minimum(gl.maximum(all_seen, first), n)
    return first, all_seen, n


@gluon.jit
def _load_for_keys(
    dq, dd, dr, dk, dv, sq, sd, st, se, sk, sv, q_full, q_empty, d_full, k_full, k_empty,
    tiles, tiles_s, own, group, together, L, S, pitch, size, right,
    RIGHT: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_S: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    HALF: gl.constexpr = BLOCK_S // 2
    it = 0
    for turn in range(turns(tiles)):
        b, hk, m = place(turn, tiles_s, own, together, False)
        first, _, n = _seeing_tiles(m, L, S, right, RIGHT, BLOCK_L, BLOCK_S)
        mbarrier.wait(k_empty.index(0), turn & 1 ^ 1)
        mbarrier.expect(k_full.index(0), BLOCK_S * (sk.shape[4] + sv.shape[4]) * 2)
        for half in gl.static_range(2):
            fetch(dk, [b, hk, m * BLOCK_S + half * HALF, 0], k_full.index(0), sk.index(half))
            fetch(dv, [b, hk, m * BLOCK_S + half * HALF, 0], k_full.index(0), sv.index(half))
        for g in range(group):
            h = hk * group + g
            for j in range(first, n):
                at = j * BLOCK_L
                row = (b * own * group + h) * pitch + at
                stage = it % STAGES
                mbarrier.wait(q_empty.index(stage), it // STAGES & 1 ^ 1)
                mbarrier.expect(q_full.index(stage), BLOCK_L * (sq.shape[4] * 2 + 4))
                fetch(dq, [b, h, at, 0], q_full.index(stage), sq.index(stage))
                fetch(dr, [row], q_full.index(stage), st.index(stage))
                mbarrier.expect(d_full.index(stage), BLOCK_L * (sd.shape[4] * 2 + 4))
                fetch(dd, [b, h, at, 0], d_full.index(stage), sd.index(stage))
                fetch(dr, [size + row], d_full.index(stage), se.index(stage))
                it += 1


@gluon.jit
def _step_of_keys(
    key, value, sq, sd, st, se, q_full, q_empty, d_full, sums, sums_v, zero, it, at, n, scale,
    right, MASKED: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_D: gl.constexpr,
    BLOCK_V: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Add what a tile of queries gives to the gradients of a tile of keys and values. Scores are
    those of a key in each row.
    """
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(0, sums_v.type.layout, 2)
    CHANGES: gl.constexpr = gl.DotOperandLayout(0, sums.type.layout, 2)
    COLUMN: gl.constexpr = gl.SliceLayout(0, zero.type.layout)
    stage = it % STAGES
    mbarrier.wait(q_full.index(stage), it // STAGES & 1)
    query = columns_of(sq.index(stage), BLOCK_L, BLOCK_D)
    first = warpgroup_mma(key, query, zero, use_acc=False, is_async=True)
    mbarrier.wait(d_full.index(stage), it // STAGES & 1)
    slopes = columns_of(sd.index(stage), BLOCK_L, BLOCK_V)
    second = warpgroup_mma(value, slopes, zero, use_acc=False, is_async=True)
    score = warpgroup_mma_wait(1, deps=[first])
    total = st.index(stage).load(COLUMN)
    weight = gl.exp2(score * scale - total[None, :])
    if MASKED:
        line = at + gl.arange(0, BLOCK_L, layout=COLUMN)
        weight = gl.where(n[:, None] <= line[None, :] + right, weight, 0.0)
    operand = gl.convert_layout(weight.to(sq.dtype), WEIGHTS)
    slopes = rows_of(sd.index(stage), BLOCK_L, BLOCK_V)
    third = warpgroup_mma(operand, slopes, sums_v, is_async=True)
    change = warpgroup_mma_wait(1, deps=[second])
    own = se.index(stage).load(COLUMN)
    change = weight * (change - own[None, :])
    change = gl.convert_layout(change.to(sq.dtype), CHANGES)
    query = rows_of(sq.index(stage), BLOCK_L, BLOCK_D)
    fourth = warpgroup_mma(change, query, sums, is_async=True)
    sums_v, sums = warpgroup_mma_wait(0, deps=[third, fourth])
    mbarrier.arrive(q_empty.index(stage), count=1)
    return sums, sums_v


@gluon.jit
def _compute_of_keys(
    sq, sd, st, se, sk, sv, q_full, q_empty, d_full, k_full, k_empty, do, dw,
    tiles, tiles_s, own, group, together, L, S, scale, right,
    RIGHT: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_S: gl.constexpr, BLOCK_D: gl.constexpr,
    BLOCK_V: gl.constexpr, STAGES: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """Half WHICH of each tile's keys."""
    HALF: gl.constexpr = BLOCK_S // 2
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_L, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    SUMS_V: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_V, 16])
    key = rows_of(sk.index(WHICH), HALF, BLOCK_D)
    value = rows_of(sv.index(WHICH), HALF, BLOCK_V)
    zero = gl.zeros([HALF, BLOCK_L], gl.float32, SCORES)
    it = 0
    for turn in range(turns(tiles)):
        b, hk, m = place(turn, tiles_s, own, together, False)
        first, all_seen, last = _seeing_tiles(m, L, S, right, RIGHT, BLOCK_L, BLOCK_S)
        start = m * BLOCK_S + WHICH * HALF
        n = start + gl.arange(0, HALF, layout=gl.SliceLayout(1, SCORES))
        sums = gl.zeros([HALF, BLOCK_D], gl.float32, SUMS)
        sums_v = gl.zeros([HALF, BLOCK_V], gl.float32, SUMS_V)
        mbarrier.wait(k_full.index(0), turn & 1)
        for _ in range(group):
            if RIGHT:
                for j in range(first, all_seen):
                    sums, sums_v = _step_of_keys(
                        key, value, sq, sd, st, se, q_full, q_empty, d_full, sums, sums_v, zero,
                        it, j * BLOCK_L, n, scale, right, True, BLOCK_L, BLOCK_D, BLOCK_V, STAGES,
                    )  # fmt: skip
                    it += 1
            for j in range(all_seen, last):
                sums, sums_v = _step_of_keys(
                    key, value, sq, sd, st, se, q_full, q_empty, d_full, sums, sums_v, zero,
                    it, j * BLOCK_L, n, scale, right, False, BLOCK_L, BLOCK_D, BLOCK_V, STAGES,
                )  # fmt: skip
                it += 1
        # this half of the keys and values is done with, and has the results' shape
        key.store((sums * (scale * 0.6931471805599453)).to(sk.dtype))
        value.store(sums_v.to(sv.dtype))
        fence_async_shared()
        put(do, [b, hk, start, 0], sk.index(WHICH))
        put(dw, [b, hk, start, 0], sv.index(WHICH))
        tma.store_wait(0)
        mbarrier.arrive(k_empty.index(0), count=1)


@gluon.jit
def of_keys(
    q, k, v, d, rows, out, out_v, B, heads, group, together, L, S, D, DV, pitch, scale, right,
    qb, qh, ql, kb, kh, kn, vb, vh, vn, db, dh, dl, ob, oh, ol, wb, wh, wl,
    RIGHT: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_S: gl.constexpr,
    BLOCK_D: gl.constexpr, BLOCK_V: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """The gradients of keys, `out`, and of values, `out_v`: a walk over the queries of all heads
    that share them, in their order.
    """
    T: gl.constexpr = k.dtype.element_ty
    Q: gl.constexpr = [1, 1, BLOCK_L, BLOCK_D]
    R: gl.constexpr = [1, 1, BLOCK_L, BLOCK_V]
    K: gl.constexpr = [1, 1, BLOCK_S // 2, BLOCK_D]
    V: gl.constexpr = [1, 1, BLOCK_S // 2, BLOCK_V]
    Q_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for(Q, T)
    R_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for(R, T)
    K_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for(K, T)
    V_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for(V, T)
    N_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BLOCK_L], gl.float32)
    B, heads, group, together = whole(B), whole(heads), whole(group), whole(together)
    L, S, D, DV, right = whole(L), whole(S), whole(D), whole(DV), whole(right)
    pitch = whole(pitch)
    own = heads // group
    size = B * heads * pitch
    dq = tma.make_tensor_descriptor(q, [B, heads, L, D], [qb, qh, ql, 1], Q, Q_SHARED)
    dd = tma.make_tensor_descriptor(d, [B, heads, L, DV], [db, dh, dl, 1], R, R_SHARED)
    dk = tma.make_tensor_descriptor(k, [B, own, S, D], [kb, kh, kn, 1], K, K_SHARED)
    dv = tma.make_tensor_descriptor(v, [B, own, S, DV], [vb, vh, vn, 1], V, V_SHARED)
    do = tma.make_tensor_descriptor(out, [B, own, S, D], [ob, oh, ol, 1], K, K_SHARED)
    dw = tma.make_tensor_descriptor(out_v, [B, own, S, DV], [wb, wh, wl, 1], V, V_SHARED)
    dr = tma.make_tensor_descriptor(rows, [2 * size], [1], [BLOCK_L], N_SHARED)
    sq = gl.allocate_shared_memory(T, [STAGES, 1, 1, BLOCK_L, BLOCK_D], Q_SHARED)
    sd = gl.allocate_shared_memory(T, [STAGES, 1, 1, BLOCK_L, BLOCK_V], R_SHARED)
    st = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK_L], N_SHARED)
    se = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK_L], N_SHARED)
    sk = gl.allocate_shared_memory(T, [2, 1, 1, BLOCK_S // 2, BLOCK_D], K_SHARED)
    sv = gl.allocate_shared_memory(T, [2, 1, 1, BLOCK_S // 2, BLOCK_V], V_SHARED)
    k_full, k_empty = barriers(1)
    q_full, q_empty = barriers(STAGES)
    d_full, _ = barriers(STAGES)
    fence_async_shared()
    tiles_s = (S + BLOCK_S - 1) // BLOCK_S
    tiles = B * own * tiles_s
    gl.warp_specialize(
        [
            (_compute_of_keys, (
                sq, sd, st, se, sk, sv, q_full, q_empty, d_full, k_full, k_empty, do, dw,
                tiles, tiles_s, own, group, together, L, S, scale, right,
                RIGHT, BLOCK_L, BLOCK_S, BLOCK_D, BLOCK_V, STAGES, 0,
            )),
            (_compute_of_keys, (
                sq, sd, st, se, sk, sv, q_full, q_empty, d_full, k_full, k_empty, do, dw,
                tiles, tiles_s, own, group, together, L, S, scale, right,
                RIGHT, BLOCK_L, BLOCK_S, BLOCK_D, BLOCK_V, STAGES, 1,
            )),
            (_load_for_keys, (
                dq, dd, dr, dk, dv, sq, sd, st, se, sk, sv, q_full, q_empty, d_full, k_full,
                k_empty, tiles, tiles_s, own, group, together, L, S, pitch, size, right,
                RIGHT, BLOCK_L, BLOCK_S, STAGES,
            )),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip
