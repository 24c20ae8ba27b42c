"""Few rows times the transpose of a matrix of 4-bit weights for NVIDIA's sm_90, in Gluon.

A block keeps its part of the rows in registers and takes 16 columns of the result after the other.
Each warp has a piece of K, so that no warp waits for another before the sums are added up. Weights
go from memory to the registers of the matrix units and are made 16-bit numbers there: a word's
eight are multiplied in the order 0 4 1 5 2 6 3 7, in which two instructions unpack two of them.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

from .early import ordered


@gluon.constexpr_function
def _doubled(first, end, axis):
    """Bases of a layout of three axes: first, 2 * first ... below `end`, along one of them."""
    found = []
    while first < end:
        found.append([first if one == axis else 0 for one in range(3)])
        first *= 2
    return found


@gluon.constexpr_function
def _words(slices):
    """The layout of 16 columns of weights, 16 words of each: a thread has four words side by side
    of columns 8 apart, as the matrix units want them.
    """
    lanes = [[0, 0, 4], [0, 0, 8], *_doubled(1, 8, 1)]
    registers = [*_doubled(1, 4, 2), [0, 8, 0]]
    return gl.DistributedLinearLayout(
        registers, lanes, _doubled(1, slices, 0), [], [slices, 16, 16]
    )


@gluon.constexpr_function
def _rows(slices, rows):
    """The layout of rows of x, 128 elements of each: what meets a thread's words is its own."""
    lanes = [[0, 0, 32], [0, 0, 64], *_doubled(1, 8, 1)]
    registers = [*_doubled(1, 32, 2), *_doubled(8, rows, 1)]
    return gl.DistributedLinearLayout(
        registers, lanes, _doubled(1, slices, 0), [], [slices, rows, 128]
    )


@gluon.constexpr_function
def _unpacking(half):
    """PTX that makes a word's numbers pairs of a half type: with the bits of 128 or 1024 around
    them they are the lowest digits. 1024 is taken off.
    """
    base = "0x43004300" if half == "bf16" else "0x64006400"
    lines = [
        ".reg .b32 word, mask, base;",
        "mov.b32 mask, 0x000F000F;",
        f"mov.b32 base, {base};",
    ]
    for pair in range(4):
        lines.append(f"shr.u32 word, $4, {4 * pair};")
        lines.append(f"lop3.b32 ${pair}, word, mask, base, 0xEA;")
        if half != "bf16":
            lines.append(f"sub.f16x2 ${pair}, ${pair}, base;")
    return "{ " + " ".join(lines) + " }"


@gluon.jit
def _numbers(words, T: gl.constexpr):
    """The numbers of 4 bits of each word, in bfloat16 128 more."""
    two = gl.join(words, words)
    four = gl.join(two, two)
    eight = gl.join(four, four)
    TEXT: gl.constexpr = _unpacking(T.name)
    OUT: gl.constexpr = "=&r,=&r,=&r,=&r,r,r,r,r,r,r,r,r"
    if T.name == "bf16":
        return gl.inline_asm_elementwise(
            TEXT, OUT, [eight], dtype=gl.bfloat16, is_pure=True, pack=8
        )  # fmt: skip
    else:
        return gl.inline_asm_elementwise(TEXT, OUT, [eight], dtype=gl.float16, is_pure=True, pack=8)


@gluon.jit
def _weights(words, T: gl.constexpr, SLICES: gl.constexpr, LAYOUT: gl.constexpr):
    """`_numbers` as the first operand of a product over 128 numbers; all stay where they are."""
    found = gl.reshape(_numbers(words, T), [SLICES, 16, 4, 4, 2, 2, 2])
    found = gl.permute(found, [0, 1, 3, 4, 5, 2, 6])
    return gl.convert_layout(gl.reshape(found, [SLICES, 16, 128]), LAYOUT, assert_trivial=True)


@gluon.jit
def _ordered(x, SLICES: gl.constexpr, ROWS: gl.constexpr, LAYOUT: gl.constexpr):
    """Rows as the second operand, in the order of `_weights`. They come as memory has them."""
    ROWS_LAYOUT: gl.constexpr = _rows(SLICES, ROWS)
    x = gl.convert_layout(x, ROWS_LAYOUT)
    x = gl.reshape(x, [SLICES, ROWS, 4, 4, 2, 2, 2])
    x = gl.permute(x, [0, 3, 5, 6, 2, 4, 1])
    return gl.convert_layout(gl.reshape(x, [SLICES, 128, ROWS]), LAYOUT, assert_trivial=True)


@gluon.jit
def followed(several, one):
    """Several without the first, and one more."""
    return several[1:] + (one,)  # noqa: RUF005


@gluon.jit
def _fetched(pw, tile, piece: gl.constexpr, slice, n, word, left_n, left_k, bn, EACH: gl.constexpr):
    """Words of a tile; each is read once."""
    mask = (tile * 16 + n < left_n) & (slice * EACH + piece * 128 < left_k) & (word < 16)
    p = pw + tile * 16 * (bn // 4) + piece * 16
    return gl.load(p, mask=mask, other=0, cache_modifier=".cg")


@gluon.jit
def _of_columns(p, tile, at, left_n, left_k, n, first, group, step_n, step_group):
    """A number of each group, of 16 columns: scales or zeros."""
    p = p + (tile * 16 + n) * step_n + (first + at) // group * step_group
    return gl.load(p, mask=(tile * 16 + n < left_n) & (at < left_k), other=0)


@gluon.jit
def one_by_one(
    x, q, scales, zeros, n, m, inside, first, last, group, am, bn, sn, sg, zn, zg,
    ZERO: gl.constexpr,
):  # fmt: skip
    """The sums with weights that are multiplied by their scales: 0 times infinity is nan."""
    LAYOUT: gl.constexpr = inside.type.layout
    total = gl.zeros(inside.shape, gl.float32, LAYOUT)
    for k in range(first, last):
        w = gl.load(q + n * bn + k // 2, mask=inside, other=0).to(gl.int32)
        w = (w >> (k % 2 * 4)) & 15
        if zeros is not None:
            w -= gl.load(zeros + n * zn + k // group * zg, mask=inside, other=0).to(gl.int32)
        else:
            w -= ZERO
        s = gl.load(scales + n * sn + k // group * sg, mask=inside, other=0).to(gl.float32)
        total += w.to(gl.float32) * s * gl.load(x + m * am + k, mask=inside, other=0)
    return total


@gluon.jit
def matmul(
    x, q, scales, zeros, out, M, N, K, group, tiles, part, am, bn, sn, sg, zn, zg, om, on,
    ZERO: gl.constexpr, DOT: gl.constexpr, SLICES: gl.constexpr, PIECES: gl.constexpr,
    BLOCK_M: gl.constexpr, TILES: gl.constexpr, AHEAD: gl.constexpr,
):  # fmt: skip
    """x @ ((q - zeros) * scales).T for no more rows of x than BLOCK_M, which are contiguous, as
    those of q are; rows of q begin at multiples of 16 bytes. K and `group` are multiples of 128.

    A block makes `tiles` times 16 columns: SLICES warps with PIECES * 128 numbers along K each; a
    second part of K is that of blocks along grid y, whose results lie `part` apart. Sums of
    TILES * 16 columns wait in shared memory for each other. AHEAD: weights of so many tiles are
    under way.

    bfloat16 numbers are multiplied 128 too large, and 128 times the sum of x is taken off before
    anything is rounded to 16 bits. What is not finite then is made again, one by one.
    """
    ordered()
    UNITS: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [SLICES, 1, 1], [1, 16, 8])
    A: gl.constexpr = gl.DotOperandLayout(0, UNITS, 2)
    B: gl.constexpr = gl.DotOperandLayout(1, UNITS, 2)
    COLUMNS: gl.constexpr = gl.SliceLayout(2, UNITS)
    W: gl.constexpr = _words(SLICES)
    X: gl.constexpr = gl.BlockedLayout([1, 1, 8], [1, 2, 16], [SLICES, 1, 1], [2, 1, 0])
    SUMS: gl.constexpr = gl.BlockedLayout(
        [1, SLICES, 1, 1], [1, 1, 4, 8], [SLICES // 4, 1, 4, 1], [3, 2, 1, 0]
    )
    R: gl.constexpr = gl.SliceLayout(1, SUMS)
    EACH: gl.constexpr = PIECES * 128
    MORE: gl.constexpr = 128.0 if DOT.name == "bf16" else 0.0
    slab = gl.allocate_shared_memory(
        gl.float32, [TILES, SLICES, 16, BLOCK_M], gl.SwizzledSharedLayout(1, 1, 1, [2, 1, 0])
    )
    WHOLE: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [3, 2, 1, 0])
    NEW: gl.constexpr = hasattr(gl.shared_memory_descriptor, "reinterpret")  # not in Triton 3.6
    NAME: gl.constexpr = "reinterpret" if NEW else "_reinterpret"
    whole = getattr(slab, NAME)(gl.float32, [TILES, SLICES, 16, BLOCK_M], WHOLE)

    begin = gl.program_id(0) * (tiles * 16)
    first = gl.program_id(1) * (SLICES * EACH)
    left_n = gl.minimum(N - begin, tiles * 16)
    left_k = K - first
    slice = gl.arange(0, SLICES, layout=gl.SliceLayout(1, gl.SliceLayout(2, W)))[:, None, None]
    n = gl.arange(0, 16, layout=gl.SliceLayout(0, gl.SliceLayout(2, W)))[None, :, None]
    word = gl.arange(0, 16, layout=gl.SliceLayout(0, gl.SliceLayout(1, W)))[None, None, :]
    pw = q.to(gl.pointer_type(gl.int32), bitcast=True) + begin * (bn // 4) + first // 8
    pw += n * (bn // 4) + slice * (EACH // 8) + word
    own = gl.arange(0, SLICES, layout=gl.SliceLayout(1, COLUMNS))[:, None] * EACH
    column = gl.arange(0, 16, layout=gl.SliceLayout(0, COLUMNS))[None, :]
    ps = scales + begin * sn
    if zeros is not None:
        pz = zeros + begin * zn
    ring = ()
    factors = ()
    less = ()
    for ahead in gl.static_range(AHEAD):
        for piece in gl.static_range(PIECES):
            ring += (_fetched(pw, ahead, piece, slice, n, word, left_n, left_k, bn, EACH),)
            at = own + piece * 128
            factors += (
                _of_columns(ps, ahead, at, left_n, left_k, column, first, group, sn, sg),
            )  # fmt: skip
            if zeros is not None:
                less += (
                    _of_columns(pz, ahead, at, left_n, left_k, column, first, group, zn, zg),
                )  # fmt: skip

    px = x + first
    slice_x = gl.arange(0, SLICES, layout=gl.SliceLayout(1, gl.SliceLayout(2, X)))[:, None, None]
    row = gl.arange(0, BLOCK_M, layout=gl.SliceLayout(0, gl.SliceLayout(2, X)))[None, :, None]
    k = gl.arange(0, 128, layout=gl.SliceLayout(0, gl.SliceLayout(1, X)))[None, None, :]
    px += row * am + slice_x * EACH + k
    zero = gl.zeros([SLICES, 16, BLOCK_M], gl.float32, UNITS)
    ONES: gl.constexpr = 1.0 if zeros is not None else -MORE - ZERO
    ones = gl.full([SLICES, 16, 128], ONES, DOT, A)
    rows = ()
    sums = ()  # of x, or what is taken off
    for piece in gl.static_range(PIECES):
        there = (row < M) & (slice_x * EACH + piece * 128 < left_k) & (k < 128)
        own_x = gl.load(px + piece * 128, mask=there, other=0)
        rows += (_ordered(own_x, SLICES, BLOCK_M, B),)
        sums += (mma_v2(ones, rows[piece], zero),)

    t = gl.arange(0, TILES, layout=gl.SliceLayout(1, gl.SliceLayout(2, R)))[:, None, None] * 16
    t += gl.arange(0, 16, layout=gl.SliceLayout(0, gl.SliceLayout(2, R)))[None, :, None]
    m = gl.arange(0, BLOCK_M, layout=gl.SliceLayout(0, gl.SliceLayout(1, R)))[None, None, :]
    for batch in range(0, tiles, TILES):
        for tile in range(batch, gl.minimum(batch + TILES, tiles)):
            for piece in gl.static_range(PIECES):
                words, factor = ring[0], factors[0].to(gl.float32)
                after = tile + AHEAD
                fetched = _fetched(pw, after, piece, slice, n, word, left_n, left_k, bn, EACH)
                ring = followed(ring, fetched)
                at = own + piece * 128
                fetched_s = _of_columns(ps, after, at, left_n, left_k, column, first, group, sn, sg)
                factors = followed(factors, fetched_s)
                weights = _weights(words, DOT, SLICES, A)
                if zeros is not None:
                    off = less[0].to(gl.float32) + MORE
                    fetched_z = _of_columns(
                        pz, after, at, left_n, left_k, column, first, group, zn, zg
                    )
                    less = followed(less, fetched_z)
                    product = mma_v2(weights, rows[piece], zero)
                    product -= off[:, :, None] * sums[piece]
                else:
                    product = mma_v2(weights, rows[piece], sums[piece])
                if piece == 0:
                    total = product * factor[:, :, None]
                else:
                    total += product * factor[:, :, None]
            slab.index((tile - batch).to(gl.int32)).store(total)
        result = gl.sum(whole.load(SUMS), 1)
        place = batch * 16 + t
        inside = (place < left_n) & (m < M)
        wild = inside & ~(gl.abs(result) < float("inf"))
        wild = gl.reshape(wild.to(gl.int32), [TILES * 16 * BLOCK_M])
        if gl.max(wild, 0) > 0:
            result = one_by_one(
                x, q, scales, zeros, begin + place, m, inside, first,
                gl.minimum(K, first + SLICES * EACH), group, am, bn, sn, sg, zn, zg, ZERO,
            )  # fmt: skip
        p = out + gl.program_id(1) * part + (begin + place) * on + m * om
        gl.store(p, result.to(out.dtype.element_ty), mask=inside)
