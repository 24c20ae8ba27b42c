"""Convolutions, as products of matrices that are never made.

The result of a group is (channels out) x (positions): the weights, (channels out) x (channels in *
taps), times what the windows at all positions of all samples hold. A transposed convolution is the
same with elements of `x` that are `up` apart (`windows.reach`).
"""

import triton
import triton.language as tl

from .indexing import span
from .windows import places, reach, taps


@triton.jit
def _block(positions, groups, rows, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr):
    """Group, channels and positions of a block: blocks of the same windows follow each other."""
    block = tl.program_id(0).to(positions.dtype)
    tiles = tl.cdiv(rows, BLOCK_C)
    within = block % (groups * tiles)
    row, row_mask = span(within % tiles * BLOCK_C, rows, BLOCK_C)
    position, mask = span(block // (groups * tiles) * BLOCK_P, positions, BLOCK_P)
    return within // tiles, row, row_mask, position, mask


@triton.jit
def _begin(position, out_shape, along, before):
    """The sample of a position, its place in the result, and where its window begins."""
    sample, o0, o1, o2 = places(position, out_shape)
    p0 = o0 * along[0] - before[0]
    p1 = o1 * along[1] - before[1]
    p2 = o2 * along[2] - before[2]
    return sample, (o0, o1, o2), (p0, p1, p2)


@triton.jit
def _finish(out, total, bias, base, rows, row_mask, mask, goal, channel_step):
    if bias is not None:
        added = tl.load(bias + base + rows, mask=row_mask, other=0).to(total.dtype)
        total += added[:, None]
    p = out + (base + rows)[:, None] * channel_step + goal[None, :]
    tl.store(p, total.to(out.dtype.element_ty), mask=row_mask[:, None] & mask[None, :])


@triton.jit
def _goal(sample, o, so):
    return sample * so[0] + o[0] * so[2] + o[1] * so[3] + o[2] * so[4]


@triton.jit
def direct(
    x, weight, bias, out, positions, groups, rows, channels, tap_count, out_shape, in_shape, kernel,
    along, before, dilation, up, sx, sw, so,
    SPREAD: tl.constexpr, T: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """A convolution as a sum of outer products, one for each tap and channel: for few channels, and
    for devices without matrix units.

    Args:
        positions: of all samples.
        rows, channels: of the result and of `x`, in one group.
        sx, so: strides of samples, channels, and three axes.
        sw: strides of groups, channels of the result, channels of `x`, and three axes.
    """
    group, row, row_mask, position, mask = _block(positions, groups, rows, BLOCK_C, BLOCK_P)
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
        pw = weight + group * sw[0] + row * sw[1] + (k0 * sw[3] + k1 * sw[4] + k2 * sw[5])
        px = x + group * channels * sx[1] + place
        for channel in range(channels):
            w = tl.load(pw + channel * sw[2], mask=row_mask, other=0).to(T)[:, None]
            v = tl.load(px + channel * sx[1], mask=inside, other=0).to(T)[None, :]
            total = tl.fma(tl.broadcast_to(w, total.shape), tl.broadcast_to(v, total.shape), total)
    _finish(out, total, bias, group * rows, row, row_mask, mask, _goal(sample, o, so), so[1])


@triton.jit
def implicit(
    x, weight, bias, out, positions, groups, rows, channels, tap_count, out_shape, in_shape, kernel,
    along, before, dilation, up, sx, sw, so,
    SPREAD: tl.constexpr, DOT: tl.constexpr, T: tl.constexpr, BLOCK_C: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """`direct` by matrix units: operands of type DOT, BLOCK_K pairs of tap and channel a step."""
    group, row, row_mask, position, mask = _block(positions, groups, rows, BLOCK_C, BLOCK_P)
    sample, o, p = _begin(position, out_shape, along, before)
    px = x + group * channels * sx[1] + (sample * sx[0])[None, :]
    pw = weight + group * sw[0] + (row * sw[1])[:, None]
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
    _finish(out, total, bias, group * rows, row, row_mask, mask, _goal(sample, o, so), so[1])
