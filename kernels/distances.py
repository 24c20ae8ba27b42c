"""Distances between the rows of matrices."""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import divide, sqrt
from .indexing import element, memory, offset, positions


@triton.jit
def _joined(total, gap, p, KIND: tl.constexpr):
    """`total` with what one more difference adds to the norm."""
    if KIND == "most":
        return tl.where((gap > total) | (gap != gap), gap, total)
    elif KIND == "count":
        return total + (gap != 0).to(total.dtype)
    elif KIND == "sum":
        return total + gap
    elif KIND == "square":
        return total + gap * gap
    else:
        return total + libdevice.pow(gap, p.to(total.dtype))


@triton.jit
def pairs(
    x, y, out, n, p, rows, columns, width, batch, sx, sy, so, xr, xk, yr, yk, orow, oc,
    KIND: tl.constexpr, CONDENSED: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The norm of x[b, i] - y[b, j] for all b, i, j: the p-th root of the sum of p-th powers, or as
    KIND says. CONDENSED: for i < j only, one after the other.
    """
    number, mask = positions(n, BLOCK)
    j = number % columns
    i = number // columns % rows
    b = number // columns // rows
    if CONDENSED:
        mask = mask & (i < j)
    px = memory(x) + offset(b, batch, sx) + i * xr
    py = memory(y) + offset(b, batch, sy) + j * yr
    total = tl.zeros([BLOCK], T)
    for k in range(width):
        one = element(tl.load(px + k.to(n.dtype) * xk, mask=mask, other=0), x, T)
        other = element(tl.load(py + k.to(n.dtype) * yk, mask=mask, other=0), y, T)
        total = _joined(total, tl.abs(one - other), p, KIND)
    if KIND == "square":
        total = sqrt(total)
    elif KIND == "power":
        total = libdevice.pow(total, divide(p.to(T) * 0 + 1, p.to(T)))
    if CONDENSED:
        goal = (i * columns - i * (i + 1) // 2 + (j - i - 1)) * oc
    else:
        goal = offset(b, batch, so) + i * orow + j * oc
    tl.store(out + goal, total.to(out.dtype.element_ty), mask=mask)
