"""Windows that slide over the last three axes of an array: what convolutions, pooling and im2col
share.

Arrays have three such axes; those that an array lacks have length 1 and stand in front.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl


@triton.jit
def places(i, shape):
    """Index `i` within (..., *shape): what is in front, and one place for each of three axes."""
    o2 = i % shape[2]
    i = i // shape[2]
    o1 = i % shape[1]
    i = i // shape[1]
    o0 = i % shape[0]
    return i // shape[0], o0, o1, o2


@triton.jit
def in_planes(i, channels, shape):
    """Index `i` within (samples, channels, *shape): sample, channel, and a place on each axis."""
    front, o0, o1, o2 = places(i, shape)
    return front // channels, front % channels, o0, o1, o2


@triton.jit
def taps(k, kernel):
    """Tap `k` of a window of shape `kernel`: its place on each of three axes."""
    rest = k // kernel[2]
    return rest // kernel[1], rest % kernel[1], k % kernel[2]


@triton.jit
def reach(place, inside, at, length, stride, up, SPREAD: tl.constexpr):
    """`place` and `inside` with one more axis, where the element is number `at` of `length`.

    SPREAD: the axis' elements are `up` apart, with nothing between them.
    """
    if SPREAD:
        inside = inside & (at % up == 0)
        at = at // up
    return place + at * stride, inside & (at >= 0) & (at < length)
