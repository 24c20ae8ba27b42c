"""Convolutions, as products of matrices that are never made.

The result of a group is (channels out) x (positions): the weights, (channels out) x (channels in *
taps), times what the windows at all positions of all samples hold. A transposed convolution is the
same with elements of `x` that are `up` apart (`windows.reach`).
"""

import triton
import triton.language as tl

from .indexing import offset, span
from .tails import at_places
from .windows import places, reach, taps


@triton.jit
def operator(value):
    """Stands for the device function that a result goes through before it is stored, with what
    stands beside it (`tails.at_places`)."""
    return value


@triton.jit
def _block(positions, groups, rows, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr):
    """Group, tile of channels, these and positions of a block: blocks of the same windows follow
    each other.
    """
    block = tl.program_id(0).to(positions.dtype)
    tiles = tl.cdiv(rows, BLOCK_C)
    within = block % (groups * tiles)
    row, row_mask = span(within % tiles * BLOCK_C, rows, BLOCK_C)
    position, mask = span(block // (groups * tiles) * BLOCK_P, positions, BLOCK_P)
    return within // tiles, within % tiles, row, row_mask, position, mask


@triton.jit
def _begin(position, out_shape, along, before):
    """The sample of a position, its place in the result, and where its window begins."""
    sample, o0, o1, o2 = places(position, out_shape)
    p0 = o0 * along[0] - before[0]
    p1 = o1 * along[1] - before[1]
    p2 = o2 * along[2] - before[2]
    return sample, (o0, o1, o2), (p0, p1, p2)


@triton.jit
def _finished(total, bias, base, rows, row_mask, mask, goal, channel_step):
    """A tile with its bias, its places in the result, the channels of these, and their mask."""
    if bias is not None:
        added = tl.load(bias + base + rows, mask=row_mask, other=0).to(total.dtype)
        total += added[:, None]
    places = (base + rows)[:, None] * channel_step + goal[None, :]
    return total, places, (base + rows)[:, None], row_mask[:, None] & mask[None, :]


@triton.jit
def _goal(sample, o, so):
    return sample * so[0] + o[0] * so[2] + o[1] * so[3] + o[2] * so[4]


@triton.jit
def direct(
    x, weight, bias, out, positions, groups, rows, channels, tap_count, out_shape, in_shape, kernel,
    along, before, dilation, from_weight, from_out, up, sx, sw, so,
    c, d, e, sc, sd, se, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    SPREAD: tl.constexpr, T: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """A convolution as a sum of outer products, one for each tap and channel: for few channels, and
    for devices without matrix units.

    Args:
        positions: of all samples.
        rows, channels: of the result and of `x`, in one group.
        sx, so: strides of samples, channels, and three axes.
        sw: strides of groups, channels of the result, channels of `x`, and three axes.
        c, d, e: what stands beside the result (`tails.at_places`).
    """
    group, _, row, row_mask, position, mask = _block(positions, groups, rows, BLOCK_C, BLOCK_P)
    sample, o, p = _begin(position, out_shape, along, before)
    total = tl.zeros([BLOCK_C, BLOCK_P], T)
    for tap in range(tap_count):
        k0, k1, k2 = taps(tap, kernel)
        place = sample * sx[0]
        inside = mask
        a0, a1, a2 = p[0] + k0 * dilation[0], p[1] + k1 * dilation[1], p[2] + k2 * dilation[2]
        place, inside = reach(place, inside, a0, in_shape[0], sx[2], up[0], SPREAD)
        place, inside = reach(place, inside, a1, in_shape[1], sx[3], up[1], SPREAD)
        place, inside = reach(place, inside, a2, in_shape[2], sx[4], up[2], SPREAD)
        pw = (
            weight
            + from_weight
            + group * sw[0]
            + row * sw[1]
            + (k0 * sw[3] + k1 * sw[4] + k2 * sw[5])
        )
        px = x + group * channels * sx[1] + place
        for channel in range(channels):
            w = tl.load(pw + channel * sw[2], mask=row_mask, other=0).to(T)[:, None]
            v = tl.load(px + channel * sx[1], mask=inside, other=0).to(T)[None, :]
            total = tl.fma(tl.broadcast_to(w, total.shape), tl.broadcast_to(v, total.shape), total)
    goal = from_out + _goal(sample, o, so)
    total, at, number, both = _finished(total, bias, group * rows, row, row_mask, mask, goal, so[1])
    found = at_places(total, c, d, e, sc, sd, se, C, D, E, at, number, both)
    tl.store(out + at, operator(*found).to(out.dtype.element_ty), mask=both)


@triton.jit
def implicit(
    x, weight, bias, out, positions, groups, rows, channels, tap_count, out_shape, in_shape, kernel,
    along, before, dilation, from_weight, from_out, up, sx, sw, so,
    c, d, e, sc, sd, se, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    SPREAD: tl.constexpr, DOT: tl.constexpr, T: tl.constexpr, BLOCK_C: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`direct` by matrix units: operands of type DOT, BLOCK_K pairs of tap and channel a step."""
    group, _, row, row_mask, position, mask = _block(positions, groups, rows, BLOCK_C, BLOCK_P)
    sample, o, p = _begin(position, out_shape, along, before)
    px = x + group * channels * sx[1] + (sample * sx[0])[None, :]
    pw = weight + from_weight + group * sw[0] + (row * sw[1])[:, None]
    total = tl.zeros([BLOCK_C, BLOCK_P], T)
    length = tap_count * channels
    for begin in range(0, length, BLOCK_K):
        number, within = span(begin, length, BLOCK_K)
        channel = number % channels
        k0, k1, k2 = taps(number // channels, kernel)
        a0 = p[0][None, :] + (k0 * dilation[0])[:, None]
        a1 = p[1][None, :] + (k1 * dilation[1])[:, None]
        a2 = p[2][None, :] + (k2 * dilation[2])[:, None]
        place = tl.broadcast_to((channel * sx[1])[:, None], a2.shape)
        inside = within[:, None] & mask[None, :]
        place, inside = reach(place, inside, a0, in_shape[0], sx[2], up[0], SPREAD)
        place, inside = reach(place, inside, a1, in_shape[1], sx[3], up[1], SPREAD)
        place, inside = reach(place, inside, a2, in_shape[2], sx[4], up[2], SPREAD)
        v = tl.load(px + place, mask=inside, other=0).to(DOT)
        step = channel * sw[2] + k0 * sw[3] + k1 * sw[4] + k2 * sw[5]
        w_mask = row_mask[:, None] & within[None, :]
        w = tl.load(pw + step[None, :], mask=w_mask, other=0).to(DOT)
        total = tl.dot(w, v, total, input_precision="ieee", out_dtype=T)
    goal = from_out + _goal(sample, o, so)
    total, at, number, both = _finished(total, bias, group * rows, row, row_mask, mask, goal, so[1])
    found = at_places(total, c, d, e, sc, sd, se, C, D, E, at, number, both)
    tl.store(out + at, operator(*found).to(out.dtype.element_ty), mask=both)


@triton.jit
def _next(k, kernel, AXES: tl.constexpr):
    """The tap behind `k`, of windows over the last AXES axes, and whether it is the first again."""
    k0, k1, k2 = k
    k2 += 1
    over = k2 == kernel[2]
    k2 = tl.where(over, 0, k2)
    if AXES > 1:
        k1 += over.to(k1.dtype)
        over = k1 == kernel[1]
        k1 = tl.where(over, 0, k1)
    if AXES > 2:
        k0 += over.to(k0.dtype)
        over = k0 == kernel[0]
        k0 = tl.where(over, 0, k0)
    return (k0, k1, k2), over


@triton.jit
def _unsigned(i):
    """Return `i` as unsigned: a negative one is large, so one comparison serves both ends."""
    if i.dtype == tl.int64:
        return i.to(tl.uint64)
    else:
        return i.to(tl.uint32)


@triton.jit
def within(o, k, mask, in_shape, along, before, dilation, AXES: tl.constexpr):
    """Return which elements tap `k` of windows `o` finds inside of `x`."""
    for axis in tl.static_range(3 - AXES, 3):
        at = o[axis] * along[axis] - before[axis] + k[axis] * dilation[axis]
        mask = mask & (_unsigned(at) < _unsigned(in_shape[axis].to(at.dtype)))
    return mask


@triton.jit
def windows_of(position, out_shape, AXES: tl.constexpr):
    """`places` of positions, where only the last AXES axes have more than one."""
    o2 = position % out_shape[2]
    rest = position // out_shape[2]
    o1, o0 = rest * 0, rest * 0
    if AXES > 1:
        o1 = rest % out_shape[1]
        rest = rest // out_shape[1]
    if AXES > 2:
        o0 = rest % out_shape[0]
        rest = rest // out_shape[0]
    return rest, (o0, o1, o2)


@triton.jit
def beginning(sample, o, along, before, sx, AXES: tl.constexpr):
    """Where windows begin, outside of `x` or not."""
    first = sample * sx[0]
    for axis in tl.static_range(3 - AXES, 3):
        first += (o[axis] * along[axis] - before[axis]) * sx[axis + 1]
    return first


@triton.jit
def tapped(
    x, weight, bias, out, positions, groups, rows, channels, tap_count, out_shape, in_shape, kernel,
    along, before, dilation, from_weight, from_out, sx, sw, goal_shape, so, wr, wc, oc,
    c, d, e, sc, sd, se, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    DOT: tl.constexpr, T: tl.constexpr, AXES: tl.constexpr, EVEN: tl.constexpr,
    DESCRIBED: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A convolution of `x` whose channels lie side by side, as the product of a matrix of windows
    that is never made, by the weights: a step takes BLOCK_K channels of one tap.

    Args:
        positions: of all samples.
        rows, channels: of the result and of `x`, in one group.
        sx: strides of samples and of three axes.
        sw: strides of groups, and of three axes of taps; `wr`, `wc`: of the weights' rows and
            channels.
        goal_shape, so: where a position is in the result; `oc`: from channel to channel.
        AXES: so many of the last axes have windows.
        EVEN: BLOCK_K divides `channels`.
        DESCRIBED: a copy engine fetches the weights, whose rows have channels of tap after tap side
            by side: for EVEN only.
    """
    group, tile, row, row_mask, position, mask = _block(positions, groups, rows, BLOCK_C, BLOCK_P)
    sample, o = windows_of(position, out_shape, AXES)
    channel = tl.arange(0, BLOCK_K).to(channels.dtype)
    first = beginning(sample, o, along, before, sx, AXES)
    px = x + group * channels + first[:, None] + channel[None, :]
    pw = weight + from_weight + group * sw[0] + (channel * wc)[:, None] + (row * wr)[None, :]
    if DESCRIBED:
        length = tap_count * channels
        shape = [(groups * rows).to(tl.int32), length.to(tl.int32)]
        described = tl.make_tensor_descriptor(
            weight, shape, [length.to(tl.int64), 1], [BLOCK_C, BLOCK_K]
        )
        line = (group * rows + tile * BLOCK_C).to(tl.int32)
    total = tl.zeros([BLOCK_P, BLOCK_C], T)
    zero = channels * 0
    begin, number, k = zero, zero, (zero, zero, zero)
    # all taps of some channels, then those of the next ones: windows overlap
    for _ in range(tap_count * tl.cdiv(channels, BLOCK_K)):
        inside = within(o, k, mask, in_shape, along, before, dilation, AXES)
        to_x, to_w = begin, begin * wc
        for axis in tl.static_range(3 - AXES, 3):
            to_x += k[axis] * dilation[axis] * sx[axis + 1]
            to_w += k[axis] * sw[axis + 1]
        if EVEN:
            v = tl.load(px + to_x, mask=inside[:, None], other=0).to(DOT)
            if DESCRIBED:
                w = described.load([line, number.to(tl.int32)]).T
            else:
                w = tl.load(pw + to_w, mask=row_mask[None, :], other=0).to(DOT)
        else:
            some = channel < channels - begin
            v = tl.load(px + to_x, mask=inside[:, None] & some[None, :], other=0).to(DOT)
            w = tl.load(pw + to_w, mask=some[:, None] & row_mask[None, :], other=0).to(DOT)
        total = tl.dot(v, w, total, input_precision="ieee", out_dtype=T)
        k, over = _next(k, kernel, AXES)
        begin += tl.where(over, BLOCK_K, 0)
        number = tl.where(over, begin, number + channels)
    if bias is not None:
        added = tl.load(bias + group * rows + row, mask=row_mask, other=0).to(T)
        total += added[None, :]
    goal = from_out + offset(position, goal_shape, so)
    places = goal[:, None] + ((group * rows + row) * oc)[None, :]
    both = mask[:, None] & row_mask[None, :]
    channel_out = (group * rows + row)[None, :]
    found = at_places(total, c, d, e, sc, sd, se, C, D, E, places, channel_out, both)
    tl.store(out + places, operator(*found).to(out.dtype.element_ty), mask=both)
