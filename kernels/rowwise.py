"""Parts of generated kernels over rows (`xtarget.fuse`): `BLOCK_M` rows at once, of `n`
elements each and anywhere in memory (shape and strides, see `layouts`). A number of each row is a
column of a tile.
"""

import triton
import triton.language as tl

from .indexing import element, memory, offset
from .maps import after, before, combine, combined, identity


@triton.jit
def places(p, row, shape, strides):
    """The addresses of the rows of an array."""
    return memory(p) + offset(row, shape, strides)[:, None]


@triton.jit
def number(value, own, T: tl.constexpr):
    """A number as type `T`; rounded to its own dtype first, as NumPy does."""
    return value.to(own).to(T)


@triton.jit
def taken(p, rows, column, mask, step, T: tl.constexpr):
    """Elements of the rows of `p` that are `step` apart, as type `T`."""
    return element(tl.load(rows + (column * step)[None, :], mask=mask, other=0), p, T)


@triton.jit
def spread(value, mask):
    """Numbers of rows, as a tile of the form of `mask`."""
    return tl.broadcast_to(value, mask.shape)


@triton.jit
def begun(BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, T: tl.constexpr, OP: tl.constexpr):
    """A tile of what changes nothing by `OP`."""
    if OP == "sum":
        return tl.zeros([BLOCK_M, BLOCK_N], T)
    else:
        return tl.zeros([BLOCK_M, BLOCK_N], T) + identity(T, OP)


@triton.jit
def mapped(value, centre, mask, T: tl.constexpr, MAP: tl.constexpr, OP: tl.constexpr):
    """The values that elements add to a fold in type `T`: nothing where `mask` is false."""
    own = before(value, centre, None, MAP).to(T)
    if OP == "sum":
        return tl.where(mask, own, tl.zeros_like(own))
    else:
        return tl.where(mask, own, identity(T, OP))


@triton.jit
def joined(total, value, OP: tl.constexpr):
    if OP == "sum":
        return total + value
    else:
        return combine(value, total, OP)


@triton.jit
def finished(tile, centre, count, OP: tl.constexpr, FINISH: tl.constexpr):
    """The numbers of the rows of a tile: folded by `OP`, and made a result by `FINISH`."""
    if OP == "sum":
        total = tl.sum(tile, 1)[:, None]
    else:
        total = combined(tile, OP)[:, None]
    return after(total, centre, tl.maximum(count, 0), None, FINISH)


@triton.jit
def kept(p, value, row, column, mask, shape, strides, step):
    """Store a tile, or numbers of rows (`column` is None)."""
    place = p + offset(row, shape, strides)[:, None]
    if column is not None:
        place += (column * step)[None, :]
    tl.store(place, value.to(p.dtype.element_ty), mask=mask)
