"""Sums of rows that are walked, whose error does not grow with their length."""

import triton
import triton.language as tl

from .arithmetic import accumulate, settled
from .indexing import across


@triton.jit
def products_of_rows(
    px, py, row_mask, n, cx, cy, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """The sum of the products of the elements of the rows at `px` and `py`; `py` None: of the
    elements at `px`.
    """
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for start in range(0, n, BLOCK_N):
        column, _, mask = across(start, n, row_mask, BLOCK_N)
        part = tl.load(px + (column * cx)[None, :], mask=mask, other=0).to(T)
        if py is not None:
            part *= tl.load(py + (column * cy)[None, :], mask=mask, other=0).to(T)
        total, lost = accumulate(total, lost, part)
    return tl.sum(settled(total, lost), 1)
