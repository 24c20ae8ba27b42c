"""Matrix products whose tiles are fetched by a copy engine, from descriptions of the operands: on
NVIDIA from Hopper on. What is past the end comes as zeros, and no thread computes an address.

Rows of an operand, or its columns, lie side by side in memory, and begin at multiples of 16 bytes.
HOSTED: the operands are given as descriptors, which the host has made; else each block makes its
own, which takes more than a microsecond.
"""

import triton
import triton.language as tl

from .early import ordered
from .linear import tile_of
from .tails import columns_of, elements


@triton.jit
def operator(*elements):
    """Stands for the device function that a kernel with a tail is compiled with."""
    return elements[0]


@triton.jit
def _description(p, rows, columns, step, T: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr):
    """A matrix at `p`, of which HIGH x WIDE elements come at once. T: its columns lie side by side,
    `step` apart; else its rows do.
    """
    m, n = rows.to(tl.int32), columns.to(tl.int32)
    if T:
        return tl.make_tensor_descriptor(p, [n, m], [step.to(tl.int64), 1], [WIDE, HIGH])
    else:
        return tl.make_tensor_descriptor(p, [m, n], [step.to(tl.int64), 1], [HIGH, WIDE])


@triton.jit
def _descriptions(
    a, b, M, N, K, ra, rb, HOSTED: tl.constexpr, A_T: tl.constexpr, B_T: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Of both operands."""
    if HOSTED:
        return a, b
    else:
        da = _description(a, M, K, ra, A_T, BLOCK_M, BLOCK_K)
        db = _description(b, K, N, rb, B_T, BLOCK_K, BLOCK_N)
        return da, db


@triton.jit
def _fetched(description, row, column, T: tl.constexpr):
    if T:
        return description.load([column, row]).T
    else:
        return description.load([row, column])


@triton.jit
def _product(
    da, db, row, column, first, last, T: tl.constexpr, A_T: tl.constexpr, B_T: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The tile of the result that begins at `row` and `column`, of K from `first` to `last`."""
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    for k in range(first, last.to(tl.int32), BLOCK_K):
        x = _fetched(da, row, k, A_T)
        z = _fetched(db, k, column, B_T)
        total = tl.dot(x, z, total, out_dtype=T)
    return total


#: Elements of 16 bytes: along a row, the copy engine takes a tile from their multiples only.
ROW_STEP: tl.constexpr = tl.constexpr(8)


@triton.jit
def _start(tile, BLOCK: tl.constexpr, length, ALONG_ROWS: tl.constexpr):
    """Where a tile begins along an axis. The last one ends with the matrix, and what it shares with
    the one before is made twice, to the same bits: a result lies apart from all that is read. Tiles
    that reach past an end are fetched much more slowly.

    ALONG_ROWS: the axis is that of a row, of something that the copy engine fetches or stores.
    """
    last = length.to(tl.int32) - BLOCK
    if ALONG_ROWS:
        last = tl.cdiv(last, ROW_STEP) * ROW_STEP
    return tl.maximum(tl.minimum(tile.to(tl.int32) * BLOCK, last), 0)


@triton.jit
def _own_product(
    a, b, M, N, K, first, last, ra, rb, A_T: tl.constexpr, B_T: tl.constexpr,
    T: tl.constexpr, HOSTED: tl.constexpr, GROUP_M: tl.constexpr, EARLY: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The first row and column of a block's only tile, and the tile of K from `first` to `last`.
    EARLY: what needs no memory is done before the launch in front has ended.
    """
    block = tl.program_id(0).to(K.dtype)
    _, tile_m, tile_n = tile_of(block, tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    row = _start(tile_m, BLOCK_M, M, A_T)
    column = _start(tile_n, BLOCK_N, N, not B_T)
    if EARLY:
        ordered()
    da, db = _descriptions(a, b, M, N, K, ra, rb, HOSTED, A_T, B_T, BLOCK_M, BLOCK_N, BLOCK_K)
    total = _product(da, db, row, column, first, last, T, A_T, B_T, BLOCK_M, BLOCK_N, BLOCK_K)
    return row, column, total


@triton.jit
def _result(
    out, M, N, om, HOSTED: tl.constexpr, BLOCK_M: tl.constexpr, WIDE: tl.constexpr
):  # fmt: skip
    """The description that tiles are stored by, WIDE columns at once."""
    if HOSTED:
        return out
    else:
        return _description(out, M, N, om, False, BLOCK_M, WIDE)


@triton.jit
def _store(out, total, row, column, M, N, om, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rm = row + tl.arange(0, BLOCK_M).to(M.dtype)
    rn = column + tl.arange(0, BLOCK_N).to(M.dtype)
    p = out + (rm * om)[:, None] + rn[None, :]
    mask = (rm < M)[:, None] & (rn < N)[None, :]
    tl.store(p, total.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _found(
    total, number, row, start, M, N, c, d, e, f, sc, sd, se, sf, cm, cn, dm, dn, em, en, fm, fn,
    C: tl.constexpr, D: tl.constexpr, E: tl.constexpr, F: tl.constexpr,
    BLOCK_M: tl.constexpr, PIECES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Columns of a tile from `start` on, its piece `number`, and what stands beside them."""
    rm = row + tl.arange(0, BLOCK_M).to(M.dtype)
    rn = start + tl.arange(0, WIDTH).to(M.dtype)
    return elements(
        columns_of(total, number, PIECES), c, d, e, f, sc, sd, se, sf,
        cm, cn, dm, dn, em, en, fm, fn, C, D, E, F, 0, (), rm, rn, rm < M, rn < N,
    )  # fmt: skip


@triton.jit
def matmul_described(
    a, b, out, M, N, K, ra, rb, om,
    A_T: tl.constexpr, B_T: tl.constexpr, T: tl.constexpr, HOSTED: tl.constexpr,
    GROUP_M: tl.constexpr, EARLY: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out = a @ b, a tile a block, summed in T. A_T, B_T: columns of the operand lie side by side,
    not rows; `ra`, `rb`: from one of them to the next. `om`: from row to row of `out`.
    """
    row, column, total = _own_product(
        a, b, M, N, K, 0, K, ra, rb, A_T, B_T, T, HOSTED, GROUP_M, EARLY, BLOCK_M, BLOCK_N, BLOCK_K
    )
    _store(out, total, row, column, M, N, om, BLOCK_M, BLOCK_N)


@triton.jit
def matmul_described_parts(
    a, b, out, M, N, K, chunk, part, ra, rb, om,
    A_T: tl.constexpr, B_T: tl.constexpr, T: tl.constexpr, HOSTED: tl.constexpr,
    GROUP_M: tl.constexpr, EARLY: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`matmul_described` of parts of K, by grid y: `chunk` of it (a multiple of BLOCK_K) in each,
    which writes its own result, `part` elements after the one before.
    """
    y = tl.program_id(1)
    first = y * chunk.to(tl.int32)
    row, column, total = _own_product(
        a, b, M, N, K, first, tl.minimum(first + chunk, K), ra, rb,
        A_T, B_T, T, HOSTED, GROUP_M, EARLY, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip
    p = out + y.to(K.dtype) * part
    _store(p, total, row, column, M, N, om, BLOCK_M, BLOCK_N)


@triton.jit
def matmul_described_then(
    a, b, out, M, N, K, ra, rb, om,
    c, d, e, f, sc, sd, se, sf, cm, cn, dm, dn, em, en, fm, fn,
    C: tl.constexpr, D: tl.constexpr, E: tl.constexpr, F: tl.constexpr,
    A_T: tl.constexpr, B_T: tl.constexpr, T: tl.constexpr, HOSTED: tl.constexpr,
    GROUP_M: tl.constexpr, EARLY: tl.constexpr, PIECES: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`matmul_described`, whose tiles go through `operator` with what stands beside them (`tails`)
    before they are stored, as in `matmul_then`.
    """
    row, column, total = _own_product(
        a, b, M, N, K, 0, K, ra, rb, A_T, B_T, T, HOSTED, GROUP_M, EARLY, BLOCK_M, BLOCK_N, BLOCK_K
    )
    WIDTH: tl.constexpr = BLOCK_N // PIECES
    for number in tl.static_range(PIECES):
        start = column + number * WIDTH
        found = _found(
            total, number, row, start, M, N, c, d, e, f, sc, sd, se, sf,
            cm, cn, dm, dn, em, en, fm, fn, C, D, E, F, BLOCK_M, PIECES, WIDTH,
        )  # fmt: skip
        _store(out, operator(*found), row, start, M, N, om, BLOCK_M, WIDTH)


@triton.jit
def matmul_in_turn(
    a, b, out, M, N, K, ra, rb, om,
    A_T: tl.constexpr, B_T: tl.constexpr, T: tl.constexpr, HOSTED: tl.constexpr,
    STORED: tl.constexpr, GROUP_M: tl.constexpr, EARLY: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`matmul_described` by blocks that make one tile after the other: what the next one needs is
    fetched before this one is stored. STORED: by the copy engine too, for rows of `out` that begin
    at multiples of 16 bytes.
    """
    if EARLY:
        ordered()
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M).to(tl.int32), tl.cdiv(N, BLOCK_N).to(tl.int32)
    da, db = _descriptions(a, b, M, N, K, ra, rb, HOSTED, A_T, B_T, BLOCK_M, BLOCK_N, BLOCK_K)
    if STORED:
        do = _result(out, M, N, om, HOSTED, BLOCK_M, BLOCK_N // 2)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        _, tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP_M)
        row = _start(tile_m, BLOCK_M, M, A_T)
        column = _start(tile_n, BLOCK_N, N, STORED or not B_T)
        total = _product(da, db, row, column, 0, K, T, A_T, B_T, BLOCK_M, BLOCK_N, BLOCK_K)
        if STORED:  # in halves: shared memory for a whole tile would cost a stage
            halves = tl.permute(tl.reshape(total, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            do.store([row, column], left.to(do.dtype))
            do.store([row, column + BLOCK_N // 2], right.to(do.dtype))
        else:
            _store(out, total, row, column, M, N, om, BLOCK_M, BLOCK_N)


@triton.jit
def matmul_in_turn_then(
    a, b, out, M, N, K, ra, rb, om,
    c, d, e, f, sc, sd, se, sf, cm, cn, dm, dn, em, en, fm, fn,
    C: tl.constexpr, D: tl.constexpr, E: tl.constexpr, F: tl.constexpr,
    A_T: tl.constexpr, B_T: tl.constexpr, T: tl.constexpr, HOSTED: tl.constexpr,
    STORED: tl.constexpr, GROUP_M: tl.constexpr, EARLY: tl.constexpr, PIECES: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`matmul_in_turn`, whose tiles go through `operator` with what stands beside them (`tails`)
    before they are stored, as in `matmul_then`.
    """
    if EARLY:
        ordered()
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M).to(tl.int32), tl.cdiv(N, BLOCK_N).to(tl.int32)
    da, db = _descriptions(a, b, M, N, K, ra, rb, HOSTED, A_T, B_T, BLOCK_M, BLOCK_N, BLOCK_K)
    WIDTH: tl.constexpr = BLOCK_N // PIECES
    if STORED:
        do = _result(out, M, N, om, HOSTED, BLOCK_M, WIDTH)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        _, tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP_M)
        row = _start(tile_m, BLOCK_M, M, A_T)
        column = _start(tile_n, BLOCK_N, N, STORED or not B_T)
        total = _product(da, db, row, column, 0, K, T, A_T, B_T, BLOCK_M, BLOCK_N, BLOCK_K)
        for number in tl.static_range(PIECES):
            start = column + number * WIDTH
            found = _found(
                total, number, row, start, M, N, c, d, e, f, sc, sd, se, sf,
                cm, cn, dm, dn, em, en, fm, fn, C, D, E, F, BLOCK_M, PIECES, WIDTH,
            )  # fmt: skip
            value = operator(*found)
            if STORED:
                do.store([row, start], value.to(do.dtype))
            else:
                _store(out, value, row, start, M, N, om, BLOCK_M, WIDTH)
