"""Values read off rows in order, side by side: between two places, and the most frequent one."""

import triton
import triton.language as tl

from .indexing import element, memory, offset, positions


@triton.jit
def between(
    x, out, n, length, low, high, weight, from_out, shape, so, MEDIAN: tl.constexpr,
    IGNORE: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Of each row, the value that is `weight` of the way from place `low` to place `high` (MEDIAN:
    their mean). A row with nan gives nan; IGNORE: the median of what is not nan.
    """
    i, mask = positions(n, BLOCK)
    p = memory(x) + i * length
    last = element(tl.load(p + (length - 1), mask=mask, other=0), x, T)
    nan = last != last
    if IGNORE:
        first = i * 0
        end = first + length
        rest = length
        while rest > 0:  # the first nan
            searching = mask & (first < end)
            middle = first + (end - first) // 2
            value = element(tl.load(p + middle, mask=searching, other=0), x, T)
            number = value == value
            first = tl.where(searching & number, middle + 1, first)
            end = tl.where(searching & (number == 0), middle, end)
            rest = rest // 2
        nan = first == 0
        low = tl.maximum(first - 1, 0) // 2
        high = tl.where(nan, 0, first // 2)
    else:
        low = i * 0 + low
        high = i * 0 + high
    a = element(tl.load(p + low, mask=mask, other=0), x, T)
    b = element(tl.load(p + high, mask=mask, other=0), x, T)
    if MEDIAN:
        value = (a + b) * 0.5
    else:
        apart = b - a
        value = tl.where(weight < 0.5, a + apart * weight, b - apart * (1 - weight))
    value = tl.where((low == high) | (a == b), a, value)
    value = tl.where(nan, tl.full(value.shape, float("nan"), T), value)
    tl.store(out + from_out + offset(i, shape, so), value.to(out.dtype.element_ty), mask=mask)


@triton.jit
def mode(x, out, count, n, length, shape, so, BLOCK: tl.constexpr):
    """Of each row, the value that is there most often, the smallest of several; and how often."""
    i, mask = positions(n, BLOCK)
    p = memory(x) + i * length
    before = tl.load(p, mask=mask, other=0)
    value = before
    run = tl.zeros([BLOCK], tl.int64)
    most = tl.zeros([BLOCK], tl.int64)
    for j in range(length):
        own = tl.load(p + j, mask=mask, other=0)
        run = tl.where((own == before) & (j > 0), run + 1, 1)
        more = run > most
        most = tl.where(more, run, most)
        value = tl.where(more, own, value)
        before = own
    goal = offset(i, shape, so)
    tl.store(out + goal, element(value, x, out.dtype.element_ty), mask=mask)
    tl.store(count + goal, most, mask=mask)
