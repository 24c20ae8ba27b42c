"""Up to 32 rows times the transpose of a matrix of 4-bit weights for NVIDIA's sm_90, in Gluon.

One group of warps brings rows of x to shared memory, each of two others has 64 columns of the
result: weights go from memory to the registers of the matrix units and are made 16-bit numbers
there. A word's eight are multiplied in the order of `hopper_few_rows`, in which x is put for it.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from .early import ordered
from .hopper_attention import barriers
from .hopper_few_rows import followed, one_by_one

#: Numbers along K of a product, and those of a step, which is as long as a line of the cache.
_EACH: gl.constexpr = gl.constexpr(128)
_COLUMNS: gl.constexpr = gl.constexpr(64)
_X_AHEAD: gl.constexpr = gl.constexpr(4)


@gluon.constexpr_function
def _bases(*places):
    """Bases of a layout of two axes from (axis, length) pairs."""
    return [[length, 0] if axis == 0 else [0, length] for axis, length in places]


@gluon.constexpr_function
def _words():
    """The layout of 64 columns of weights, 16 words of each: a thread has four words side by side
    of columns 8 apart, as the matrix units want them.
    """
    return gl.DistributedLinearLayout(
        _bases((1, 1), (1, 2), (0, 8)),
        _bases((1, 4), (1, 8), (0, 1), (0, 2), (0, 4)),
        _bases((0, 16), (0, 32)),
        [],
        [64, 16],
    )


@gluon.constexpr_function
def _rows(rows):
    """The layout of rows of x, 64 words of two numbers each, as four warps load them: 16 bytes at
    once, and those that are to lie together in one thread.
    """
    registers = _bases((1, 1), (1, 2), (1, 16))
    warps = _bases((0, 8), (1, 32)) if rows == 16 else _bases((0, 8), (0, 16))
    if rows > 16:
        registers += _bases((1, 32))
    return gl.DistributedLinearLayout(
        registers, _bases((0, 1), (0, 2), (0, 4), (1, 4), (1, 8)), warps, [], [rows, 64]
    )


@gluon.constexpr_function
def _unpacking(half, less):
    """PTX that makes a word's numbers less `less` pairs of a half type, less $12 where there is no
    `less`: with the bits of 128 or 1024 around them they are the lowest digits.
    """
    kind, one = ("bf16x2", 0x4300) if half == "bf16" else ("f16x2", 0x6400)
    lines = [
        ".reg .b32 word, mask, base, less;",
        "mov.b32 mask, 0x000F000F;",
        f"mov.b32 base, {one * 0x10001};",
        f"mov.b32 less, {(one + (less or 0)) * 0x10001};",
    ]
    for pair in range(4):
        lines.append(f"shr.u32 word, $4, {4 * pair};")
        lines.append(f"lop3.b32 ${pair}, word, mask, base, 0xEA;")
        lines.append(f"sub.{kind} ${pair}, ${pair}, less;")
        if less is None:
            lines.append(f"sub.{kind} ${pair}, ${pair}, $12;")
    return "{ " + " ".join(lines) + " }"


@gluon.jit
def _eight(x):
    two = gl.join(x, x)
    four = gl.join(two, two)
    return gl.join(four, four)


@gluon.jit
def _weights(words, less, ZERO: gl.constexpr, T: gl.constexpr, LAYOUT: gl.constexpr):
    """The numbers of 4 bits of each word less ZERO, or `less` of each column, as the first operand
    of a product; all stay where they are.
    """
    TEXT: gl.constexpr = _unpacking(T.name, None if less is not None else ZERO)
    if less is not None:
        given = (_eight(words), _eight(less))
    else:
        given = (_eight(words),)
    OUT: gl.constexpr = "=&r,=&r,=&r,=&r" + ",r" * (8 * len(given))
    if T.name == "bf16":
        found = gl.inline_asm_elementwise(TEXT, OUT, given, gl.bfloat16, True, 8)
    else:
        found = gl.inline_asm_elementwise(TEXT, OUT, given, gl.float16, True, 8)
    found = gl.reshape(found, [_COLUMNS, 4, 4, 2, 2, 2])
    found = gl.permute(found, [0, 2, 3, 4, 1, 5])
    return gl.convert_layout(gl.reshape(found, [_COLUMNS, _EACH]), LAYOUT, assert_trivial=True)


@gluon.jit
def _twice(zero, T: gl.constexpr):
    """A number of a half type as both halves of a word."""
    bits = zero.to(T).to(gl.int16, bitcast=True).to(gl.int32) & 0xFFFF
    return bits | (bits << 16)


@gluon.jit
def _words_at(p, at, mask):
    """Words that are read once; groups of warps know of no argument that it is aligned."""
    p = gl.multiple_of(gl.max_contiguous(p + at // 8, [1, 4]), [1, 16])
    return gl.load(p, mask=mask, other=0, cache_modifier=".cg")


@gluon.jit
def _next(at, place, rest, group):
    """The next piece, its group, and how many numbers that has from there; without a division."""
    ends = rest == _EACH
    place += ends.to(place.dtype)
    return at + _EACH, place, gl.where(ends, group, rest - _EACH)


@gluon.jit
def _compute(
    x, q, scales, zeros, out, sx, full, empty, M, N, first, last, group, part, am, bn, sn, sg, zn,
    zg, om, on, GIVEN: gl.constexpr, ZERO: gl.constexpr, DOT: gl.constexpr, BLOCK_M: gl.constexpr,
    PIECES: gl.constexpr, STAGES: gl.constexpr, AHEAD: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """The result's columns of one group of warps."""
    UNITS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    A: gl.constexpr = gl.DotOperandLayout(0, UNITS, 2)
    W: gl.constexpr = _words()
    OF_W: gl.constexpr = gl.SliceLayout(1, W)
    OF_SUMS: gl.constexpr = gl.SliceLayout(1, UNITS)
    begin = (gl.program_id(0) * 2 + WHICH) * _COLUMNS
    left = N - begin
    n = gl.arange(0, _COLUMNS, OF_W)
    n_mask = n < left
    column = gl.arange(0, _COLUMNS, OF_SUMS)
    inside = column < left
    word = gl.arange(0, 16, gl.SliceLayout(0, W))
    pw = q.to(gl.pointer_type(gl.int32), bitcast=True) + begin * (bn // 4)
    pw += (n * (bn // 4))[:, None] + word[None, :]
    ps = scales + (begin + column) * sn
    pz = zeros + (begin + n) * zn
    ring = ()
    factors = ()
    less = ()
    at = first
    place = at // group
    rest = (place + 1) * group - at
    for _ahead in gl.static_range(AHEAD * PIECES):
        ring += (_words_at(pw, at, n_mask[:, None] & (at < last)),)
        factors += (gl.load(ps + place * sg, mask=inside & (at < last), other=0),)
        if GIVEN:
            less += (gl.load(pz + place * zg, mask=n_mask & (at < last), other=0),)
        at, place, rest = _next(at, place, rest, group)
    zero = gl.zeros([_COLUMNS, BLOCK_M], gl.float32, UNITS)
    total = zero
    for start in range(first, last, PIECES * _EACH):
        it = (start - first) // (PIECES * _EACH)
        stage = it % STAGES
        products = ()
        kept = ()
        now = factors
        for piece in gl.static_range(PIECES):
            if GIVEN:
                off, _ = gl.broadcast(_twice(less[0], DOT)[:, None], ring[0])
            else:
                off = None
            kept += (_weights(ring[0], off, ZERO, DOT, A),)
            if piece == 0:
                mbarrier.wait(full.index(stage), it // STAGES & 1)
            own = sx.index(stage * PIECES + piece).permute((1, 0))
            products += (warpgroup_mma(kept[piece], own, zero, use_acc=False, is_async=True),)
            ring = followed(ring, _words_at(pw, at, n_mask[:, None] & (at < last)))
            fetched = gl.load(ps + place * sg, mask=inside & (at < last), other=0)
            factors = followed(factors, fetched)
            if GIVEN:
                fetched = gl.load(pz + place * zg, mask=n_mask & (at < last), other=0)
                less = followed(less, fetched)
            at, place, rest = _next(at, place, rest, group)
            if piece > 0:
                product, _ = warpgroup_mma_wait(1, deps=[products[piece - 1], kept[piece - 1]])
                total += product * now[piece - 1].to(gl.float32)[:, None]
        product, _ = warpgroup_mma_wait(0, deps=[products[PIECES - 1], kept[PIECES - 1]])
        mbarrier.arrive(empty.index(stage), count=1)
        total += product * now[PIECES - 1].to(gl.float32)[:, None]
    m = gl.arange(0, BLOCK_M, gl.SliceLayout(0, UNITS))
    there = inside[:, None] & (m < M)[None, :]
    wild = there & ~(gl.abs(total) < float("inf"))
    if gl.max(gl.reshape(wild.to(gl.int32), [_COLUMNS * BLOCK_M]), 0) > 0:
        total = one_by_one(
            x, q, scales, zeros if GIVEN else None, (begin + column)[:, None], m[None, :], there,
            first, last, group, am, bn, sn, sg, zn, zg, ZERO,
        )  # fmt: skip
    p = out + gl.program_id(1) * part + ((begin + column) * on)[:, None] + (m * om)[None, :]
    gl.store(p, total.to(out.dtype.element_ty), mask=there)


@gluon.jit
def _row_words(px, at, last, inside):
    p = gl.multiple_of(gl.max_contiguous(px + at // 2, [1, 4]), [1, 16])
    return gl.load(p, mask=inside & (at < last), other=0)


@gluon.jit
def _chosen(a, b, TEXT: gl.constexpr):
    """Two of the four halves of words, as a word."""
    return gl.inline_asm_elementwise(TEXT, "=r,r,r", [a, b], gl.int32, True, 1)


@gluon.jit
def _ordered(words, BLOCK_M: gl.constexpr):
    """Rows of words in the order in which weights are multiplied."""
    four = gl.permute(gl.reshape(words, [BLOCK_M, 4, 4, 2, 2]), [0, 1, 2, 4, 3])
    low, high = gl.split(four)
    even = _chosen(low, high, "prmt.b32 $0, $1, $2, 0x5410;")
    odd = _chosen(low, high, "prmt.b32 $0, $1, $2, 0x7632;")
    found = gl.permute(gl.join(even, odd), [0, 2, 3, 4, 1])
    return gl.reshape(found, [BLOCK_M, _EACH // 2])


@gluon.jit
def _bring(
    x, sx, full, empty, M, first, last, am, BLOCK_M: gl.constexpr, PIECES: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """Rows of x, a step after the other, in the order in which weights are multiplied."""
    X: gl.constexpr = _rows(BLOCK_M)
    WORDS: gl.constexpr = gl.NVMMASharedLayout(128, 32, 2)
    NEW: gl.constexpr = hasattr(gl.shared_memory_descriptor, "reinterpret")  # not in Triton 3.6
    NAME: gl.constexpr = "reinterpret" if NEW else "_reinterpret"
    BARRIER: gl.constexpr = "barrier" if hasattr(gl, "barrier") else "thread_barrier"
    words = getattr(sx, NAME)(gl.int32, [STAGES * PIECES, BLOCK_M, _EACH // 2], WORDS)
    m = gl.arange(0, BLOCK_M, gl.SliceLayout(1, X))
    word = gl.arange(0, _EACH // 2, gl.SliceLayout(0, X))
    px = x.to(gl.pointer_type(gl.int32), bitcast=True) + (m * (am // 2))[:, None] + word[None, :]
    inside = (m < M)[:, None]
    rows = ()
    for piece in gl.static_range(_X_AHEAD):
        rows += (_row_words(px, first + piece * _EACH, last, inside),)
    for start in range(first, last, PIECES * _EACH):
        it = (start - first) // (PIECES * _EACH)
        stage = it % STAGES
        mbarrier.wait(empty.index(stage), it // STAGES & 1 ^ 1)
        for piece in gl.static_range(PIECES):
            words.index(stage * PIECES + piece).store(_ordered(rows[0], BLOCK_M))
            at = start + (_X_AHEAD + piece) * _EACH
            rows = followed(rows, _row_words(px, at, last, inside))
        fence_async_shared()
        getattr(gl, BARRIER)()
        mbarrier.arrive(full.index(stage), count=1)


@gluon.jit
def matmul(
    x, q, scales, zeros, out, M, N, K, group, chunk, part, am, bn, sn, sg, zn, zg, om, on,
    ZERO: gl.constexpr, DOT: gl.constexpr, BLOCK_M: gl.constexpr, PIECES: gl.constexpr,
    STAGES: gl.constexpr, AHEAD: gl.constexpr,
):  # fmt: skip
    """x @ ((q - zeros) * scales).T for no more rows of x than BLOCK_M, which are contiguous, as
    those of q are; rows of q begin at multiples of 16 bytes. K and `group` are multiples of 128.

    A step is of PIECES * 128 numbers along K. Grid y cuts K into parts of `chunk`, whose results
    lie `part` apart. STAGES: steps of x in shared memory. AHEAD: steps of weights under way.
    """
    ordered()
    LAYOUT: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    sx = gl.allocate_shared_memory(DOT, [STAGES * PIECES, BLOCK_M, _EACH], LAYOUT)
    full, empty = barriers(STAGES, 2)
    fence_async_shared()
    first = gl.program_id(1) * chunk
    last = gl.minimum(first + chunk, K)
    GIVEN: gl.constexpr = zeros is not None
    if zeros is None:
        less = scales
    else:
        less = zeros
    gl.warp_specialize(
        [
            (_compute, (
                x, q, scales, less, out, sx, full, empty, M, N, first, last, group, part, am, bn,
                sn, sg, zn, zg, om, on, GIVEN, ZERO, DOT, BLOCK_M, PIECES, STAGES, AHEAD, 0,
            )),
            (_compute, (
                x, q, scales, less, out, sx, full, empty, M, N, first, last, group, part, am, bn,
                sn, sg, zn, zg, om, on, GIVEN, ZERO, DOT, BLOCK_M, PIECES, STAGES, AHEAD, 1,
            )),
            (_bring, (x, sx, full, empty, M, first, last, am, BLOCK_M, PIECES, STAGES)),
        ],
        [4, 4],
        [200, 104],
    )  # fmt: skip
