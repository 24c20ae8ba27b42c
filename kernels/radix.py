"""Rows in order by the digits of their keys, for devices whose block is one thread: it takes the
elements of its piece one after the other, so that equals stay in their order.

Each pass orders by one digit, the lowest first: pieces count their elements by digit (`count`),
sums of the counts say where each piece's elements of a digit go (`starts`), and they go there
(`move`). Keys are those of `sorting`, as unsigned numbers of so many bits as the elements have.
"""

import triton
import triton.language as tl

from .indexing import offset
from .sorting import ordered, words


@triton.jit
def digit_of(key, shift, BITS: tl.constexpr, SIGNED: tl.constexpr):
    """The digit of a key at `shift`; the keys of small types are wider than these."""
    if SIGNED:
        if key.dtype.primitive_bitwidth > BITS:
            MOST: tl.constexpr = 2 ** (BITS - 1) - 1  # nan is above all
            key = tl.minimum(tl.maximum(key, -MOST - 1), MOST)
        TOP: tl.constexpr = -(2 ** (BITS - 1))
        key = key ^ tl.full((), TOP, key.dtype)
    return ((key >> shift) & 255).to(tl.int32)


@triton.jit
def _key(x, p, first, step, k, D: tl.constexpr, K: tl.constexpr, DESCENDING: tl.constexpr):
    """The key of element `k`: made of it, or read from where the pass before left it."""
    if x is None:
        return tl.load(p + first + k)
    else:
        return ordered(tl.load(words(x) + first + k * step), D, K, DESCENDING)


@triton.jit
def count(
    x, keys, counts, n, pieces, chunk, shift, shape, sx, cx,
    D: tl.constexpr, K: tl.constexpr, DESCENDING: tl.constexpr, BITS: tl.constexpr,
    SIGNED: tl.constexpr,
):  # fmt: skip
    """How many elements of each of `pieces` pieces of a row have each digit; `x`: None, or the
    elements, of which there are no keys yet.
    """
    block = tl.program_id(0).to(n.dtype)
    row = block // pieces
    piece = block - row * pieces
    digits = tl.arange(0, 256).to(n.dtype)
    own = counts + row * (pieces * 256) + piece
    tl.store(own + digits * pieces, tl.zeros([256], tl.int32))
    first = row * n
    if x is not None:
        first = offset(row, shape, sx)
    for k in range(piece * chunk, tl.minimum(n, (piece + 1) * chunk)):
        digit = digit_of(_key(x, keys, first, cx, k, D, K, DESCENDING), shift, BITS, SIGNED)
        p = own + digit * pieces
        tl.store(p, tl.load(p) + 1)


@triton.jit
def starts(counts, length):
    """The counts of a row, of which there are `length`, by the sums of those before them."""
    own = counts + tl.program_id(0).to(length.dtype) * length
    total = tl.full((), 0, tl.int32)
    for k in range(length):
        more = tl.load(own + k)
        tl.store(own + k, total)
        total += more


@triton.jit
def move(
    x, keys, places, counts, keys_out, places_out, n, pieces, chunk, shift, shape, sx, cx,
    D: tl.constexpr, K: tl.constexpr, DESCENDING: tl.constexpr, BITS: tl.constexpr,
    SIGNED: tl.constexpr,
):  # fmt: skip
    """Each element's key and place in its row to where its digit goes."""
    block = tl.program_id(0).to(n.dtype)
    row = block // pieces
    piece = block - row * pieces
    own = counts + row * (pieces * 256) + piece
    first = row * n
    if x is not None:
        first = offset(row, shape, sx)
    for k in range(piece * chunk, tl.minimum(n, (piece + 1) * chunk)):
        key = _key(x, keys, first, cx, k, D, K, DESCENDING)
        p = own + digit_of(key, shift, BITS, SIGNED) * pieces
        goal = tl.load(p)
        tl.store(p, goal + 1)
        goal = row * n + goal
        tl.store(keys_out + goal, key)
        if x is None:
            tl.store(places_out + goal, tl.load(places + row * n + k))
        else:
            tl.store(places_out + goal, k.to(places_out.dtype.element_ty))
