"""The few elements of a row that are first in order, found without putting the others in order.

What is compared are the keys of `sorting`. The key that `keep` elements of a tile are not above is
built bit by bit, by counting; nothing depends on which block runs first.
"""

import triton
import triton.language as tl

from .indexing import offset
from .sorting import ordered, words


@triton.jit
def _add(x, y):
    return x + y


@triton.jit
def _bound(key, mask, wanted, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """The smallest number that at least `wanted` of the keys are not above or, if as many are below
    one, that number; and how many keys are below it.

    Each of GROUPS groups, of which there are `wanted` at least, has a key that its largest minimum
    is not below: the number lies between the smallest key and that.
    """
    K: tl.constexpr = key.dtype
    BITS: tl.constexpr = K.primitive_bitwidth
    LEAST: tl.constexpr = -(2 ** (BITS - 1))
    MOST: tl.constexpr = 2 ** (BITS - 1) - 1
    present = tl.where(mask, key, tl.full((), MOST, K))
    groups = tl.min(tl.reshape(present, [BLOCK // GROUPS, GROUPS]), 0)
    low = tl.min(groups, 0)
    apart = low ^ tl.max(groups, 0)
    # bits that both share are known
    bit = tl.full((), BITS - 1, K)
    while (bit >= 0) & ((apart >> tl.maximum(bit, 0)) == 0):
        bit -= 1
    one = tl.full((), 1, K)
    if bit == BITS - 1:
        low = tl.full((), LEAST, K)
    else:
        low = low & ~((one << (bit + 1)) - 1)
    below = wanted * 0
    while bit >= 0:
        middle = low + (one << bit)
        count = tl.sum((mask & (key < middle)).to(tl.int32), 0).to(wanted.dtype)
        if count <= wanted:
            below = count
            low = middle
        bit = tl.where(count == wanted, bit * 0 - 1, bit - 1)
    return low, below


@triton.jit
def narrow(
    x, keys, places, keys_out, places_out, n, tiles, keep, total, shape, sx, cx,
    D: tl.constexpr, K: tl.constexpr, DESCENDING: tl.constexpr, GROUPS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Of each of `tiles` tiles of BLOCK elements of each row, the `keep` that are first in order,
    in the order of their indices; a row has `total` of all tiles.

    Args:
        x: the elements, or None: they are there as `keys` and `places`.
    """
    number = tl.program_id(0).to(n.dtype)
    row = number // tiles
    tile = number - row * tiles
    start = tile * BLOCK
    lane = tl.arange(0, BLOCK).to(n.dtype)
    mask = lane < n - start
    if x is not None:
        bits = tl.load(words(x) + offset(row, shape, sx) + (start + lane) * cx, mask=mask, other=0)
        key = ordered(bits, D, K, DESCENDING)
        place = start + lane
    else:
        key = tl.load(keys + row * n + start + lane, mask=mask, other=0)
        place = tl.load(places + row * n + start + lane, mask=mask, other=0)
    wanted = tl.minimum(keep, n - start)
    low, below = _bound(key, mask, wanted, GROUPS, BLOCK)
    less = mask & (key < low)
    same = mask & (key == low)
    # both counts in one number
    before = tl.associative_scan(less.to(tl.int32) + (same.to(tl.int32) << 16), 0, _add)
    equals = (before >> 16).to(n.dtype)
    rest = wanted - below
    taken = less | (same & (equals <= rest))
    goal = (before & 0xFFFF).to(n.dtype) + tl.minimum(equals, rest) - 1
    goal += row * total + tile * keep
    tl.store(keys_out + goal, key, mask=taken)
    tl.store(places_out + goal, place.to(places_out.dtype.element_ty), mask=taken)
