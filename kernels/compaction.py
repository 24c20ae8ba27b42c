"""Elements that are set, one behind the other, in the order of their indices.

The elements are cut into chunks. `tally` counts what is set in each, `running` makes of the counts
the places where chunks begin and the number of all, and the others write. Set is what is not zero
(nan is not), or, of keys in order (NEW), what differs from its neighbour before it.
"""

import triton
import triton.language as tl

from .indexing import offset
from .sorting import same, words


@triton.jit
def _set(x, i, mask, shape, sx, NEW: tl.constexpr):
    if NEW:
        own = tl.load(x + i, mask=mask, other=0)
        before = tl.load(x + i - 1, mask=mask & (i > 0), other=0)
        return mask & ((i == 0) | (own != before))
    else:
        D: tl.constexpr = x.dtype.element_ty
        bits = tl.load(words(x) + offset(i, shape, sx), mask=mask, other=0)
        if D.is_floating():
            MOST: tl.constexpr = 2 ** (D.primitive_bitwidth - 1) - 1
            bits = bits & tl.full((), MOST, bits.dtype)
        return mask & (bits != 0)


@triton.jit
def tally(x, ends, n, chunk, shape, sx, NEW: tl.constexpr, BLOCK: tl.constexpr):
    piece = tl.program_id(0).to(n.dtype)
    first = piece * chunk
    last = first + tl.minimum(chunk, n - first)
    lane = tl.arange(0, BLOCK).to(n.dtype)
    found = tl.zeros([BLOCK], tl.int64)
    for start in range(first, last, BLOCK):
        mask = lane < last - start
        found += _set(x, start + lane, mask, shape, sx, NEW).to(tl.int64)
    tl.store(ends + piece, tl.sum(found, 0))


@triton.jit
def running(ends, count, pieces, BLOCK: tl.constexpr):
    """One block: each count becomes the sum of those before it."""
    lane = tl.arange(0, BLOCK).to(pieces.dtype)
    carry = tl.full((), 0, tl.int64)
    for start in range(0, pieces, BLOCK):
        mask = lane < pieces - start
        own = tl.load(ends + start + lane, mask=mask, other=0)
        tl.store(ends + start + lane, carry + tl.cumsum(own, 0) - own, mask=mask)
        carry += tl.sum(own, 0)
    tl.store(count, carry)


@triton.jit
def _coordinates(out, place, i, mask, lengths):
    """The index of element `i` along each axis, as a row of `out`."""
    rest = i.to(tl.int64)
    for axis in tl.static_range(len(lengths) - 1, -1, -1):
        if axis > 0:
            own = rest % lengths[axis]
            rest = rest // lengths[axis]
        else:
            own = rest
        tl.store(out + place * len(lengths) + axis, own.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _piece(ends, n, chunk, BLOCK: tl.constexpr):
    """This block's piece of the elements: its ends, the lanes of a step, and the place of its first
    result.
    """
    piece = tl.program_id(0).to(n.dtype)
    first = piece * chunk
    last = first + tl.minimum(chunk, n - first)
    lane = tl.arange(0, BLOCK).to(n.dtype)
    return first, last, lane, tl.load(ends + piece)


@triton.jit
def where(
    x, ends, out, n, chunk, shape, sx, lengths, BLOCK: tl.constexpr,
):  # fmt: skip
    """The indices of what is set, a row for each; `lengths`: of all axes."""
    first, last, lane, place = _piece(ends, n, chunk, BLOCK)
    for start in range(first, last, BLOCK):
        chosen = _set(x, start + lane, lane < last - start, shape, sx, False)
        ones = chosen.to(tl.int64)
        _coordinates(out, place + tl.cumsum(ones, 0) - ones, start + lane, chosen, lengths)
        place += tl.sum(ones, 0)


@triton.jit
def select(
    mask, x, ends, out, n, chunk, shape, sm, sx, BLOCK: tl.constexpr,
):  # fmt: skip
    """The elements of `x` where `mask` is set."""
    first, last, lane, place = _piece(ends, n, chunk, BLOCK)
    for start in range(first, last, BLOCK):
        i = start + lane
        chosen = _set(mask, i, lane < last - start, shape, sm, False)
        ones = chosen.to(tl.int64)
        bits = tl.load(words(x) + offset(i, shape, sx), mask=chosen, other=0)
        goal = words(out) + place + tl.cumsum(ones, 0) - ones
        tl.store(goal, same(bits, x.dtype.element_ty), mask=chosen)
        place += tl.sum(ones, 0)


@triton.jit
def masked_scatter(
    mask, x, source, ends, out, n, chunk, given, shape, sm, sx, so, BLOCK: tl.constexpr,
):  # fmt: skip
    """Elements of `x`; where `mask` is set those of `source` in their order, `given` of them."""
    first, last, lane, place = _piece(ends, n, chunk, BLOCK)
    for start in range(first, last, BLOCK):
        i = start + lane
        inside = lane < last - start
        chosen = _set(mask, i, inside, shape, sm, False)
        ones = chosen.to(tl.int64)
        at = place + tl.cumsum(ones, 0) - ones
        there = chosen & (at < given)
        old = tl.load(words(x) + offset(i, shape, sx), mask=inside, other=0)
        new = tl.load(words(source) + at, mask=there, other=0)
        bits = same(tl.where(there, new, old), x.dtype.element_ty)
        tl.store(words(out) + offset(i, shape, so), bits, mask=inside)
        place += tl.sum(ones, 0)


@triton.jit
def unique(
    keys, places, x, ends, values, inverse, starts, n, chunk, BLOCK: tl.constexpr,
):  # fmt: skip
    """Of keys in order that stand for the elements of `x` in `places`: the first of each group of
    equals, the group of each element, and where each group begins.
    """
    piece = tl.program_id(0).to(n.dtype)
    first = piece * chunk
    last = first + tl.minimum(chunk, n - first)
    lane = tl.arange(0, BLOCK).to(n.dtype)
    group = tl.load(ends + piece) - 1
    for start in range(first, last, BLOCK):
        i = start + lane
        mask = lane < last - start
        new = _set(keys, i, mask, (), (), True)
        own = group + tl.cumsum(new.to(tl.int64), 0)
        at = tl.load(places + i, mask=mask, other=0).to(n.dtype)
        bits = tl.load(words(x) + at, mask=new, other=0)
        tl.store(words(values) + own, same(bits, x.dtype.element_ty), mask=new)
        if inverse is not None:
            tl.store(inverse + at, own, mask=mask)
        if starts is not None:
            tl.store(starts + own, i.to(tl.int64), mask=new)
        group += tl.sum(new.to(tl.int64), 0)


@triton.jit
def sizes(starts, count, out, n, BLOCK: tl.constexpr):
    """How many elements each of `count` groups has."""
    lane = tl.arange(0, BLOCK).to(n.dtype)
    i = tl.program_id(0).to(n.dtype) * BLOCK + lane
    groups = tl.load(count)
    mask = i < groups
    first = tl.load(starts + i, mask=mask, other=0)
    last = tl.load(starts + i + 1, mask=i + 1 < groups, other=0)
    tl.store(out + i, tl.where(i + 1 < groups, last, n.to(tl.int64)) - first, mask=mask)
