"""Few rows times the transpose of a matrix of few bits, whose weights are read once, and in long
pieces: they are the first operand of a product, whose columns are the rows of x.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl


@triton.jit
def _pair(words, SHIFT: tl.constexpr, BASE: tl.constexpr, T: tl.constexpr, PTX: tl.constexpr):
    """Numbers SHIFT / 4 and SHIFT / 4 + 4 of each word as BASE more in a half type, side by side:
    with the bits of BASE (128, 1024) around them they are the lowest digits.
    """
    if PTX:  # one instruction: the compiler would take the halves apart and need four
        both = tl.inline_asm_elementwise(
            "lop3.b32 $0, $1, 0x000F000F, $2, 0xEA;", "=r,r,r", [words >> SHIFT, BASE],
            dtype=tl.int32, is_pure=True, pack=1,
        )  # fmt: skip
    else:
        both = ((words >> SHIFT) & 0x000F000F) | BASE
    low = (both & 0xFFFF).to(tl.int16).to(T, bitcast=True)
    high = ((both >> 16) & 0xFFFF).to(tl.int16).to(T, bitcast=True)
    return tl.reshape(tl.join(low, high), [words.shape[0], words.shape[1] * 2])


@triton.jit
def _unpacked(words, LESS: tl.constexpr, T: tl.constexpr, PTX: tl.constexpr):
    """The numbers of 4 bits of words, less LESS, in the order of `_ordered`."""
    BASE: tl.constexpr = 0x43004300 if T.name == "bf16" else 0x64006400
    MORE: tl.constexpr = 128.0 if T.name == "bf16" else 1024.0
    first = tl.join(_pair(words, 0, BASE, T, PTX), _pair(words, 8, BASE, T, PTX))
    second = tl.join(_pair(words, 4, BASE, T, PTX), _pair(words, 12, BASE, T, PTX))
    four = tl.permute(tl.join(first, second), [0, 2, 3, 1])
    value = tl.reshape(four, [words.shape[0], words.shape[1] * 8])
    return (value - (MORE + LESS)).to(T)


@triton.jit
def _ordered(x):
    """Rows of numbers of which those of the same place in their words come after each other, each
    with the one four places on.
    """
    WORDS: tl.constexpr = x.shape[1] // 8
    x = tl.permute(tl.reshape(x, [x.shape[0], WORDS, 2, 4]), [0, 3, 1, 2])
    return tl.reshape(x, [x.shape[0], WORDS * 8])


@triton.jit
def _widened(bits, LESS: tl.constexpr, SIGNED: tl.constexpr, T: tl.constexpr):
    """Numbers of 8 bits less LESS: as the lowest digits of 2**23, without slow conversions."""
    word = bits.to(tl.int32) & 255
    if SIGNED:
        word = word ^ 128
        MORE: tl.constexpr = 8388608.0 + 128 + LESS
    else:
        MORE: tl.constexpr = 8388608.0 + LESS
    return ((word | 0x4B000000).to(tl.float32, bitcast=True) - MORE).to(T)


@triton.jit
def _one_by_one(
    x, q, scales, zeros, first, last, group, am, bn, sn, sg, zn, zg, n, n_mask, m, m_mask,
    BITS: tl.constexpr, ZERO: tl.constexpr,
):  # fmt: skip
    """The sums with weights that are multiplied by their scales: 0 times infinity is nan."""
    total = tl.zeros([n.shape[0], m.shape[0]], tl.float32)
    for k in range(first, last):
        if BITS == 4:
            w = tl.load(q + n * bn + k // 2, mask=n_mask, other=0).to(tl.int32)
            w = (w >> (k % 2 * 4)) & 15
        else:
            w = tl.load(q + n * bn + k, mask=n_mask, other=0).to(tl.int32)
        if zeros is not None:
            zero = tl.load(zeros + n * zn + k // group * zg, mask=n_mask, other=0).to(tl.int32)
        else:
            zero = ZERO
        s = tl.load(scales + n * sn + k // group * sg, mask=n_mask, other=0).to(tl.float32)
        weight = (w - zero).to(tl.float32) * s
        column = tl.load(x + m * am + k, mask=m_mask, other=0).to(tl.float32)
        total += weight[:, None] * column[None, :]
    return total


@triton.jit
def matmul(
    x, q, scales, zeros, out, M, N, K, group, chunk, part, am, bn, sn, sg, zn, zg, om, on,
    BITS: tl.constexpr, SIGNED: tl.constexpr, ZERO: tl.constexpr, DOT: tl.constexpr,
    SLICES: tl.constexpr, SHARED: tl.constexpr, PTX: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """x @ ((q - zeros) * scales).T for no more rows of x than BLOCK_M, rows of x and of q being
    contiguous, those of q at multiples of 16 bytes. BLOCK_K divides K and `group`.

    Steps of BLOCK_K go round SLICES groups of warps; grid y cuts K into parts of `chunk` steps of
    all of them, whose results lie `part` apart. SHARED: x is read from shared memory by the matrix
    units, as Hopper's want it, not from registers. PTX: for NVIDIA.
    """
    STEP: tl.constexpr = BLOCK_K * SLICES
    PACKED: tl.constexpr = BLOCK_K // 8 if BITS == 4 else BLOCK_K
    LESS: tl.constexpr = 0 if zeros is not None else ZERO
    n = tl.program_id(0).to(K.dtype) * BLOCK_N + tl.arange(0, BLOCK_N).to(K.dtype)
    n_mask = n < N
    m = tl.arange(0, BLOCK_M).to(K.dtype)
    m_mask = m < M
    lane = tl.arange(0, PACKED)
    slice = tl.arange(0, SLICES).to(K.dtype)
    if SHARED and BITS == 4:
        # pairs of numbers are four bytes, the least that comes without registers
        k = tl.arange(0, BLOCK_K)
        k = tl.max_contiguous(k % (BLOCK_K // 4) // 2 * 8 + k // (BLOCK_K // 4) * 2 + k % 2, [2])
    else:
        k = tl.arange(0, BLOCK_K)
    y = tl.program_id(1).to(K.dtype)
    first = y * chunk * STEP
    last = tl.minimum(first + chunk * STEP, K)
    if BITS == 4:
        words = q.to(tl.pointer_type(tl.int32), bitcast=True)
        pq = words + (n * (bn // 4))[None, :, None] + lane[None, None, :]
        pq += (slice * PACKED)[:, None, None]
    else:
        pq = q + (n * bn)[None, :, None] + lane[None, None, :] + (slice * PACKED)[:, None, None]
    px = x + (m * am)[None, :, None] + k[None, None, :] + (slice * BLOCK_K)[:, None, None]
    inside_n, inside_m = n_mask[None, :, None], m_mask[None, :, None]
    at = first + slice * BLOCK_K
    s_mask = n_mask[None, :] & (at < last)[:, None]
    ps = scales + (n * sn)[None, :]
    s = tl.load(ps + (at // group * sg)[:, None], mask=s_mask, other=0)
    if zeros is not None:
        pz = zeros + (n * zn)[None, :]
        zero = tl.load(pz + (at // group * zg)[:, None], mask=s_mask, other=0)
    wild = tl.zeros([SLICES, BLOCK_N], tl.int32)
    if SLICES == 1:
        total = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    else:
        total = tl.zeros([SLICES, BLOCK_N, BLOCK_M], tl.float32)
    for start in range(first, last, STEP):
        here = (start + slice * BLOCK_K < last)[:, None, None]
        if BITS == 4:
            w = tl.load(pq + start // 8, mask=inside_n & here, other=0)
        else:
            w = tl.load(pq + start, mask=inside_n & here, other=0)
        z = tl.load(px + start, mask=inside_m & here, other=0)
        # those of the next step: one that is waited for here would cost most of the time
        at = start + STEP + slice * BLOCK_K
        s_mask = n_mask[None, :] & (at < last)[:, None]
        next_s = tl.load(ps + (at // group * sg)[:, None], mask=s_mask, other=0)
        if zeros is not None:
            next_zero = tl.load(pz + (at // group * zg)[:, None], mask=s_mask, other=0)
        w = tl.reshape(w, [SLICES * BLOCK_N, PACKED])
        z = tl.reshape(z, [SLICES * BLOCK_M, BLOCK_K])
        if BITS == 4:
            if SHARED:
                w = _unpacked_in_order(w, LESS, DOT)
            else:
                w = _unpacked(w, LESS, DOT, PTX)
                z = _ordered(z)
        else:
            w = _widened(w, LESS, SIGNED, DOT)
        if zeros is not None:
            w = w - tl.reshape(zero.to(DOT), [SLICES * BLOCK_N])[:, None]
        factor = s.to(tl.float32)
        if SLICES == 1:
            sum = tl.dot(w, z.T, out_dtype=tl.float32)
            total += sum * tl.reshape(factor, [BLOCK_N])[:, None]
        else:
            w = tl.reshape(w, [SLICES, BLOCK_N, BLOCK_K])
            z = tl.permute(tl.reshape(z, [SLICES, BLOCK_M, BLOCK_K]), [0, 2, 1])
            total += tl.dot(w, z, out_dtype=tl.float32) * factor[:, :, None]
        wild = wild | (tl.abs(factor) == float("inf")).to(tl.int32)
        s = next_s
        if zeros is not None:
            zero = next_zero
    if SLICES > 1:
        total = tl.sum(total, 0)
    if tl.max(tl.max(wild, 1), 0) > 0:
        total = _one_by_one(
            x, q, scales, zeros, first, last, group, am, bn, sn, sg, zn, zg, n, n_mask, m, m_mask,
            BITS, ZERO,
        )  # fmt: skip
    p = out + y * part + (n * on)[:, None] + (m * om)[None, :]
    tl.store(p, total.to(out.dtype.element_ty), mask=n_mask[:, None] & m_mask[None, :])


@triton.jit
def _neighbours(words, SHIFT: tl.constexpr, BASE: tl.constexpr, T: tl.constexpr):
    """`_pair` of numbers SHIFT / 4 and the next."""
    both = ((((words >> SHIFT) & 0xFF) * 0x1001) & 0x000F000F) | BASE
    low = (both & 0xFFFF).to(tl.int16).to(T, bitcast=True)
    high = ((both >> 16) & 0xFFFF).to(tl.int16).to(T, bitcast=True)
    return tl.reshape(tl.join(low, high), [words.shape[0], words.shape[1] * 2])


@triton.jit
def _unpacked_in_order(words, LESS: tl.constexpr, T: tl.constexpr):
    """`_unpacked`, where neighbours stay side by side: those of the first byte of each word, then
    those of the second...
    """
    BASE: tl.constexpr = 0x43004300 if T.name == "bf16" else 0x64006400
    MORE: tl.constexpr = 128.0 if T.name == "bf16" else 1024.0
    first = tl.join(_neighbours(words, 0, BASE, T), _neighbours(words, 16, BASE, T))
    second = tl.join(_neighbours(words, 8, BASE, T), _neighbours(words, 24, BASE, T))
    four = tl.permute(tl.join(first, second), [0, 2, 3, 1])
    value = tl.reshape(four, [words.shape[0], words.shape[1] * 8])
    return (value - (MORE + LESS)).to(T)
