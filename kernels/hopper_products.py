"""Matrix products for NVIDIA's sm_90, in Gluon: one group of warps fetches tiles of the operands by
the copy engine, each of the others multiplies its own rows of a tile.

A warp that waits for neither addresses nor barriers of fetches keeps the matrix units busy, so that
a tile takes what its products take, whatever its form: rows of 64 a group, with one to four groups,
and columns that may be a power of two and a smaller one.
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
from .hopper_attention import barriers, fetch, put, whole

#: Elements of 16 bytes, which the copy engine's rows begin at multiples of.
ROW_STEP: gl.constexpr = gl.constexpr(8)


@gluon.jit
def _start(tile, BLOCK: gl.constexpr, length, ALONG_ROWS: gl.constexpr):
    """Where a tile begins along an axis, as in `described`."""
    last = length - BLOCK
    if ALONG_ROWS:
        last = (last + ROW_STEP - 1) // ROW_STEP * ROW_STEP
    return gl.maximum(gl.minimum(tile * BLOCK, last), 0)


@gluon.jit
def tiles_of(M, N, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr):
    """How many tiles there are below each other, and side by side."""
    return (M + BLOCK_M - 1) // BLOCK_M, (N + BLOCK_N - 1) // BLOCK_N


@gluon.jit
def place_of(
    tile, M, N, A_T: gl.constexpr, GROUP_M: gl.constexpr, BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
):  # fmt: skip
    """The first row and column of a tile, in the order of `linear:tile_of`."""
    tiles_m, tiles_n = tiles_of(M, N, BLOCK_M, BLOCK_N)
    group = tile // (GROUP_M * tiles_n)
    height = gl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    rest = tile - group * (GROUP_M * tiles_n)
    row = _start(group * GROUP_M + rest % height, BLOCK_M, M, A_T)
    return row, _start(rest // height, BLOCK_N, N, True)


@gluon.jit
def load_tiles(
    a, b, rest, sa, sb, sr, full, empty, M, N, K, A_T: gl.constexpr, B_T: gl.constexpr,
    GROUP_M: gl.constexpr, GROUPS: gl.constexpr, ROWS: gl.constexpr, BLOCK_N: gl.constexpr,
    REST: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Fetch the operands of each tile of this block, a step along K after the other."""
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    WIDE: gl.constexpr = BLOCK_N + REST
    tiles_m, tiles_n = tiles_of(M, N, BLOCK_M, WIDE)
    it = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        row, column = place_of(tile, M, N, A_T, GROUP_M, BLOCK_M, WIDE)
        for k in range(0, K, BLOCK_K):
            stage = it % STAGES
            mbarrier.wait(empty.index(stage), it // STAGES & 1 ^ 1)
            come = full.index(stage)
            mbarrier.expect(come, (BLOCK_M + WIDE) * BLOCK_K * a.dtype.primitive_bitwidth // 8)
            for which in gl.static_range(GROUPS):
                buffer = sa.index(stage * GROUPS + which)
                if A_T:
                    fetch(a, [k, row + which * ROWS], come, buffer)
                else:
                    fetch(a, [row + which * ROWS, k], come, buffer)
            if B_T:
                fetch(b, [column, k], come, sb.index(stage))
            else:
                fetch(b, [k, column], come, sb.index(stage))
            if REST:
                if B_T:
                    fetch(rest, [column + BLOCK_N, k], come, sr.index(stage))
                else:
                    fetch(rest, [k, column + BLOCK_N], come, sr.index(stage))
            it += 1


@gluon.jit
def _store(out, value, buffer, row, column, ROWS: gl.constexpr, WIDE: gl.constexpr):
    """Store a group's part of a tile through shared memory, in pieces of few columns."""
    STORED: gl.constexpr = out.block_shape[1]
    if WIDE <= STORED:
        tma.store_wait(0)
        buffer.store(value.to(out.dtype))
        fence_async_shared()
        put(out, [row, column], buffer)
    else:
        HALF: gl.constexpr = WIDE // 2
        left, right = value.reshape([ROWS, 2, HALF]).permute((0, 2, 1)).split()
        _store(out, left, buffer, row, column, ROWS, HALF)
        _store(out, right, buffer, row, column + HALF, ROWS, HALF)


@gluon.jit
def _compute(
    sa, sb, sr, so, full, empty, out, M, N, K, A_T: gl.constexpr, B_T: gl.constexpr,
    GROUP_M: gl.constexpr, GROUPS: gl.constexpr, ROWS: gl.constexpr, BLOCK_N: gl.constexpr,
    REST: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """Rows WHICH * ROWS and following ones of each tile of this block."""
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    NEXT: gl.constexpr = 16 if REST == 0 else REST
    FURTHER: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, NEXT, 16])
    WIDE: gl.constexpr = BLOCK_N + REST
    tiles_m, tiles_n = tiles_of(M, N, GROUPS * ROWS, WIDE)
    it = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        row, column = place_of(tile, M, N, A_T, GROUP_M, GROUPS * ROWS, WIDE)
        total = gl.zeros([ROWS, BLOCK_N], gl.float32, SUMS)
        if REST:
            further = gl.zeros([ROWS, REST], gl.float32, FURTHER)
        for k in range(0, K, BLOCK_K):
            stage = it % STAGES
            mbarrier.wait(full.index(stage), it // STAGES & 1)
            x, z = sa.index(stage * GROUPS + WHICH), sb.index(stage)
            if A_T:
                x = x.permute((1, 0))
            if B_T:
                z = z.permute((1, 0))
            total = warpgroup_mma(x, z, total, is_async=True)
            if REST:
                r = sr.index(stage)
                if B_T:
                    r = r.permute((1, 0))
                further = warpgroup_mma(x, r, further, is_async=True)
                total, further = warpgroup_mma_wait(2, deps=[total, further])
            else:
                total = warpgroup_mma_wait(1, deps=[total])
            if k > 0:  # the products of the step before are done
                mbarrier.arrive(empty.index((it - 1) % STAGES), count=1)
            it += 1
        if REST:
            total, further = warpgroup_mma_wait(0, deps=[total, further])
        else:
            total = warpgroup_mma_wait(0, deps=[total])
        mbarrier.arrive(empty.index((it - 1) % STAGES), count=1)
        first = row + WHICH * ROWS
        _store(out, total, so.index(WHICH), first, column, ROWS, BLOCK_N)
        if REST:
            _store(out, further, so.index(WHICH), first, column + BLOCK_N, ROWS, REST)
    tma.store_wait(0)


@gluon.jit
def buffers(description, COUNT: gl.constexpr):
    """Shared memory for as many tiles of a matrix."""
    TILE: gl.constexpr = description.block_shape
    SHAPE: gl.constexpr = [COUNT, TILE[0], TILE[1]]
    return gl.allocate_shared_memory(description.dtype, SHAPE, description.layout)


@gluon.jit
def matmul_in_groups(
    a, b, rest, out, M, N, K, ra, rb, om, A_T: gl.constexpr, B_T: gl.constexpr,
    GROUP_M: gl.constexpr, GROUPS: gl.constexpr, ROWS: gl.constexpr, BLOCK_N: gl.constexpr,
    REST: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """out = a @ b in tiles of GROUPS * ROWS x (BLOCK_N + REST), one after the other. All three
    come as descriptors, b as two: of BLOCK_N columns, and of REST (`rest`; 0: there is none). A_T,
    B_T, `ra`, `rb` and `om` are as in `described:matmul_described`. REGISTERS: of a thread that
    multiplies.
    """
    M, N, K = whole(M), whole(N), whole(K)
    sa = buffers(a, STAGES * GROUPS)
    sb = buffers(b, STAGES)
    if REST:
        more, sr = rest, buffers(rest, STAGES)
    else:
        more, sr = b, sb
    so = buffers(out, GROUPS)
    full, empty = barriers(STAGES, GROUPS)
    fence_async_shared()
    ordered()  # the launch in front may still run until here
    if GROUPS == 1:
        gl.warp_specialize(
            [
                (_compute, (
                    sa, sb, sr, so, full, empty, out, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES, 0,
                )),
                (load_tiles, (
                    a, b, more, sa, sb, sr, full, empty, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES,
                )),
            ],
            [1],
            [40],
        )  # fmt: skip
    elif GROUPS == 2:
        gl.warp_specialize(
            [
                (_compute, (
                    sa, sb, sr, so, full, empty, out, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES, 0,
                )),
                (_compute, (
                    sa, sb, sr, so, full, empty, out, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES, 1,
                )),
                (load_tiles, (
                    a, b, more, sa, sb, sr, full, empty, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES,
                )),
            ],
            [4, 1],
            [REGISTERS, 40],
        )  # fmt: skip
    elif GROUPS == 3:
        gl.warp_specialize(
            [
                (_compute, (
                    sa, sb, sr, so, full, empty, out, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES, 0,
                )),
                (_compute, (
                    sa, sb, sr, so, full, empty, out, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES, 1,
                )),
                (_compute, (
                    sa, sb, sr, so, full, empty, out, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES, 2,
                )),
                (load_tiles, (
                    a, b, more, sa, sb, sr, full, empty, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES,
                )),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 32],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_compute, (
                    sa, sb, sr, so, full, empty, out, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES, 0,
                )),
                (_compute, (
                    sa, sb, sr, so, full, empty, out, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES, 1,
                )),
                (_compute, (
                    sa, sb, sr, so, full, empty, out, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES, 2,
                )),
                (_compute, (
                    sa, sb, sr, so, full, empty, out, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES, 3,
                )),
                (load_tiles, (
                    a, b, more, sa, sb, sr, full, empty, M, N, K, A_T, B_T, GROUP_M, GROUPS, ROWS,
                    BLOCK_N, REST, BLOCK_K, STAGES,
                )),
            ],
            [4, 4, 4, 1],
            [REGISTERS, REGISTERS, REGISTERS, 32],
        )  # fmt: skip
