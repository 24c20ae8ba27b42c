"""Steps of a tile of a product before it is stored (`xtarget.fuse`): up to four arrays or
numbers stand beside it, each with its strides along the batch, and from row to row and column to
column of the result. Of an array that is one row for all, or one column, or one element, the other
steps mean nothing. An operand that is not there is None. One that is `places` has no memory: its
elements are what its strides come to, so that steps of 1 along an axis number that axis.
"""

import triton
import triton.language as tl

from .indexing import memory, offset


@triton.jit
def placeholder(*elements):
    """Stands for a device function that a kernel is compiled with (`Launch.source`)."""
    return elements[0]


@triton.jit
def beside(p, strides, row, column, WAY: tl.constexpr, i, batch_shape, rm, rn, mask_m, mask_n):
    """A tile of `p`, of one row or column where all of them are the same; a number as it is."""
    if WAY == "number":
        return p.to(strides)
    elif WAY == "places":
        own = (rm * row)[:, None] + (rn * column)[None, :]
        return own + offset(i, batch_shape, strides)
    else:
        first = memory(p) + offset(i, batch_shape, strides)
        if WAY == "one":
            value = tl.load(first)
        elif WAY == "row":
            value = tl.load(first + rn * column, mask=mask_n, other=0)[None, :]
        elif WAY == "column":
            value = tl.load(first + rm * row, mask=mask_m, other=0)[:, None]
        else:
            places = first + (rm * row)[:, None] + (rn * column)[None, :]
            value = tl.load(places, mask=mask_m[:, None] & mask_n[None, :], other=0)
        if p.dtype.element_ty == tl.int1:
            return value != 0
        else:
            return value


@triton.jit
def elements(
    total, c, d, e, f, sc, sd, se, sf, cm, cn, dm, dn, em, en, fm, fn,
    C: tl.constexpr, D: tl.constexpr, E: tl.constexpr, F: tl.constexpr,
    i, batch_shape, rm, rn, mask_m, mask_n,
):  # fmt: skip
    """A tile of a product, and those of what stands beside it: what `operator` takes."""
    if c is None:
        return (total,)
    else:
        c_ = beside(c, sc, cm, cn, C, i, batch_shape, rm, rn, mask_m, mask_n)
        if d is None:
            return total, c_
        else:
            d_ = beside(d, sd, dm, dn, D, i, batch_shape, rm, rn, mask_m, mask_n)
            if e is None:
                return total, c_, d_
            else:
                e_ = beside(e, se, em, en, E, i, batch_shape, rm, rn, mask_m, mask_n)
                if f is None:
                    return total, c_, d_, e_
                else:
                    f_ = beside(f, sf, fm, fn, F, i, batch_shape, rm, rn, mask_m, mask_n)
                    return total, c_, d_, e_, f_


@triton.jit
def columns_of(tile, number: tl.constexpr, PIECES: tl.constexpr):
    """The columns of a tile that are in one of 1, 2 or 4 pieces of it, as many in each."""
    if PIECES == 1:
        return tile
    else:
        left, right = _halves(tile)
        if PIECES == 2:
            return left if number == 0 else right
        else:
            first, second = _halves(left if number < 2 else right)
            return first if number % 2 == 0 else second


@triton.jit
def _halves(tile):
    split: tl.constexpr = (tile.shape[0], 2, tile.shape[1] // 2)
    return tl.split(tl.permute(tl.reshape(tile, split), (0, 2, 1)))


@triton.jit
def at_places(
    total, c, d, e, sc, sd, se, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    places, channel, mask,
):  # fmt: skip
    """Elements of a result, and what stands beside them: what `operator` takes.

    C, D, E: `number` (of the dtype `sc`), `one` element for all, `alike`: at the same places as the
    result's, or `channel`: at the number of the channel.
    """
    if c is None:
        return (total,)
    else:
        c_ = _at(c, sc, C, places, channel, mask)
        if d is None:
            return total, c_
        else:
            d_ = _at(d, sd, D, places, channel, mask)
            if e is None:
                return total, c_, d_
            else:
                return total, c_, d_, _at(e, se, E, places, channel, mask)


@triton.jit
def _at(p, dtype, WAY: tl.constexpr, places, channel, mask):
    if WAY == "number":
        return p.to(dtype)
    else:
        if WAY == "one":
            value = tl.load(memory(p))
        elif WAY == "channel":
            value = tl.load(memory(p) + tl.broadcast_to(channel, mask.shape), mask=mask, other=0)
        else:
            value = tl.load(memory(p) + places, mask=mask, other=0)
        if p.dtype.element_ty == tl.int1:
            return value != 0
        else:
            return value
