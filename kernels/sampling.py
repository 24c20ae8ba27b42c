"""Tokens drawn from rows of logits, of which the least likely are left out first."""

import triton
import triton.language as tl

from .arithmetic import exp
from .indexing import element, memory, offset, positions
from .philox import words
from .searching import key_of


@triton.jit
def _weight(p, sorted_places, x, start, count, lane, cx, top, heat, T: tl.constexpr):
    """exp((x - top) * heat) of the elements in the places from `start` on; 0 past `count`."""
    mask = lane < count - start
    place = tl.load(sorted_places + start + lane, mask=mask, other=0).to(count.dtype)
    value = element(tl.load(p + place * cx, mask=mask, other=0), x, T)
    apart = tl.where(value == top, tl.zeros_like(value), (value - top) * heat)
    return tl.where(mask & (value > float("-inf")), exp(apart), tl.zeros_like(apart))


@triton.jit
def sample(
    x, places, out, count, total, heat, top_p, min_p, seed, start, shape, sx, so, cx,
    T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row a block: of its `count` largest elements, `places` in order, those from the first one
    on until the sum of their probabilities is `top_p`, and of these the ones that are `min_p` of
    the largest. Then one of them by its probability.
    """
    row = tl.program_id(0).to(count.dtype)
    p = memory(x) + offset(row, shape, sx)
    order = places + row * total
    lane = tl.arange(0, BLOCK).to(count.dtype)
    first = tl.load(order).to(count.dtype)
    top = element(tl.load(p + first * cx), x, T)
    whole = tl.full((), 0, T)
    for begin in range(0, count, BLOCK):
        weight = _weight(p, order, x, begin, count, lane, cx, top, heat, T)
        whole += tl.sum(weight, 0)
    # what is kept is a beginning: weights do not grow
    kept = tl.full((), 0, T)
    before = tl.full((), 0, T)
    length = count * 0
    for begin in range(0, count, BLOCK):
        weight = _weight(p, order, x, begin, count, lane, cx, top, heat, T)
        so_far = before + tl.cumsum(weight, 0) - weight
        stays = (lane < count - begin) & (weight >= min_p) & (weight > 0)
        stays = stays & ((so_far < top_p * whole) | ((begin + lane) == 0))
        kept += tl.sum(tl.where(stays, weight, tl.zeros_like(weight)), 0)
        length += tl.sum(stays.to(count.dtype), 0)
        before += tl.sum(weight, 0)
    w0, _w1, _w2, _w3 = words(seed, start, row)
    goal = (w0 >> 8).to(T) * (2.0**-24) * kept
    passed = count * 0
    before = tl.full((), 0, T)
    for begin in range(0, length, BLOCK):
        weight = _weight(p, order, x, begin, count, lane, cx, top, heat, T)
        up_to = before + tl.cumsum(weight, 0)
        passed += tl.sum(((lane < length - begin) & (up_to <= goal)).to(count.dtype), 0)
        before += tl.sum(weight, 0)
    chosen = tl.load(order + tl.maximum(tl.minimum(passed, length - 1), 0))
    tl.store(out + offset(row, shape, so), chosen.to(out.dtype.element_ty))


@triton.jit
def in_top(
    x, target, out, m, n, k, shape, sx, st, so, cx,
    T: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Whether fewer than `k` elements of a row are larger than the one that the target names."""
    row, mask = positions(m, BLOCK)
    p = memory(x) + offset(row, shape, sx)
    place = tl.load(target + offset(row, shape, st), mask=mask, other=0).to(tl.int64)
    inside = mask & (place >= 0) & (place < n)
    own = element(tl.load(p + place.to(n.dtype) * cx, mask=inside, other=0), x, T)
    key = key_of(own, T, K)
    larger = row * 0
    for j in range(n):
        other = element(tl.load(p + j * cx, mask=mask, other=0), x, T)
        larger += (key_of(other, T, K) > key).to(larger.dtype)
    found = inside & (larger < k) & (own == own)
    tl.store(memory(out) + offset(row, shape, so), found.to(tl.int8), mask=mask)
