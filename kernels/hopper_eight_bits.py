"""Matrix products of 8-bit floating numbers for NVIDIA's sm_90, in Gluon: one group of warps
fetches tiles of the operands by the copy engine, two multiply half of a tile's rows each.
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

from .early import ordered
from .hopper_attention import barriers, put, whole
from .hopper_products import buffers, load_tiles, place_of, tiles_of


@gluon.jit
def _numbers(buffer, KIND: gl.constexpr):
    """Bytes in shared memory as the numbers that they are."""
    KNOWN: gl.constexpr = gl.float8e4nv if KIND == "e4m3" else gl.float8e5
    NAME: gl.constexpr = "reinterpret" if hasattr(buffer, "reinterpret") else "_reinterpret"
    return getattr(buffer, NAME)(KNOWN, buffer.shape, buffer.layout)  # the latter in Triton 3.6


@gluon.jit
def _scaled(value, one, b_scale, column, N, rb, WIDE: gl.constexpr):
    """Columns of a tile with their factors, and those of its rows, `one`."""
    LAYOUT: gl.constexpr = value.type.layout
    columns = column + gl.arange(0, WIDE, gl.SliceLayout(0, LAYOUT))
    other = gl.load(b_scale + columns.to(rb.dtype) * rb, mask=columns < N, other=0)
    one = gl.convert_layout(one, gl.SliceLayout(1, LAYOUT))
    return value * gl.expand_dims(one, 1) * gl.expand_dims(other.to(gl.float32), 0)


@gluon.jit
def _store(
    out, value, one, b_scale, buffer, row, column, N, rb, ROWS: gl.constexpr, WIDE: gl.constexpr
):  # fmt: skip
    """Store a group's part of a tile through shared memory, in pieces of few columns."""
    STORED: gl.constexpr = out.block_shape[1]
    if WIDE <= STORED:
        found = _scaled(value, one, b_scale, column, N, rb, WIDE).to(out.dtype)
        tma.store_wait(0)
        buffer.store(found)
        fence_async_shared()
        put(out, [row, column], buffer)
    else:
        HALF: gl.constexpr = WIDE // 2
        left, right = value.reshape([ROWS, 2, HALF]).permute((0, 2, 1)).split()
        _store(out, left, one, b_scale, buffer, row, column, N, rb, ROWS, HALF)
        _store(out, right, one, b_scale, buffer, row, column + HALF, N, rb, ROWS, HALF)


@gluon.jit
def _compute(
    sa, sb, so, full, empty, out, a_scale, b_scale, M, N, K, ra, rb,
    KIND_A: gl.constexpr, KIND_B: gl.constexpr, GROUP_M: gl.constexpr, ROWS: gl.constexpr,
    BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """Rows WHICH * ROWS and following ones of each tile of this block."""
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 32])
    tiles_m, tiles_n = tiles_of(M, N, 2 * ROWS, BLOCK_N)
    it = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        row, column = place_of(tile, M, N, False, GROUP_M, 2 * ROWS, BLOCK_N)
        row += WHICH * ROWS
        rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, SUMS))
        one = gl.load(a_scale + rows.to(ra.dtype) * ra, mask=rows < M, other=0).to(gl.float32)
        total = gl.zeros([ROWS, BLOCK_N], gl.float32, SUMS)
        for k in range(0, K, BLOCK_K):
            stage = it % STAGES
            mbarrier.wait(full.index(stage), it // STAGES & 1)
            x = _numbers(sa.index(stage * 2 + WHICH), KIND_A)
            z = _numbers(sb.index(stage), KIND_B).permute((1, 0))
            total = warpgroup_mma(x, z, total, is_async=True)
            total = warpgroup_mma_wait(1, deps=[total])
            if k > 0:  # the products of the step before are done
                mbarrier.arrive(empty.index((it - 1) % STAGES), count=1)
            it += 1
        total = warpgroup_mma_wait(0, deps=[total])
        mbarrier.arrive(empty.index((it - 1) % STAGES), count=1)
        _store(out, total, one, b_scale, so.index(WHICH), row, column, N, rb, ROWS, BLOCK_N)
    tma.store_wait(0)


@gluon.jit
def matmul_in_groups(
    a, b, out, a_scale, b_scale, M, N, K, pa, pb, om, ra, rb,
    KIND_A: gl.constexpr, KIND_B: gl.constexpr, GROUP_M: gl.constexpr, ROWS: gl.constexpr,
    BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """out = (a @ b.T) * a_scale * b_scale in tiles of 2 * ROWS x BLOCK_N, one after the other, as
    `narrow:matmul_in_turn` of floating numbers whose sums are left to the units. a, b and out come
    as descriptors: elements of a row lie side by side, `pa`, `pb` and `om` are from row to row.
    """
    M, N, K = whole(M), whole(N), whole(K)
    sa = buffers(a, STAGES * 2)
    sb = buffers(b, STAGES)
    so = buffers(out, 2)
    full, empty = barriers(STAGES, 2)
    fence_async_shared()
    ordered()  # the launch in front may still run until here
    gl.warp_specialize(
        [
            (_compute, (
                sa, sb, so, full, empty, out, a_scale, b_scale, M, N, K, ra, rb, KIND_A, KIND_B,
                GROUP_M, ROWS, BLOCK_N, BLOCK_K, STAGES, 0,
            )),
            (_compute, (
                sa, sb, so, full, empty, out, a_scale, b_scale, M, N, K, ra, rb, KIND_A, KIND_B,
                GROUP_M, ROWS, BLOCK_N, BLOCK_K, STAGES, 1,
            )),
            (load_tiles, (
                a, b, b, sa, sb, sb, full, empty, M, N, K, False, True, GROUP_M, 2, ROWS, BLOCK_N,
                0, BLOCK_K, STAGES,
            )),
        ],
        [4, 1],
        [232, 40],
    )  # fmt: skip
