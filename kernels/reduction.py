"""Many elements to one, along any axes.

The input is an index space of `kept` x `reduced` elements, each part with its own shape and strides
(see `layouts`). A block takes BLOCK_K kept indices; grid y cuts the reduced indices into parts of
`chunk`, each of which writes its own result, `part` elements after the one before.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.
# ruff: noqa: RET505

import triton
import triton.language as tl

from .arithmetic import accumulate, lowest, settled
from .arithmetic import maximum as _maximum
from .indexing import element, memory, offset, positions, span


@triton.jit
def sum(
    x, out, kept, reduced, chunk, part, kept_shape, kx, ko, reduced_shape, rx,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
    LONG: tl.constexpr,
):  # fmt: skip
    """LONG: so many steps are added one after the other, then to the whole (`accumulate`), so that
    the error of a sum does not grow with its length; 0: there are no more of them.
    """
    k, k_mask = positions(kept, BLOCK_K)
    y = tl.program_id(1).to(reduced.dtype)
    first = y * chunk
    last = first + tl.minimum(chunk, reduced - first)
    rows = offset(k, kept_shape, kx)
    total = tl.zeros([BLOCK_K, BLOCK_R], T)
    if LONG:
        lost = tl.zeros([BLOCK_K, BLOCK_R], T)
        for begin in range(first, last, BLOCK_R * LONG):
            end = begin + tl.minimum(BLOCK_R * LONG, last - begin)
            partial = tl.zeros([BLOCK_K, BLOCK_R], T)
            for start in range(begin, end, BLOCK_R):
                p, r_mask = _elements(
                    memory(x), rows, start, last, reduced_shape, rx, BLOCK_R, STEPS
                )
                mask = k_mask[:, None] & r_mask[None, :]
                partial += element(tl.load(p, mask=mask, other=0), x, T)
            total, lost = accumulate(total, lost, partial)
        total = settled(total, lost)
    else:
        for start in range(first, last, BLOCK_R):
            p, r_mask = _elements(memory(x), rows, start, last, reduced_shape, rx, BLOCK_R, STEPS)
            mask = k_mask[:, None] & r_mask[None, :]
            total += element(tl.load(p, mask=mask, other=0), x, T)
    p = out + y * part + offset(k, kept_shape, ko)
    tl.store(p, tl.sum(total, 1).to(out.dtype.element_ty), mask=k_mask)


@triton.jit
def max(
    x, out, kept, reduced, chunk, part, kept_shape, kx, ko, reduced_shape, rx,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    k, k_mask = positions(kept, BLOCK_K)
    y = tl.program_id(1).to(reduced.dtype)
    first = y * chunk
    last = first + tl.minimum(chunk, reduced - first)
    rows = offset(k, kept_shape, kx)
    largest = tl.zeros([BLOCK_K, BLOCK_R], T) + lowest(T)
    for start in range(first, last, BLOCK_R):
        p, r_mask = _elements(memory(x), rows, start, last, reduced_shape, rx, BLOCK_R, STEPS)
        mask = k_mask[:, None] & r_mask[None, :]
        value = element(tl.load(p, mask=mask, other=0), x, T)
        largest = _maximum(tl.where(mask, value, lowest(T)), largest)
    p = out + y * part + offset(k, kept_shape, ko)
    tl.store(p, tl.reduce(largest, 1, _maximum).to(out.dtype.element_ty), mask=k_mask)


@triton.jit
def _elements(
    x, rows, start, last, shape, strides, BLOCK: tl.constexpr, STEPS: tl.constexpr
):  # fmt: skip
    """Addresses of the elements from `start` on in each of `rows`, and the mask of those below
    `last`. With `STEPS` along one axis, a step's first element is reached by itself, so that
    neighbours are seen as such: a CPU loads them at once then, and a GPU would only add more.
    """
    r, mask = span(start, last, BLOCK)
    if STEPS and len(shape) == 0:
        lane = tl.arange(0, BLOCK).to(last.dtype)
        step = 1
        if len(strides) == 1:
            step = strides[0]
        p = (x + start * step) + rows[:, None]
        return p + (lane * step)[None, :], mask
    else:
        return (x + rows[:, None]) + offset(r, shape, strides)[None, :], mask
