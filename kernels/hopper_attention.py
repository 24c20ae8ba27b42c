"""Attention for NVIDIA's sm_90, in Gluon: one group of warps fetches keys and values, two compute.

Each of the two has half of a tile's queries. The products of its next scores run while it makes the
softmax of the last ones, and the other group's products fill what is left of the matrix units.

Source: T. Dao, "FlashAttention-2" (2023), section 3.1; J. Shah et al., "FlashAttention-3" (2024),
sections 3.1 and 3.2.
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


@gluon.jit
def fetch(description, place, full, buffer):
    """Copy a tile to shared memory; that it has come is told to `full`."""
    NEW: gl.constexpr = hasattr(tma, "async_load")  # not in Triton 3.6 and 3.7
    NAME: gl.constexpr = "async_load" if NEW else "async_copy_global_to_shared"
    getattr(tma, NAME)(description, place, full, buffer)


@gluon.jit
def put(description, place, buffer):
    """Copy a tile from shared memory."""
    NEW: gl.constexpr = hasattr(tma, "async_store")
    NAME: gl.constexpr = "async_store" if NEW else "async_copy_shared_to_global"
    getattr(tma, NAME)(description, place, buffer)


@gluon.jit
def whole(n):
    """A length as 32 bits, which coordinates have, whatever the strides need."""
    return n.to(gl.int32)


@gluon.jit
def rows_of(buffer, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """A tile of four axes in shared memory as a matrix."""
    return buffer.reshape([ROWS, COLUMNS])


@gluon.jit
def columns_of(buffer, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """`rows_of`, transposed."""
    return buffer.reshape([ROWS, COLUMNS]).permute((1, 0))


@gluon.jit
def barriers(COUNT: gl.constexpr, READERS: gl.constexpr = 2):
    """Barriers of COUNT stages in shared memory: full, by one fetch, and empty, by all READERS."""
    LAYOUT: gl.constexpr = mbarrier.MBarrierLayout()
    full = gl.allocate_shared_memory(gl.int64, [COUNT, 1], LAYOUT)
    empty = gl.allocate_shared_memory(gl.int64, [COUNT, 1], LAYOUT)
    for stage in gl.static_range(COUNT):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=READERS)
    return full, empty


@gluon.jit
def _numbered(turn):
    """The number of a block's tile: every other time blocks take theirs in the reverse order, so
    that one that had a long tile gets a short one.
    """
    block = gl.where(turn % 2 == 1, gl.num_programs(0) - 1 - gl.program_id(0), gl.program_id(0))
    return turn * gl.num_programs(0) + block


@gluon.jit
def turns(tiles):
    """How many tiles this block has."""
    whole = tiles // gl.num_programs(0)
    return whole + (_numbered(whole) < tiles).to(gl.int32)


@gluon.jit
def place(turn, tiles, heads, together, FALLING: gl.constexpr):
    """A block's tile: the number of its batch, head and place among the `tiles` of a head. Long
    ones come first, of `together` heads at a time: with FALLING those at the end.
    """
    number = _numbered(turn)
    pack = number // (together * tiles)
    rest = number - pack * (together * tiles)
    m = rest // together
    i = pack * together + (rest - m * together)
    if FALLING:
        m = tiles - 1 - m
    b = i // heads
    return b, i - b * heads, m


@gluon.jit
def seen_tiles(
    m, S, right, RIGHT: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_S: gl.constexpr
):  # fmt: skip
    """How many tiles of keys a tile of queries sees, and how many of them each query sees whole.
    Query l sees the keys up to l + right, without RIGHT all.
    """
    last = S
    whole = S // BLOCK_S
    if RIGHT:
        last = gl.minimum(S, gl.maximum((m + 1) * BLOCK_L + right, 0))
        whole = gl.minimum(whole, gl.maximum(m * BLOCK_L + right + 1, 0) // BLOCK_S)
    n = (last + BLOCK_S - 1) // BLOCK_S
    return n, gl.minimum(whole, n)


@gluon.jit
def seen(at, row, S, right, RIGHT: gl.constexpr, BLOCK_S: gl.constexpr, LAYOUT: gl.constexpr):
    """The mask of a tile of scores whose first key is `at`."""
    n = at + gl.arange(0, BLOCK_S, layout=gl.SliceLayout(0, LAYOUT))
    mask = gl.expand_dims(n < S, 0)
    if RIGHT:
        mask = mask & (n[None, :] <= row[:, None] + right)
    return mask


@gluon.jit
def store_rows(
    out, value, b, h, start, length, width, ob, oh, ol, ROWS: gl.constexpr, WIDE: gl.constexpr
):  # fmt: skip
    """Store a tile; `ob`, `oh` and `ol` are the strides of batch, head and row."""
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 8], [256 // WIDE, WIDE // 8], [4, 1], [1, 0])
    line = start + gl.arange(0, ROWS, layout=gl.SliceLayout(1, LAYOUT))
    column = gl.arange(0, WIDE, layout=gl.SliceLayout(0, LAYOUT))
    p = out + b.to(gl.int64) * ob + h.to(gl.int64) * oh
    p = p + (line.to(gl.int64) * ol)[:, None] + column[None, :]
    result = gl.convert_layout(value.to(out.dtype.element_ty), LAYOUT)
    gl.store(p, result, mask=(line < length)[:, None] & (column < width)[None, :])


@gluon.jit
def fetch_keys(
    dk, dv, sk, sv, k_full, k_empty, v_full, v_empty, b, h, group, n, it,
    BLOCK_S: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Fetch `n` tiles of keys and values, from the last ones to the first. `it` counts those that
    were fetched.
    """
    for j in range(n):
        at = (n - 1 - j) * BLOCK_S
        stage = it % STAGES
        phase = it // STAGES & 1 ^ 1
        mbarrier.wait(k_empty.index(stage), phase)
        mbarrier.expect(k_full.index(stage), BLOCK_S * sk.shape[4] * 2)
        fetch(dk, [b, h // group, at, 0], k_full.index(stage), sk.index(stage))
        mbarrier.wait(v_empty.index(stage), phase)
        mbarrier.expect(v_full.index(stage), BLOCK_S * sv.shape[4] * 2)
        fetch(dv, [b, h // group, at, 0], v_full.index(stage), sv.index(stage))
        it += 1
    return it


@gluon.jit
def _load(
    dq, dk, dv, sq, sk, sv, q_full, q_empty, k_full, k_empty, v_full, v_empty,
    tiles, tiles_l, heads, group, together, S, right,
    RIGHT: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_S: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Fetch each tile's queries, and its keys and values from the last ones to the first."""
    HALF: gl.constexpr = BLOCK_L // 2
    it = 0
    for turn in range(turns(tiles)):
        b, h, m = place(turn, tiles_l, heads, together, True)
        n, _ = seen_tiles(m, S, right, RIGHT, BLOCK_L, BLOCK_S)
        mbarrier.wait(q_empty.index(0), turn & 1 ^ 1)
        mbarrier.expect(q_full.index(0), BLOCK_L * sq.shape[4] * 2)
        for half in gl.static_range(2):
            fetch(dq, [b, h, m * BLOCK_L + half * HALF, 0], q_full.index(0), sq.index(half))
        n = gl.maximum(n, 1)
        it = fetch_keys(
            dk, dv, sk, sv, k_full, k_empty, v_full, v_empty, b, h, group, n, it, BLOCK_S, STAGES
        )


@gluon.jit
def _softmax(score, top, total, scale, T: gl.constexpr, LAYOUT: gl.constexpr):
    """The weights of a tile, as an operand; the new maxima and sums, and the factor of old ones."""
    now = gl.maximum(top, gl.max(score, 1))
    shift = gl.where(now == float("-inf"), 0.0, now * scale)
    power = gl.exp2(score * scale - shift[:, None])
    factor = gl.exp2(top * scale - shift)
    weight = gl.convert_layout(power.to(T), LAYOUT)
    return weight, now, total * factor + gl.sum(power, 1), factor


@gluon.jit
def _step(
    query, sk, sv, k_full, k_empty, v_full, v_empty, weight, sums, top, total, zero, it, at, row,
    S, scale, right, MASKED: gl.constexpr, RIGHT: gl.constexpr, BLOCK_S: gl.constexpr,
    BLOCK_D: gl.constexpr, BLOCK_V: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Add the values of tile `it - 1`, whose weights there are, and make those of tile `it`."""
    SCORES: gl.constexpr = zero.type.layout
    WEIGHTS: gl.constexpr = weight.type.layout
    stage = it % STAGES
    before = (it - 1) % STAGES
    mbarrier.wait(k_full.index(stage), it // STAGES & 1)
    key = columns_of(sk.index(stage), BLOCK_S, BLOCK_D)
    token = warpgroup_mma(query, key, zero, use_acc=False, is_async=True)
    mbarrier.wait(v_full.index(before), (it - 1) // STAGES & 1)
    value = rows_of(sv.index(before), BLOCK_S, BLOCK_V)
    product = warpgroup_mma(weight, value, sums, is_async=True)
    score = warpgroup_mma_wait(1, deps=[token])
    mbarrier.arrive(k_empty.index(stage), count=1)
    if MASKED:
        mask = seen(at, row, S, right, RIGHT, BLOCK_S, SCORES)
        score = gl.where(mask, score, float("-inf"))
    following, top, total, factor = _softmax(score, top, total, scale, sk.dtype, WEIGHTS)
    sums, weight = warpgroup_mma_wait(0, deps=[product, weight])
    mbarrier.arrive(v_empty.index(before), count=1)
    sums = sums * gl.convert_layout(factor, gl.SliceLayout(1, sums.type.layout))[:, None]
    return following, sums, top, total


@gluon.jit
def _compute(
    sq, sk, sv, q_full, q_empty, k_full, k_empty, v_full, v_empty,
    out, lse, tiles, tiles_l, heads, together, L, S, DV, scale, right, ob, oh, ol,
    RIGHT: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_S: gl.constexpr, BLOCK_D: gl.constexpr,
    BLOCK_V: gl.constexpr, STAGES: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """Half WHICH of each tile's queries."""
    HALF: gl.constexpr = BLOCK_L // 2
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_S, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_V, 16])
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    query = rows_of(sq.index(WHICH), HALF, BLOCK_D)
    zero = gl.zeros([HALF, BLOCK_S], gl.float32, SCORES)
    it = 0
    for turn in range(turns(tiles)):
        b, h, m = place(turn, tiles_l, heads, together, True)
        n, whole = seen_tiles(m, S, right, RIGHT, BLOCK_L, BLOCK_S)
        n = gl.maximum(n, 1)
        start = m * BLOCK_L + WHICH * HALF
        row = start + gl.arange(0, HALF, layout=gl.SliceLayout(1, SCORES))
        top = gl.full([HALF], float("-inf"), gl.float32, gl.SliceLayout(1, SCORES))
        total = gl.zeros([HALF], gl.float32, gl.SliceLayout(1, SCORES))
        sums = gl.zeros([HALF, BLOCK_V], gl.float32, SUMS)
        mbarrier.wait(q_full.index(0), turn & 1)
        stage = it % STAGES
        mbarrier.wait(k_full.index(stage), it // STAGES & 1)
        key = columns_of(sk.index(stage), BLOCK_S, BLOCK_D)
        token = warpgroup_mma(query, key, zero, use_acc=False, is_async=True)
        score = warpgroup_mma_wait(0, deps=[token])
        mbarrier.arrive(k_empty.index(stage), count=1)
        at = (n - 1) * BLOCK_S
        mask = seen(at, row, S, right, RIGHT, BLOCK_S, SCORES)
        score = gl.where(mask, score, float("-inf"))
        weight, top, total, _ = _softmax(score, top, total, scale, sk.dtype, WEIGHTS)
        masked = gl.maximum(n - whole, 1)
        if RIGHT:
            for _ in range(1, masked):
                it += 1
                at -= BLOCK_S
                weight, sums, top, total = _step(
                    query, sk, sv, k_full, k_empty, v_full, v_empty, weight, sums, top, total,
                    zero, it, at, row, S, scale, right, True, RIGHT, BLOCK_S, BLOCK_D, BLOCK_V,
                    STAGES,
                )  # fmt: skip
        for _ in range(masked, n):
            it += 1
            weight, sums, top, total = _step(
                query, sk, sv, k_full, k_empty, v_full, v_empty, weight, sums, top, total,
                zero, it, at, row, S, scale, right, False, RIGHT, BLOCK_S, BLOCK_D, BLOCK_V,
                STAGES,
            )  # fmt: skip
        mbarrier.arrive(q_empty.index(0), count=1)
        stage = it % STAGES
        mbarrier.wait(v_full.index(stage), it // STAGES & 1)
        value = rows_of(sv.index(stage), BLOCK_S, BLOCK_V)
        product = warpgroup_mma(weight, value, sums, is_async=True)
        sums, weight = warpgroup_mma_wait(0, deps=[product, weight])
        mbarrier.arrive(v_empty.index(stage), count=1)
        it += 1
        factor = 1.0 / gl.where(total == 0, 1.0, total)  # a query that sees no key has 0
        sums = sums * gl.convert_layout(factor, gl.SliceLayout(1, SUMS))[:, None]
        store_rows(out, sums, b, h, start, L, DV, ob, oh, ol, HALF, BLOCK_V)
        if lse is not None:
            found = (top * scale + gl.log2(total)) * 0.6931471805599453
            gl.store(lse + (b * heads + h).to(gl.int64) * L + row, found, mask=row < L)


@gluon.jit
def attention(
    q, k, v, out, lse, B, heads, group, together, L, S, D, DV, scale, right,
    qb, qh, ql, kb, kh, kn, vb, vh, vn, ob, oh, ol,
    RIGHT: gl.constexpr, BLOCK_L: gl.constexpr, BLOCK_S: gl.constexpr,
    BLOCK_D: gl.constexpr, BLOCK_V: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Attention of `heads` heads, of which `group` share one of keys, for each of B; the strides of
    batch, head and row are the array's letter and theirs. Query l sees the keys up to l + right.
    `scale` is that of the scores times log2(e).
    """
    T: gl.constexpr = k.dtype.element_ty
    Q: gl.constexpr = [1, 1, BLOCK_L // 2, BLOCK_D]
    K: gl.constexpr = [1, 1, BLOCK_S, BLOCK_D]
    V: gl.constexpr = [1, 1, BLOCK_S, BLOCK_V]
    Q_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for(Q, T)
    K_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for(K, T)
    V_SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for(V, T)
    B, heads, group, together = whole(B), whole(heads), whole(group), whole(together)
    L, S, D, DV, right = whole(L), whole(S), whole(D), whole(DV), whole(right)
    dq = tma.make_tensor_descriptor(q, [B, heads, L, D], [qb, qh, ql, 1], Q, Q_SHARED)
    dk = tma.make_tensor_descriptor(k, [B, heads // group, S, D], [kb, kh, kn, 1], K, K_SHARED)
    dv = tma.make_tensor_descriptor(v, [B, heads // group, S, DV], [vb, vh, vn, 1], V, V_SHARED)
    sq = gl.allocate_shared_memory(T, [2, 1, 1, BLOCK_L // 2, BLOCK_D], Q_SHARED)
    sk = gl.allocate_shared_memory(T, [STAGES, 1, 1, BLOCK_S, BLOCK_D], K_SHARED)
    sv = gl.allocate_shared_memory(T, [STAGES, 1, 1, BLOCK_S, BLOCK_V], V_SHARED)
    q_full, q_empty = barriers(1)
    k_full, k_empty = barriers(STAGES)
    v_full, v_empty = barriers(STAGES)
    fence_async_shared()
    tiles_l = (L + BLOCK_L - 1) // BLOCK_L
    tiles = B * heads * tiles_l
    gl.warp_specialize(
        [
            (_compute, (
                sq, sk, sv, q_full, q_empty, k_full, k_empty, v_full, v_empty,
                out, lse, tiles, tiles_l, heads, together, L, S, DV, scale, right, ob, oh, ol,
                RIGHT, BLOCK_L, BLOCK_S, BLOCK_D, BLOCK_V, STAGES, 0,
            )),
            (_compute, (
                sq, sk, sv, q_full, q_empty, k_full, k_empty, v_full, v_empty,
                out, lse, tiles, tiles_l, heads, together, L, S, DV, scale, right, ob, oh, ol,
                RIGHT, BLOCK_L, BLOCK_S, BLOCK_D, BLOCK_V, STAGES, 1,
            )),
            (_load, (
                dq, dk, dv, sq, sk, sv, q_full, q_empty, k_full, k_empty, v_full, v_empty,
                tiles, tiles_l, heads, group, together, S, right, RIGHT, BLOCK_L, BLOCK_S, STAGES,
            )),
        ],
        [4, 1],
        [232, 40],
    )  # fmt: skip
