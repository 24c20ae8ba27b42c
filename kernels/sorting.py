"""Rows in order. What is compared are integers in the order of the elements (`ordered`), so that
all dtypes share the code: zeros of both signs are equal, and nan is after all other numbers.

Short rows are ranked: an element's place is the number of elements before it. Long rows are cut
into runs that are ranked, and runs are merged two by two: an element's place in the pair is its
place in its own run and the number of elements of the other run before it. Equals stay in the order
of their indices, whatever the direction. No lane waits for another one, and every run of the same
call gives the same.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl

from .indexing import offset, positions


@triton.jit
def words(p):
    """`p` to read and write bits: floating numbers and bool as integers of their width."""
    if p.dtype.element_ty == tl.int1:
        return p.to(tl.pointer_type(tl.int8), bitcast=True)
    elif p.dtype.element_ty.is_floating():
        if p.dtype.element_ty.primitive_bitwidth == 16:
            return p.to(tl.pointer_type(tl.int16), bitcast=True)
        elif p.dtype.element_ty.primitive_bitwidth == 32:
            return p.to(tl.pointer_type(tl.int32), bitcast=True)
        else:
            return p.to(tl.pointer_type(tl.int64), bitcast=True)
    else:
        return p


@triton.jit
def infinity(D: tl.constexpr):
    """The bits of +inf of a floating type: what is above them is nan."""
    if D.is_fp16():
        return 0x7C00
    elif D.is_bf16():
        return 0x7F80
    elif D.is_fp32():
        return 0x7F800000
    else:
        return 0x7FF0000000000000


@triton.jit
def ordered(bits, D: tl.constexpr, K: tl.constexpr, DESCENDING: tl.constexpr):
    """Integers of type `K` in the order of elements of type `D`, of which `bits` are the bits."""
    if D.is_int1():
        value = (bits != 0).to(K)
    elif D.is_floating():
        MOST: tl.constexpr = 2 ** (D.primitive_bitwidth - 1) - 1
        NAN: tl.constexpr = 2 ** (K.primitive_bitwidth - 1) - 1
        wide = bits.to(K)
        size = wide & tl.full((), MOST, K)
        value = tl.where(wide < 0, -size, size)
        value = tl.where(size > tl.full((), infinity(D), K), tl.full((), NAN, K), value)
    elif D.is_int_unsigned() and D.primitive_bitwidth == K.primitive_bitwidth:
        TOP: tl.constexpr = -(2 ** (K.primitive_bitwidth - 1))
        value = bits.to(K, bitcast=True) ^ tl.full((), TOP, K)
    else:
        value = bits.to(K)
    if DESCENDING:
        value = -1 - value
    return value


@triton.jit
def same(bits, D: tl.constexpr):
    """The bits to store: a bool that is true is 1, as a view of other memory has more of them."""
    if D.is_int1():
        return (bits != 0).to(tl.int8)
    else:
        return bits


@triton.jit
def rank(
    x, own, keys, places, out, at, m, n, tiles, cap, total, first, count, shape, sx, so, cx, co,
    DESCENDING: tl.constexpr, K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Each of `tiles` runs of BLOCK_N elements of each row in order: its first `cap` elements as
    `keys` and `places`, of which a row has `total`; or, where a row is one run, those from `first`
    on, `count` of them, as `out` and `at`. `own`: the elements' places in their row, of which there
    are `n`; None: they are in their places.
    """
    number, row_mask = positions(m * tiles, BLOCK_M)
    row = number // tiles
    tile = number - row * tiles
    start = tile * BLOCK_N
    length = tl.minimum(n - start, BLOCK_N)
    D: tl.constexpr = x.dtype.element_ty
    lane = tl.arange(0, BLOCK_N).to(n.dtype)
    px = words(x) + offset(row, shape, sx) + start * cx
    mask = row_mask[:, None] & (lane[None, :] < length[:, None])
    bits = tl.load(px[:, None] + (lane * cx)[None, :], mask=mask, other=0)
    key = ordered(bits, D, K, DESCENDING)
    place = tl.zeros([BLOCK_M, BLOCK_N], n.dtype)
    for j in range(tl.minimum(n, BLOCK_N)):
        there = row_mask & (j < length)
        other = tl.load(px + j * cx, mask=there, other=0)
        other = ordered(other, D, K, DESCENDING)[:, None]
        before = (other < key) | ((other == key) & (j < lane)[None, :])
        place += (before & there[:, None]).to(n.dtype)
    if keys is not None:
        goal = (row * total + tile * cap)[:, None] + place
        kept = mask & (place < cap)
        tl.store(keys + goal, key, mask=kept)
        i = start[:, None] + lane[None, :]
        if own is not None:
            i = tl.load(own + row[:, None] * n + i, mask=mask, other=0)
        tl.store(places + goal, i.to(places.dtype.element_ty), mask=kept)
    else:
        goal = offset(row, shape, so)[:, None] + (place - first) * co
        kept = mask & (place >= first) & (place - first < count)
        if out is not None:
            tl.store(words(out) + goal, same(bits, D), mask=kept)
        if at is not None:
            i = (place * 0 + lane[None, :]).to(at.dtype.element_ty)
            tl.store(at + goal, i, mask=kept)


@triton.jit
def merge(
    keys, places, keys_out, places_out, n, total, cap, steps, total_out, cap_out,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Runs of `cap` elements, of which a row has `total` and all rows `n`, merged two by two to
    runs of `cap_out`, which may be fewer elements than both have.
    """
    i, mask = positions(n, BLOCK)
    row = i // total
    own = i - row * total
    run = own // cap
    key = tl.load(keys + i, mask=mask, other=0)
    place = tl.load(places + i, mask=mask, other=0)
    right = run % 2 == 1
    other = tl.where(right, run - 1, run + 1) * cap
    low = i * 0
    high = tl.minimum(tl.maximum(total - other, 0), cap)
    base = keys + row * total + other
    for _ in range(steps):
        searching = low < high
        middle = low + (high - low) // 2
        there = tl.load(base + middle, mask=mask & searching, other=0)
        before = (there < key) | (right & (there == key))
        low = tl.where(searching & before, middle + 1, low)
        high = tl.where(searching & (before == 0), middle, high)
    goal = own - run * cap + low
    kept = mask & (goal < cap_out)
    goal += row * total_out + run // 2 * cap_out
    tl.store(keys_out + goal, key, mask=kept)
    tl.store(places_out + goal, place, mask=kept)


@triton.jit
def put(
    x, places, out, at, n, count, total, first, shape, sx, so, cx, co, BLOCK: tl.constexpr,
):  # fmt: skip
    """Of each row, `count` elements from the one in place `first` on, and their indices."""
    i, mask = positions(n, BLOCK)
    row = i // count
    c = i - row * count
    place = tl.load(places + row * total + first + c, mask=mask, other=0).to(n.dtype)
    goal = offset(row, shape, so) + c * co
    if out is not None:
        bits = tl.load(words(x) + offset(row, shape, sx) + place * cx, mask=mask, other=0)
        tl.store(words(out) + goal, same(bits, x.dtype.element_ty), mask=mask)
    if at is not None:
        tl.store(at + goal, place.to(at.dtype.element_ty), mask=mask)
