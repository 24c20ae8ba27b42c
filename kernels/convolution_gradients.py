"""The gradient of a convolution by its weights, as a product of matrices: what the windows of all
positions hold, which is never made, by the gradient there.
"""

import triton
import triton.language as tl

from .convolution import beginning, windows_of, within
from .indexing import offset, span
from .windows import taps


@triton.jit
def by_weight(
    x, grad, out, positions, groups, rows, channels, out_shape, in_shape, kernel, along, before,
    dilation, chunk, part, sx, goal_shape, sg, so, wr, wc,
    DOT: tl.constexpr, T: tl.constexpr, AXES: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The sums over positions of grad times `x` at one tap: a block has rows and channels of a tap.

    Grid x is tiles of rows, tiles of channels, taps, groups; grid y cuts positions into parts of
    `chunk` (a multiple of BLOCK_P), each of which writes its own result, `part` elements after the
    one before. Channels lie side by side in `x` and in `grad`.

    Args:
        rows, channels: of `grad` and of `x`, in one group.
        sx: strides of samples and of three axes.
        goal_shape, sg: where a position is in `grad`.
        so: strides of groups and of three axes of taps; `wr`, `wc`: of rows and channels.
    """
    block = tl.program_id(0).to(positions.dtype)
    row_tiles, channel_tiles = tl.cdiv(rows, BLOCK_C), tl.cdiv(channels, BLOCK_K)
    row, row_mask = span(block % row_tiles * BLOCK_C, rows, BLOCK_C)
    block = block // row_tiles
    channel, channel_mask = span(block % channel_tiles * BLOCK_K, channels, BLOCK_K)
    block = block // channel_tiles
    tap_count = kernel[0] * kernel[1] * kernel[2]
    group = block // tap_count
    k = taps(block % tap_count, kernel)
    y = tl.program_id(1).to(positions.dtype)
    first = y * chunk
    last = first + tl.minimum(chunk, positions - first)
    px = x + (group * channels + channel)[None, :]
    pg = grad + (group * rows + row)[None, :]
    to_tap = channels * 0
    for axis in tl.static_range(3 - AXES, 3):
        to_tap += k[axis] * dilation[axis] * sx[axis + 1]
    total = tl.zeros([BLOCK_C, BLOCK_K], T)
    for begin in range(first, last, BLOCK_P):
        position, mask = span(begin, last, BLOCK_P)
        sample, o = windows_of(position, out_shape, AXES)
        inside = within(o, k, mask, in_shape, along, before, dilation, AXES)
        place = beginning(sample, o, along, before, sx, AXES) + to_tap
        v = tl.load(px + place[:, None], mask=inside[:, None] & channel_mask[None, :], other=0)
        goal = offset(position, goal_shape, sg)
        g = tl.load(pg + goal[:, None], mask=mask[:, None] & row_mask[None, :], other=0)
        g, v = g.to(DOT), v.to(DOT)
        total = tl.dot(tl.trans(g), v, total, input_precision="ieee", out_dtype=T)
    p = out + y * part + group * so[0] + k[0] * so[1] + k[1] * so[2] + k[2] * so[3]
    p = p + (row * wr)[:, None] + (channel * wc)[None, :]
    mask = row_mask[:, None] & channel_mask[None, :]
    tl.store(p, total.to(out.dtype.element_ty), mask=mask)
