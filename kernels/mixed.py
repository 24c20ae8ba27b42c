"""Products with matrices of few bits, and with one matrix for each part of the rows.

Numbers of 8 and 4 bits come as integers, or as the bits of floating numbers (OCP 8-bit Floating
Point Specification 1.0; OCP Microscaling Formats 1.0). All of them are exact in half types, so that
nothing is rounded before the product is.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl

from .attention import bound, sequence_of
from .eight_bits import decoded, encoded
from .indexing import offset, positions


@triton.jit
def matmul(
    a, b, scales, zeros, a_scale, b_scale, starts, out, M, N, K, group, parts, zero,
    am, ak, be, bk, bn, sg, sn, zg, zn, ra, rb, om, on,
    KIND_A: tl.constexpr, KIND: tl.constexpr, MATRIX: tl.constexpr,
    DOT: tl.constexpr, T: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows of `a` times a matrix `b`, of which every `group` elements along K have a scale for each
    column, and perhaps a zero (else it is `zero`): no step of BLOCK_K has parts of two groups. KIND
    int4: two elements a byte, the first one in the lower half.

    With `starts`, `b` is one matrix for each of `parts` parts of the rows; rows of none get 0.
    `a_scale` and `b_scale` are factors of rows and columns.
    """
    tiles_n = tl.cdiv(N, BLOCK_N)
    block = tl.program_id(0).to(K.dtype)
    tile = block // tiles_n
    start = tile * BLOCK_M
    end = M
    first = b
    if starts is not None:
        number = sequence_of(starts, tile, parts, M, BLOCK_M)
        origin = bound(starts, number, M)
        end = bound(starts, number + 1, M)
        start = (tile - number - origin // BLOCK_M) * BLOCK_M
        start = tl.where(start < 0, M, start + origin)
        first = b + number * be
    rows = start + tl.arange(0, BLOCK_M).to(K.dtype)
    m_mask = rows < end
    n = (block - tile * tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N).to(K.dtype)
    n_mask = n < N
    lane = tl.arange(0, BLOCK_K).to(K.dtype)
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    for at in range(0, K, BLOCK_K):
        k = at + lane
        k_mask = k < K
        pa = a + (rows * am)[:, None] + (k * ak)[None, :]
        x = tl.load(pa, mask=m_mask[:, None] & k_mask[None, :], other=0)
        x = decoded(x, KIND_A).to(DOT)
        both = k_mask[:, None] & n_mask[None, :]
        if KIND == "int4":
            w = tl.load(first + (k // 2 * bk)[:, None] + (n * bn)[None, :], mask=both, other=0)
            w = (w.to(tl.int32) >> (k % 2 * 4).to(tl.int32)[:, None]) & 15
        else:
            w = tl.load(first + (k * bk)[:, None] + (n * bn)[None, :], mask=both, other=0)
            w = decoded(w, KIND)
        if scales is not None:
            if zeros is not None:
                z = tl.load(zeros + at // group * zg + n * zn, mask=n_mask, other=0)
                w = w.to(T) - z.to(T)[None, :]
            else:
                w = w.to(T) - zero
            s = tl.load(scales + at // group * sg + n * sn, mask=n_mask, other=0).to(T)
            # by a scale that is infinite a weight of 0 is nan, and the sum has to see it
            endless = tl.abs(s) == float("inf")
            w = tl.where(endless[None, :], w * s[None, :], w)
            s = tl.where(endless, tl.full(s.shape, 1, T), s)
        w = tl.where(both, w.to(DOT), tl.zeros_like(w.to(DOT)))
        if MATRIX:
            part = tl.dot(x, w, input_precision="ieee", out_dtype=T)
        else:
            part = tl.sum(x[:, :, None].to(T) * w[None, :, :].to(T), 1)
        if scales is not None:
            part = part * s[None, :]
        total += part
    if a_scale is not None:
        total = total * tl.load(a_scale + rows * ra, mask=m_mask, other=0).to(T)[:, None]
        total = total * tl.load(b_scale + n * rb, mask=n_mask, other=0).to(T)[None, :]
    p = out + (rows * om)[:, None] + (n * on)[None, :]
    tl.store(p, total.to(out.dtype.element_ty), mask=m_mask[:, None] & n_mask[None, :])


@triton.jit
def _scaled(value, power):
    """value * 2**power, for -254 <= power <= 254; no factor is subnormal."""
    half = power >> 1
    one = ((half + 127) << 23).to(tl.float32, bitcast=True)
    other = ((power - half + 127) << 23).to(tl.float32, bitcast=True)
    return value * one.to(value.dtype) * other.to(value.dtype)


@triton.jit
def mx_quantize(
    x, out, scale, n, blocks, width, shape, sx, cx, KIND: tl.constexpr, MOST: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    """For each 32 elements of a row, the power of two that takes the largest to the format's
    largest power (MOST), as its exponent + 127; and the elements by it, as bits.
    """
    i, mask = positions(n, BLOCK_M)
    row = i // blocks
    lane = tl.arange(0, 32).to(n.dtype)
    column = ((i - row * blocks) * 32)[:, None] + lane[None, :]
    inside = mask[:, None] & (column < width)
    px = x + offset(row, shape, sx)[:, None] + column * cx
    value = tl.load(px, mask=inside, other=0).to(tl.float32)
    size = value.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    top = tl.max(size, 1) >> 23  # nan and inf give 255: the block is nan
    power = tl.where(top == 255, 255, tl.maximum(top - MOST, 0))
    tl.store(scale + i, power.to(tl.uint8), mask=mask)
    code = encoded(_scaled(value, (127 - power)[:, None]), KIND)
    if KIND == "e2m1":
        pairs = tl.reshape(code, [BLOCK_M, 16, 2])
        low, high = tl.split(pairs)
        place = i[:, None] * 16 + tl.arange(0, 16).to(n.dtype)[None, :]
        tl.store(out + place, (low | (high << 4)).to(tl.uint8), mask=mask[:, None])
    else:
        place = i[:, None] * 32 + lane[None, :]
        tl.store(out + place, code.to(tl.uint8), mask=mask[:, None])


@triton.jit
def mx_dequantize(
    x, scale, out, n, columns, shape, sx, ss, so, cx, cs, co,
    KIND: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The numbers of rows of bits, and of a power of two for each 32 of them; 255 is nan."""
    i, mask = positions(n, BLOCK)
    row = i // columns
    column = i - row * columns
    step = column // 2 if KIND == "e2m1" else column
    bits = tl.load(x + offset(row, shape, sx) + step * cx, mask=mask, other=0).to(tl.int32)
    if KIND == "e2m1":
        bits = (bits >> (column % 2 * 4).to(tl.int32)) & 15
    power = tl.load(scale + offset(row, shape, ss) + column // 32 * cs, mask=mask, other=0)
    power = power.to(tl.int32)
    value = _scaled(decoded(bits, KIND).to(T), power - 127)
    value = tl.where(power == 255, float("nan"), value)
    tl.store(out + offset(row, shape, so) + column * co, value.to(out.dtype.element_ty), mask=mask)
