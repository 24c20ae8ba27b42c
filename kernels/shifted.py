"""Convolutions for devices without matrix units, as sums of outer products: a copy of `x` has its
padding, and lies so that the same tap of neighbouring windows is read from neighbours.

Along an axis with a stride, elements that are as far apart as the stride stand together in the copy
(`split` says how many such parts there are): windows then are one apart.
"""

import triton
import triton.language as tl

from .arithmetic import accumulate, settled
from .indexing import span
from .tails import at_places


@triton.jit
def operator(value):
    """Stands for the device function that a result goes through before it is stored, with what
    stands beside it (`tails.at_places`)."""
    return value


@triton.jit
def padded(
    x, out, rows, channels, lengths, in_shape, split, along, start, sx, row_step, step,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The copy. Grid: parts of channels of samples; pieces of ROWS of their rows.

    Args:
        rows: of a part of a channel, which has `lengths`.
        split: parts along each axis: element q of part r is number q * along + r + start of x.
        sx: strides of samples, channels and three axes; `step`: from one element of a row of the
            copy to the next; `row_step`: the same of `x` without its stride.
    """
    block = tl.program_id(0).to(rows.dtype)
    r2 = block % split[2]
    rest = block // split[2]
    r1 = rest % split[1]
    rest = rest // split[1]
    r0 = rest % split[0]
    rest = rest // split[0]
    base = rest // channels * sx[0] + rest % channels * sx[1]
    first = r2 + start[2]
    # elements of a row that `x` has
    low = tl.maximum(-first + along[2] - 1, 0) // along[2]
    high = tl.maximum(tl.minimum((in_shape[2] + along[2] - 1 - first) // along[2], lengths[2]), low)
    base += (first + low * along[2]) * row_step
    lane = tl.arange(0, BLOCK).to(rows.dtype)
    begin = tl.program_id(1).to(rows.dtype) * ROWS
    for row in range(begin, begin + tl.minimum(rows - begin, ROWS)):
        goal = out + (block * rows + row) * lengths[2]
        i0 = row // lengths[1] * along[0] + r0 + start[0]
        i1 = row % lengths[1] * along[1] + r1 + start[1]
        inside = (i0 >= 0) & (i0 < in_shape[0]) & (i1 >= 0) & (i1 < in_shape[1])
        p = x + base + i0 * sx[2] + i1 * sx[3]
        # each element is stored once: threads of a block are not in order with each other
        count = tl.where(inside, high - low, 0)
        for q in range(0, count, BLOCK):
            there = lane < count - q
            value = tl.load(p + q * step + lane * step, mask=there)
            tl.store(goal + low + q + lane, value.to(out.dtype.element_ty), mask=there)
        empty = tl.where(inside, 0, lengths[2])
        for q in range(0, empty, BLOCK):
            nothing = tl.zeros([BLOCK], out.dtype.element_ty)
            tl.store(goal + q + lane, nothing, mask=lane < empty - q)
        # padding is a few elements of a row, for which a vector would go lane by lane
        zero = tl.full([], 0, out.dtype.element_ty)
        for q in range(tl.where(inside, tl.minimum(low, lengths[2]), 0)):
            tl.store(goal + q, zero)
        for q in range(tl.where(inside, high, lengths[2]), lengths[2]):
            tl.store(goal + q, zero)


@triton.jit
def _to_tap(k, dilation, split, pitch, part, SPLIT: tl.constexpr):
    """How far tap `k` along an axis is from where a window begins in the copy."""
    e = k * dilation
    if SPLIT:
        r = e % split
        return r * part + e // split * pitch
    else:
        return e * pitch


@triton.jit
def _outer(total, px, pw, mask, T: tl.constexpr, MASKED: tl.constexpr):
    """total + (column of weights at `pw`) * (line of x at `px`)."""
    w = tl.load(pw).to(T)[:, None]
    if MASKED:
        v = tl.load(px, mask=mask, other=0).to(T)[None, :]
    else:
        v = tl.load(px).to(T)[None, :]
    return tl.fma(tl.broadcast_to(w, total.shape), tl.broadcast_to(v, total.shape), total)


@triton.jit
def _line(
    total, px, pw, mask, count, near, split, part,
    T: tl.constexpr, MASKED: tl.constexpr, SPLIT: tl.constexpr, COLUMNS: tl.constexpr,
    APART: tl.constexpr,
):  # fmt: skip
    """total + the products of a line of taps, whose weights are APART; COLUMNS: how many, 0:
    `count`.
    """
    if COLUMNS:
        for k in tl.static_range(COLUMNS):
            at = px + _to_tap(k, near, split, 1, part, SPLIT)
            total = _outer(total, at, pw + k * APART, mask, T, MASKED)
    else:
        for k in range(count):
            at = px + _to_tap(k, near, split, 1, part, SPLIT)
            total = _outer(total, at, pw + k * APART, mask, T, MASKED)
    return total


@triton.jit
def _next(r, m, dilation, split, SPLIT: tl.constexpr):
    """Of the next tap along an axis, its part and its place there."""
    if SPLIT:
        r += dilation % split
        over = r >= split
        return tl.where(over, r - split, r), m + dilation // split + over.to(m.dtype)
    else:
        return r, m + dilation


@triton.jit
def _divided(i, length):
    """i // length and i % length for i from 0 to 2^22 - 1: what is half a unit from the next whole
    number is not rounded to it. Vectors of integers have no division.
    """
    whole = ((i.to(tl.float32) + 0.5) * (1.0 / length.to(tl.float32))).to(i.dtype)
    return whole, i - whole * length


@triton.jit
def _tile(
    place, tiles, out_shape, lengths, sx, so, column, FLAT: tl.constexpr, BLOCK_P: tl.constexpr
):
    """Where the positions of a tile begin in a channel of the copy, which of them there are, and
    their places in a channel of the result: a number, and what is added to it.
    """
    lane = tl.arange(0, BLOCK_P).to(place.dtype)
    if FLAT:
        start = place * BLOCK_P
        # of the first position by numbers, of the others by what they are behind it
        rest = start // lengths[2]
        over, o2 = _divided(start % lengths[2] + lane, lengths[2])
        over, o1 = _divided(rest % lengths[1] + over, lengths[1])
        o0 = rest // lengths[1] + over
        mask = (o2 < out_shape[2]) & (o1 < out_shape[1]) & (o0 < out_shape[0])
        goal, behind = place * 0, o0 * so[2] + o1 * so[3] + o2 * column
    else:
        first = place % tiles * BLOCK_P
        o0, o1 = place // tiles // out_shape[1], place // tiles % out_shape[1]
        start = o0 * sx[2] + o1 * sx[3] + first
        mask = lane < out_shape[2] - first
        goal, behind = o0 * so[2] + o1 * so[3] + first * column, lane * column
    return start, mask, goal, behind


@triton.jit
def _sums(
    px, pw, mask, channels, chunk, taps, kernel, dilation, near, split, sx, parts,
    T: tl.constexpr, MASKED: tl.constexpr, SPLIT: tl.constexpr, LINES: tl.constexpr,
    COLUMNS: tl.constexpr, APART: tl.constexpr, ONCE: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """The sums of a tile, whose windows begin at `px` in the first channel."""
    zero = channels * 0
    total = tl.zeros([BLOCK_C, BLOCK_P], T)
    lost = tl.zeros([BLOCK_C, BLOCK_P], T)
    for number in range((channels + chunk - 1) // chunk):
        begin = number * chunk
        end = begin + tl.minimum(channels - begin, chunk)
        partial = tl.zeros([BLOCK_C, BLOCK_P], T)
        for channel in range(begin, end):
            to_x, to_w = channel * sx[1], channel * taps
            if LINES:
                for line in tl.static_range(LINES):
                    to_row = _to_tap(line, dilation[1], split[1], sx[3], parts[1], SPLIT)
                    partial = _line(
                        partial, px + (to_x + to_row), pw + (to_w + line * COLUMNS) * APART,
                        mask, kernel[2], near, split[2], parts[2], T, MASKED, SPLIT, COLUMNS, APART,
                    )  # fmt: skip
            else:
                r0, m0 = zero, zero
                for _ in range(kernel[0]):
                    r1, m1 = zero, zero
                    for _ in range(kernel[1]):
                        to_row = r0 * parts[0] + m0 * sx[2] + r1 * parts[1] + m1 * sx[3]
                        partial = _line(
                            partial, px + (to_x + to_row), pw + to_w * APART, mask, kernel[2], near,
                            split[2], parts[2], T, MASKED, SPLIT, COLUMNS, APART,
                        )  # fmt: skip
                        to_w += kernel[2]
                        r1, m1 = _next(r1, m1, dilation[1], split[1], SPLIT)
                    r0, m0 = _next(r0, m0, dilation[0], split[0], SPLIT)
        if ONCE:
            total += partial
        else:
            total, lost = accumulate(total, lost, partial)
    return total if ONCE else settled(total, lost)


@triton.jit
def shifted(
    x, weight, bias, out, samples, groups, rows, channels, chunk, tiles, steps, out_shape, lengths,
    kernel, dilation, near, split, from_x, from_out, sx, parts, so, column,
    c, d, e, sc, sd, se, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    T: tl.constexpr, FLAT: tl.constexpr, MASKED: tl.constexpr, SPLIT: tl.constexpr,
    LINES: tl.constexpr, COLUMNS: tl.constexpr, TOGETHER: tl.constexpr, ONCE: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """The convolution of the copy, by weights in C order: a tile of the result stays in registers,
    and takes one weight of each row and one line of `x` at a time.

    Args:
        chunk: channels that are added one after the other.
        tiles: of positions, of a sample (FLAT), or of a row of it; a block takes `steps` of a
            sample, one after the other.
        lengths: of the copy.
        sx: strides of samples, channels and the first two axes of the copy; `parts`: of the parts
            of three axes.
        near: `dilation` of the last axis.
        so: strides of samples, channels and the first two axes; `column`: of the last one.
        FLAT: a tile's positions go on in the next row; else they are of one row.
        MASKED: `x` has no room behind it, and is read no further than to its end.
        LINES: lines of taps, along the second axis alone; 0: as `kernel` says.
        COLUMNS: taps of a line; 0: the same.
        TOGETHER: the weights of a tile's rows lie side by side, tap by tap; there are no rows more.
        ONCE: no more than `chunk` channels.
    """
    block = tl.program_id(0).to(rows.dtype)
    row_tiles = tl.cdiv(rows, BLOCK_C) * groups
    per_sample = tiles if FLAT else tiles * out_shape[0] * out_shape[1]
    # blocks of the same positions follow each other
    tile_c, batch = block % row_tiles, block // row_tiles
    group = tile_c // tl.cdiv(rows, BLOCK_C)
    row, row_mask = span(tile_c % tl.cdiv(rows, BLOCK_C) * BLOCK_C, rows, BLOCK_C)
    batches = (per_sample + (steps - 1)) // steps
    sample, begin = batch // batches, batch % batches * steps
    # rows past the end are those of the last one, and never stored
    if LINES:
        taps = LINES * COLUMNS
    else:
        taps = kernel[0] * kernel[1] * kernel[2]
    if TOGETHER:
        APART: tl.constexpr = BLOCK_C
        pw = weight + (group * rows + tile_c % tl.cdiv(rows, BLOCK_C) * BLOCK_C) * (channels * taps)
        pw += tl.arange(0, BLOCK_C)
    else:
        APART: tl.constexpr = 1
        pw = weight + (group * rows + tl.minimum(row, rows - 1)) * (channels * taps)
    px = x + sample * sx[0] + group * channels * sx[1] + from_x
    added = tl.zeros([BLOCK_C], T)
    if bias is not None:
        added = tl.load(bias + group * rows + row, mask=row_mask, other=0).to(T)
    channel_out = (group * rows + row)[:, None]
    to_row = (group * rows + row) * so[1]
    lane = tl.arange(0, BLOCK_P).to(rows.dtype)
    for place in range(begin, begin + tl.minimum(per_sample - begin, steps)):
        start, mask, goal, behind = _tile(
            place, tiles, out_shape, lengths, sx, so, column, FLAT, BLOCK_P
        )
        total = _sums(
            px + start + lane, pw, mask, channels, chunk, taps, kernel, dilation, near, split, sx,
            parts, T, MASKED, SPLIT, LINES, COLUMNS, APART, ONCE, BLOCK_C, BLOCK_P,
        )  # fmt: skip
        if bias is not None:
            total += added[:, None]
        goal += from_out + sample * so[0]
        places = (goal + behind)[None, :] + to_row[:, None]
        both = row_mask[:, None] & mask[None, :]
        found = at_places(total, c, d, e, sc, sd, se, C, D, E, places, channel_out, both)
        # one after the other, so that neighbours are seen to lie side by side
        target = (out + goal + to_row)[:, None] + behind[None, :]
        tl.store(target, operator(*found).to(out.dtype.element_ty), mask=both)
