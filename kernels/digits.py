"""Rows in order by the digits of their keys, the lowest digit first: each pass moves elements so
that those of one digit lie side by side, in the order in which they were.

Tiles count their elements by digit (`tally`), sums of the counts say where each tile's elements of
a digit go (`starts`), and they go there (`move`). A tile counts 16 digits at once, in fields of few
numbers, so that one sum of these is one of all digits. Elements travel as their bits; keys are
those of `sorting`, made again in each pass.
"""

import triton
import triton.language as tl

from .indexing import offset, span
from .radix import digit_of
from .sorting import ordered, same, words


@triton.jit
def _add_four(a, b, c, d, e, f, g, h):
    return a + e, b + f, c + g, d + h


@triton.jit
def _add(x, y):
    return x + y


@triton.jit
def _tile(n, tiles):
    """This block's row and tile."""
    number = tl.program_id(0).to(n.dtype)
    row = number // tiles
    return row, number - row * tiles


@triton.jit
def _start(row, n, shape, strides):
    """Where a row begins; `strides` is None where rows lie one after the other."""
    if strides is None:
        return row * n
    else:
        return offset(row, shape, strides)


@triton.jit
def _elements(
    x, row, first, shift, n, shape, sx, cx, K: tl.constexpr, DESCENDING: tl.constexpr,
    BITS: tl.constexpr, SIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Of a tile: indices, which there are, the elements' bits, keys and digits."""
    i, mask = span(first, n, BLOCK)
    bits = tl.load(words(x) + _start(row, n, shape, sx) + i * cx, mask=mask, other=0)
    key = ordered(bits, x.dtype.element_ty, K, DESCENDING)
    return i, mask, bits, key, digit_of(key, shift, BITS, SIGNED) & 15


@triton.jit
def _four(digit, mask):
    """One in the field of 8 bits of each element's digit: four numbers, of four fields each."""
    one = mask.to(tl.int32) << ((digit & 3) * 8)
    none = tl.zeros_like(one)
    which = digit >> 2
    return (
        tl.where(which == 0, one, none),
        tl.where(which == 1, one, none),
        tl.where(which == 2, one, none),
        tl.where(which == 3, one, none),
    )


@triton.jit
def _field(a, b, c, d, digit):
    """Return what the field of a digit counts, up to 255."""
    which = digit >> 2
    low = tl.where(which == 0, a, b)
    high = tl.where(which == 2, c, d)
    return (tl.where(which < 2, low, high) >> ((digit & 3) * 8)) & 255


@triton.jit
def tally(
    x, counts, n, tiles, shift, shape, sx, cx, K: tl.constexpr, DESCENDING: tl.constexpr,
    BITS: tl.constexpr, SIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """How many elements of each of `tiles` tiles of a row have each digit."""
    row, tile = _tile(n, tiles)
    _, mask, _, _, digit = _elements(
        x, row, tile * BLOCK, shift, n, shape, sx, cx, K, DESCENDING, BITS, SIGNED, BLOCK
    )
    a, b, c, d = tl.reduce(_four(digit, mask), 0, _add_four)
    lane = tl.arange(0, 16)
    zero = tl.zeros([16], tl.int32)
    found = _field(zero + a, zero + b, zero + c, zero + d, lane)
    # 256 of one digit are 0 of it, and one of the next
    there = tl.minimum(n - tile * BLOCK, BLOCK).to(tl.int32)
    only = tl.max(tl.where(mask, digit, 0), 0)
    found = tl.where(tl.sum(found, 0) == there, found, tl.where(lane == only, there, 0))
    tl.store(counts + (row * tiles + tile) * 16 + lane, found)


@triton.jit
def sums(counts, totals, tiles, pieces, BLOCK: tl.constexpr):
    """The counts of each of `pieces` pieces of a row, of BLOCK tiles each, together."""
    number = tl.program_id(0).to(tiles.dtype)
    row = number // pieces
    i, mask = span((number - row * pieces) * BLOCK, tiles, BLOCK)
    lane = tl.arange(0, 16)
    p = counts + (row * tiles + i)[:, None] * 16 + lane[None, :]
    tl.store(totals + number * 16 + lane, tl.sum(tl.load(p, mask=mask[:, None], other=0), 0))


@triton.jit
def starts(counts, totals, tiles, pieces, BLOCK: tl.constexpr, PIECES: tl.constexpr):
    """The counts of a piece by the sums of those before them: of smaller digits, and of the same
    digit in the tiles before. `totals`: what `sums` gives; None: there is one piece.
    """
    number = tl.program_id(0).to(tiles.dtype)
    row = number // pieces
    piece = number - row * pieces
    i, mask = span(piece * BLOCK, tiles, BLOCK)
    lane = tl.arange(0, 16)
    p = counts + (row * tiles + i)[:, None] * 16 + lane[None, :]
    more = tl.load(p, mask=mask[:, None], other=0)
    before = tl.zeros([16], tl.int32)
    if totals is None:
        total = tl.sum(more, 0)
    else:
        total = before
        for first in range(0, pieces, PIECES):
            k, there = span(first, pieces, PIECES)
            own = totals + (row * pieces + k)[:, None] * 16 + lane[None, :]
            value = tl.load(own, mask=there[:, None], other=0)
            total += tl.sum(value, 0)
            before += tl.sum(tl.where((k < piece)[:, None], value, 0), 0)
    before += tl.associative_scan(total, 0, _add) - total
    tl.store(p, before[None, :] + tl.associative_scan(more, 0, _add) - more, mask=mask[:, None])


@triton.jit
def move(
    x, places, counts, out, at, n, tiles, shift, shape, sx, so, cx, co,
    K: tl.constexpr, DESCENDING: tl.constexpr, BITS: tl.constexpr, SIGNED: tl.constexpr,
    KEYS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each element to where its digit goes, as `out`, and its place in its row as `at`; each of
    them may be None.

    Where all of 256 elements are of one digit, the count of the last is 0, and one in the field of
    the next digit, for which nobody asks.

    Args:
        places: those of the elements; None: they are in their places.
        KEYS: keys go to `out` instead of elements.
    """
    tl.static_assert(BLOCK <= 256)
    row, tile = _tile(n, tiles)
    i, mask, bits, key, digit = _elements(
        x, row, tile * BLOCK, shift, n, shape, sx, cx, K, DESCENDING, BITS, SIGNED, BLOCK
    )
    a, b, c, d = tl.associative_scan(_four(digit, mask), 0, _add_four)
    goal = tl.load(counts + (row * tiles + tile) * 16 + digit, mask=mask, other=0)
    goal += (_field(a, b, c, d, digit) - 1) & 255
    goal = _start(row, n, shape, so) + goal.to(n.dtype) * co
    if out is not None:
        if KEYS:
            tl.store(out + goal, key, mask=mask)
        else:
            tl.store(words(out) + goal, same(bits, x.dtype.element_ty), mask=mask)
    if at is not None:
        if places is not None:
            place = tl.load(places + row * n + i, mask=mask, other=0)
        else:
            place = i
        tl.store(at + goal, place.to(at.dtype.element_ty), mask=mask)
