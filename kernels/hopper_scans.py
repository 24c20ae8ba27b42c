"""Cumulative sums of one long row for NVIDIA's sm_90, in Gluon: each element is read once.

Blocks take tiles by tickets, in the order of the row. A tile's sum is told to the others as soon as
the tile has come, a turn before it is needed; the last tile of a GROUP tells the sum of the whole
group. What comes before a tile is the groups before its own and the tiles before it in that, taken
together in one order, so that results are the same each time. A block waits only for tiles of
earlier tickets, each of which a running block has: no block waits for one that has not begun.

Source: D. Merrill, M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy


@gluon.jit
def _plus(x, y):
    return x + y


@gluon.jit
def _fetch(pointers, buffer):
    """Begin to copy a tile to shared memory."""
    NEW: gl.constexpr = hasattr(async_copy, "async_load")  # not in Triton 3.6
    NAME: gl.constexpr = "async_load" if NEW else "async_copy_global_to_shared"
    getattr(async_copy, NAME)(buffer, pointers)


@gluon.jit
def _tell(place, value):
    """A number with a mark that it is there, in one word: memory begins as 0."""
    word = value.to(gl.int32, bitcast=True).to(gl.int64) & 0xFFFFFFFF
    gl.atomic_xchg(place, word | (1 << 32), sem="relaxed")


@gluon.jit
def _told(places, mask):
    """The sum of numbers that others tell, once all of them are there."""
    words = gl.load(places, mask=mask, other=1 << 32, volatile=True)
    while gl.min((words >> 32).to(gl.int32), 0) == 0:
        words = gl.load(places, mask=mask, other=1 << 32, volatile=True)
    value = (words & 0xFFFFFFFF).to(gl.int32).to(gl.float32, bitcast=True)
    return gl.sum(gl.where(mask, value, 0.0), 0)


@gluon.jit
def _begin(x, buffer, tile, n, tiles, i, SIZE: gl.constexpr):
    """Fetch a tile; elements past the row's end are 0."""
    start = tile.to(gl.int64) * SIZE
    if tile < tiles:
        if start + SIZE <= n:
            _fetch(x + start + i, buffer)
        else:
            left = (n - start).to(gl.int32)
            buffer.store(gl.load(x + start + i, mask=i < left, other=0.0))
    async_copy.commit_group()


@gluon.jit
def _tell_sum(
    buffer, sums, groups, tile, OWN: gl.constexpr, LANES: gl.constexpr, GROUP: gl.constexpr
):
    """Tell a tile's sum; and the group's, if it is the group's last one."""
    total = gl.sum(gl.sum(buffer.load(OWN), 1), 0)
    _tell(sums + tile, total)
    group = tile // GROUP
    if tile - group * GROUP == GROUP - 1:
        lane = gl.arange(0, GROUP, LANES)
        _tell(groups + group, _told(sums + group * GROUP + lane, lane < GROUP - 1) + total)


@gluon.jit
def _scanned(buffer, before, OWN: gl.constexpr, LANES: gl.constexpr):
    """The cumulative sums of a tile, each thread's row after that of the thread before it."""
    ROWS: gl.constexpr = buffer.shape[0]
    COLUMNS: gl.constexpr = buffer.shape[1]
    inner = gl.associative_scan(buffer.load(OWN), 1, _plus)
    column = gl.arange(0, COLUMNS, gl.SliceLayout(0, OWN))[None, :]
    ends = gl.sum(gl.where(column == COLUMNS - 1, inner, 0.0), 1)
    upto = gl.associative_scan(gl.convert_layout(ends, LANES), 0, _plus)
    row = gl.arange(0, ROWS, LANES)
    # not `upto - ends`: infinity less itself is no number
    upto = gl.where(row == 0, 0.0, gl.gather(upto, gl.maximum(row - 1, 0), 0))
    return inner + gl.convert_layout(before + upto, gl.SliceLayout(1, OWN))[:, None]


@gluon.jit
def cumsum(
    x, out, words, n, tiles,
    COLUMNS: gl.constexpr, WARPS: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    """`words`: a ticket, a word for each tile and one for each group, all 0."""
    STAGES: gl.constexpr = 3
    ROWS: gl.constexpr = 32 * WARPS
    SIZE: gl.constexpr = ROWS * COLUMNS
    VECTORS: gl.constexpr = COLUMNS // 4
    WIDE: gl.constexpr = gl.BlockedLayout([1, 4], [32 // VECTORS, VECTORS], [WARPS, 1], [1, 0])
    OWN: gl.constexpr = gl.BlockedLayout([1, COLUMNS], [32, 1], [WARPS, 1], [1, 0])
    LANES: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0])
    PHASES: gl.constexpr = VECTORS if VECTORS < 8 else 8
    SHARED: gl.constexpr = gl.SwizzledSharedLayout(4, 8 // PHASES, PHASES, [1, 0])
    buffers = gl.allocate_shared_memory(gl.float32, [STAGES, ROWS, COLUMNS], SHARED)
    tiles = tiles.to(gl.int32)
    n = n.to(gl.int64)
    sums = words + 1
    groups = sums + tiles
    row = gl.arange(0, ROWS, gl.SliceLayout(1, WIDE))
    column = gl.arange(0, COLUMNS, gl.SliceLayout(0, WIDE))
    i = (row * COLUMNS)[:, None] + column[None, :]
    lane = gl.arange(0, GROUP, LANES)
    tile = gl.atomic_add(words, 1, sem="relaxed").to(gl.int32)
    _begin(x, buffers.index(0), tile, n, tiles, i, SIZE)
    later = gl.atomic_add(words, 1, sem="relaxed").to(gl.int32)
    _begin(x, buffers.index(1), later, n, tiles, i, SIZE)
    async_copy.wait_group(1)
    if tile < tiles:
        _tell_sum(buffers.index(0), sums, groups, tile, OWN, LANES, GROUP)
    turn = 0
    while tile < tiles:
        last = gl.atomic_add(words, 1, sem="relaxed").to(gl.int32)
        _begin(x, buffers.index((turn + 2) % STAGES), last, n, tiles, i, SIZE)
        async_copy.wait_group(1)
        if later < tiles:
            _tell_sum(buffers.index((turn + 1) % STAGES), sums, groups, later, OWN, LANES, GROUP)
        group = tile // GROUP
        first = group * GROUP
        near = _told(sums + first + lane, first + lane < tile)
        before = gl.to_tensor(0.0)
        for one in range(0, group, GROUP):
            before += _told(groups + one + lane, one + lane < group)
        buffer = buffers.index(turn % STAGES)
        buffer.store(_scanned(buffer, before + near, OWN, LANES))
        result = buffer.load(WIDE)
        start = tile.to(gl.int64) * SIZE
        if start + SIZE <= n:
            gl.store(out + start + i, result)
        else:
            gl.store(out + start + i, result, mask=i < (n - start).to(gl.int32))
        tile = later
        later = last
        turn += 1
