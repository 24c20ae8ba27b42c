"""Places among elements in order, and counts by them; see `sorting` for the order.

Counts are added by atomic additions of integers, in any order; sums of weights are added for each
bin by one lane, in the order of the elements.
"""

import triton
import triton.language as tl

from .arithmetic import divide
from .indexing import element, memory, offset, positions
from .sorting import ordered


@triton.jit
def key_of(value, T: tl.constexpr, K: tl.constexpr):
    """`ordered` of values in type `T`."""
    if T.is_floating():
        if T.primitive_bitwidth == 16:
            return ordered(value.to(tl.int16, bitcast=True), T, K, False)
        elif T.primitive_bitwidth == 32:
            return ordered(value.to(tl.int32, bitcast=True), T, K, False)
        else:
            return ordered(value.to(tl.int64, bitcast=True), T, K, False)
    else:
        return ordered(value, T, K, False)


@triton.jit
def _place(
    p, x, key, mask, length, step, steps, T: tl.constexpr, K: tl.constexpr, RIGHT: tl.constexpr
):  # fmt: skip
    """The number of elements of `x` from `p` on, `length` of them `step` apart, that are before
    `key`, or with RIGHT not after it.
    """
    low = key.to(length.dtype) * 0
    high = low + length
    for _ in range(steps):
        searching = low < high
        middle = low + (high - low) // 2
        there = element(tl.load(p + middle * step, mask=mask & searching, other=0), x, T)
        there = key_of(there, T, K)
        if RIGHT:
            before = there <= key
        else:
            before = there < key
        low = tl.where(searching & before, middle + 1, low)
        high = tl.where(searching & (before == 0), middle, high)
    return low


@triton.jit
def search(
    x, values, out, n, length, step, steps, shape, sx, sv, so,
    RIGHT: tl.constexpr, FALLING: tl.constexpr, T: tl.constexpr, K: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Where each value belongs among the elements of `x`, which are in order.

    FALLING: they may fall; then it is counted from their end.
    """
    i, mask = positions(n, BLOCK)
    value = tl.load(memory(values) + offset(i, shape, sv), mask=mask, other=0)
    key = key_of(element(value, values, T), T, K)
    p = memory(x) + offset(i, shape, sx)
    if FALLING:
        end = (length - 1) * step
        some = mask & (length > 0)
        first = key_of(element(tl.load(p, mask=some, other=0), x, T), T, K)
        last = key_of(element(tl.load(p + end, mask=some, other=0), x, T), T, K)
        falls = first > last
        p += tl.where(falls, end, 0)
        step = tl.where(falls, -step, step)
        found = _place(p, x, key, mask, length, step, steps, T, K, RIGHT)
        found = tl.where(falls, length - found, found)
    else:
        found = _place(p, x, key, mask, length, step, steps, T, K, RIGHT)
    tl.store(out + offset(i, shape, so), found.to(out.dtype.element_ty), mask=mask)


@triton.jit
def histogram(
    x, edges, out, n, length, step, steps, shape, sx,
    T: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Counts of elements between neighbouring edges; the last edge belongs to the last bin."""
    i, mask = positions(n, BLOCK)
    value = element(tl.load(memory(x) + offset(i, shape, sx), mask=mask, other=0), x, T)
    key = key_of(value, T, K)
    p = memory(edges) + i * 0
    found = _place(p, edges, key, mask, length, step, steps, T, K, True) - 1
    last = key_of(element(tl.load(memory(edges) + (length - 1) * step), edges, T), T, K)
    found = tl.where(key == last, length - 2, found)
    inside = mask & (found >= 0) & (found < length - 1) & (key <= last)
    one = (found * 0 + 1).to(out.dtype.element_ty)
    tl.atomic_add(out + found, one, mask=inside, sem="relaxed")


@triton.jit
def bins(
    x, out, n, count, low, high, shape, sx, T: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Counts in `count` bins of equal width; `high` belongs to the last one."""
    i, mask = positions(n, BLOCK)
    value = element(tl.load(memory(x) + offset(i, shape, sx), mask=mask, other=0), x, T)
    inside = mask & (value >= low) & (value <= high)
    share = divide(tl.where(inside, value, low) - low, tl.zeros_like(value) + (high - low))
    found = tl.minimum((share * count.to(T)).to(n.dtype), count - 1)
    one = (found * 0 + 1).to(out.dtype.element_ty)
    tl.atomic_add(out + found, one, mask=inside, sem="relaxed")


@triton.jit
def count(x, out, n, length, shape, sx, BLOCK: tl.constexpr):
    """How often each integer below `length` is there."""
    i, mask = positions(n, BLOCK)
    value = tl.load(x + offset(i, shape, sx), mask=mask, other=0).to(tl.int64)
    # what an unsigned number of 64 bits has above the signed ones is not a bin either
    inside = mask & (value >= 0) & (value < length)
    value = tl.where(inside, value, 0)
    one = (value * 0 + 1).to(out.dtype.element_ty)
    tl.atomic_add(out + value, one, mask=inside, sem="relaxed")


@triton.jit
def sums(
    keys, places, weights, out, n, length, steps, total, shape, sw, so,
    TOP: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The sum of the weights of each integer below `length`: `keys` are the integers in order,
    where TOP of them is the key of 0, and `places` where they were.
    """
    i, mask = positions(length, BLOCK)
    key = i.to(keys.dtype.element_ty) + tl.full((), TOP, keys.dtype.element_ty)
    K: tl.constexpr = keys.dtype.element_ty
    p = keys + i * 0
    first = _place(p, keys, key, mask, total, 1, steps, K, K, False)
    last = _place(p, keys, key, mask, total, 1, steps, K, K, True)
    whole = tl.zeros([BLOCK], T)
    longest = tl.max(tl.where(mask, last - first, 0), 0)
    for k in range(longest):
        there = mask & (first + k < last)
        own = tl.load(places + first + k, mask=there, other=0).to(n.dtype)
        more = tl.load(weights + offset(own, shape, sw), mask=there, other=0).to(T)
        whole = tl.where(there, whole + more, whole)
    tl.store(out + i * so, whole.to(out.dtype.element_ty), mask=mask)


@triton.jit
def member(
    x, keys, out, n, total, steps, shape, sx, so,
    INVERT: tl.constexpr, T: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Whether each element is among the `total` keys, which are in order. nan is not a member."""
    i, mask = positions(n, BLOCK)
    value = element(tl.load(memory(x) + offset(i, shape, sx), mask=mask, other=0), x, T)
    key = key_of(value, T, K)
    found = _place(keys + i * 0, keys, key, mask, total, 1, steps, K, K, False)
    there = mask & (found < total)
    same = there & (tl.load(keys + found, mask=there, other=0) == key) & (value == value)
    if INVERT:
        same = same == 0
    tl.store(memory(out) + offset(i, shape, so), same.to(tl.int8), mask=mask)
