"""Windows: each to one element (pooling), and side by side (im2col and col2im)."""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import divide, lowest
from .indexing import element, memory, positions
from .windows import in_planes, places, reach, taps


@triton.jit
def _bounds(
    o, count, length, kernel, stride, before, after, dilation, ADAPTIVE: tl.constexpr
):  # fmt: skip
    """Where window `o` of `count` begins and ends, padding included."""
    if ADAPTIVE:
        wide = o.to(tl.int64)
        begin = wide * length // count
        end = ((wide + 1) * length + (count - 1)) // count
        return begin.to(o.dtype), end.to(o.dtype)
    else:
        begin = o * stride - before
        return begin, tl.minimum(begin + (kernel - 1) * dilation + 1, length + after)


@triton.jit
def _length(begin, end, length, INSIDE: tl.constexpr):
    """Elements of a window; `INSIDE`: without padding."""
    if INSIDE:
        return tl.minimum(end, length) - tl.maximum(begin, 0)
    else:
        return end - begin


@triton.jit
def pool(
    x, out, index, n, p, channels, tap_count, out_shape, in_shape, kernel, stride, before, after,
    dilation, sx, so,
    OP: tl.constexpr, ADAPTIVE: tl.constexpr, INSIDE: tl.constexpr, T: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One element for each window: the largest (and its `index` within the axes), the mean, or the
    root of the sum of powers.

    ADAPTIVE: windows cover the axes, as many as `out_shape` says. INSIDE: a mean does not count
    padding. Strides are of samples, channels and three axes; `index` lies as `out` does.
    """
    i, mask = positions(n, BLOCK)
    sample, channel, o0, o1, o2 = in_planes(i, channels, out_shape)
    b0, e0 = _bounds(
        o0, out_shape[0], in_shape[0], kernel[0], stride[0], before[0], after[0], dilation[0],
        ADAPTIVE,
    )  # fmt: skip
    b1, e1 = _bounds(
        o1, out_shape[1], in_shape[1], kernel[1], stride[1], before[1], after[1], dilation[1],
        ADAPTIVE,
    )  # fmt: skip
    b2, e2 = _bounds(
        o2, out_shape[2], in_shape[2], kernel[2], stride[2], before[2], after[2], dilation[2],
        ADAPTIVE,
    )  # fmt: skip
    start = sample * sx[0] + channel * sx[1]
    if OP == "max":
        total = tl.full([BLOCK], 0, T) + lowest(T)
    else:
        total = tl.zeros([BLOCK], T)
    which = i * 0 - 1
    for tap in range(tap_count):
        k0, k1, k2 = taps(tap, kernel)
        a0, a1, a2 = b0 + k0 * dilation[0], b1 + k1 * dilation[1], b2 + k2 * dilation[2]
        place, inside = reach(start, mask, a0, tl.minimum(e0, in_shape[0]), sx[2], 1, False)
        place, inside = reach(place, inside, a1, tl.minimum(e1, in_shape[1]), sx[3], 1, False)
        place, inside = reach(place, inside, a2, tl.minimum(e2, in_shape[2]), sx[4], 1, False)
        value = element(tl.load(memory(x) + place, mask=inside, other=0), x, T)
        if OP == "max":
            new = (value > total) | (value != value) | (which < 0)  # the last NaN, as torch
            better = inside & new
            total = tl.where(better, value, total)
            which = tl.where(better, (a0 * in_shape[1] + a1) * in_shape[2] + a2, which)
        elif OP == "power":
            total += tl.where(inside, libdevice.pow(tl.abs(value), p.to(T)), 0)
        else:
            total += value
    if OP == "power":
        total = libdevice.pow(total, divide(p.to(T) * 0 + 1, p.to(T)))
    elif OP == "mean":
        count = _length(b0, e0, in_shape[0], INSIDE) * _length(b1, e1, in_shape[1], INSIDE)
        total = divide(total, (count * _length(b2, e2, in_shape[2], INSIDE)).to(T))
    goal = sample * so[0] + channel * so[1] + o0 * so[2] + o1 * so[3] + o2 * so[4]
    tl.store(out + goal, total.to(out.dtype.element_ty), mask=mask)
    if index is not None:
        tl.store(index + goal, which.to(tl.int64), mask=mask)


@triton.jit
def unfold(
    x, out, n, channels, tap_count, out_shape, in_shape, kernel, stride, before, dilation, sx, so,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """out[sample, (channel, tap), window] is that tap of the window, 0 in the padding."""
    i, mask = positions(n, BLOCK)
    front, w0, w1, w2 = places(i, out_shape)
    k0, k1, k2 = taps(front % tap_count, kernel)
    channel = front // tap_count % channels
    sample = front // tap_count // channels
    place = sample * sx[0] + channel * sx[1]
    a0 = w0 * stride[0] - before[0] + k0 * dilation[0]
    a1 = w1 * stride[1] - before[1] + k1 * dilation[1]
    a2 = w2 * stride[2] - before[2] + k2 * dilation[2]
    place, inside = reach(place, mask, a0, in_shape[0], sx[2], 1, False)
    place, inside = reach(place, inside, a1, in_shape[1], sx[3], 1, False)
    place, inside = reach(place, inside, a2, in_shape[2], sx[4], 1, False)
    value = element(tl.load(memory(x) + place, mask=inside, other=0), x, out.dtype.element_ty)
    window = (w0 * out_shape[1] + w1) * out_shape[2] + w2
    row = channel * tap_count + front % tap_count
    tl.store(out + sample * so[0] + row * so[1] + window * so[2], value, mask=mask)


@triton.jit
def fold(
    x, out, n, channels, tap_count, out_shape, windows, kernel, stride, before, dilation, sx, so,
    T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The sum of what all windows hold of each place: `unfold` backwards, tap by tap, so that each
    result has one block that writes it, in an order that is always the same.
    """
    i, mask = positions(n, BLOCK)
    sample, channel, o0, o1, o2 = in_planes(i, channels, out_shape)
    total = tl.zeros([BLOCK], T)
    for tap in range(tap_count):
        k0, k1, k2 = taps(tap, kernel)
        a0 = o0 + before[0] - k0 * dilation[0]
        a1 = o1 + before[1] - k1 * dilation[1]
        a2 = o2 + before[2] - k2 * dilation[2]
        place = sample * sx[0] + (channel * tap_count + tap) * sx[1]
        far = windows[2] * sx[2]
        place, inside = reach(place, mask, a0, windows[0], windows[1] * far, stride[0], True)
        place, inside = reach(place, inside, a1, windows[1], far, stride[1], True)
        place, inside = reach(place, inside, a2, windows[2], sx[2], stride[2], True)
        total += tl.load(x + place, mask=inside, other=0).to(T)
    goal = sample * so[0] + channel * so[1] + o0 * so[2] + o1 * so[3] + o2 * so[4]
    tl.store(out + goal, total.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _window(at, count, length, up, t, ADAPTIVE: tl.constexpr):
    """The window of `count` that holds an element, and whether there is one: window t of those that
    hold the element `at` (ADAPTIVE), or that which begins at `at` if windows do so each `up`.
    """
    if ADAPTIVE:
        wide = at.to(tl.int64)
        o = wide * count // length + t
        inside = (o < count) & (o * length // count <= wide)
        return o.to(at.dtype), inside
    else:
        return at // up, (at >= 0) & (at % up == 0) & (at // up < count)


@triton.jit
def unpool(
    grad, index, out, n, channels, tap_count, out_shape, windows, kernel, stride, before, after,
    dilation, sg, si, so,
    ADAPTIVE: tl.constexpr, INSIDE: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of `pool`: for each element the sum over the windows that hold it, tap by tap in
    an order that is always the same; of those whose largest it is by `index`, or of all by their
    lengths. ADAPTIVE, INSIDE: as there.
    """
    i, mask = positions(n, BLOCK)
    sample, channel, a0, a1, a2 = in_planes(i, channels, out_shape)
    total = tl.zeros([BLOCK], T)
    for tap in range(tap_count):
        k0, k1, k2 = taps(tap, kernel)
        if ADAPTIVE:
            b0, b1, b2 = a0, a1, a2
        else:
            b0 = a0 + before[0] - k0 * dilation[0]
            b1 = a1 + before[1] - k1 * dilation[1]
            b2 = a2 + before[2] - k2 * dilation[2]
        o0, in0 = _window(b0, windows[0], out_shape[0], stride[0], k0, ADAPTIVE)
        o1, in1 = _window(b1, windows[1], out_shape[1], stride[1], k1, ADAPTIVE)
        o2, in2 = _window(b2, windows[2], out_shape[2], stride[2], k2, ADAPTIVE)
        inside = mask & in0 & in1 & in2
        place = sample * sg[0] + channel * sg[1] + o0 * sg[2] + o1 * sg[3] + o2 * sg[4]
        value = tl.load(grad + place, mask=inside, other=0).to(T)
        if index is not None:
            place = sample * si[0] + channel * si[1] + o0 * si[2] + o1 * si[3] + o2 * si[4]
            which = tl.load(index + place, mask=inside, other=-1)
            own = (a0 * out_shape[1] + a1) * out_shape[2] + a2
            total += tl.where(which == own, value, 0)
        else:
            b0, e0 = _bounds(
                o0, windows[0], out_shape[0], kernel[0], stride[0], before[0], after[0],
                dilation[0], ADAPTIVE,
            )  # fmt: skip
            b1, e1 = _bounds(
                o1, windows[1], out_shape[1], kernel[1], stride[1], before[1], after[1],
                dilation[1], ADAPTIVE,
            )  # fmt: skip
            b2, e2 = _bounds(
                o2, windows[2], out_shape[2], kernel[2], stride[2], before[2], after[2],
                dilation[2], ADAPTIVE,
            )  # fmt: skip
            count = _length(b0, e0, out_shape[0], INSIDE) * _length(b1, e1, out_shape[1], INSIDE)
            count = count * _length(b2, e2, out_shape[2], INSIDE)
            total += divide(value, tl.where(inside, count, 1).to(T))
    goal = sample * so[0] + channel * so[1] + a0 * so[2] + a1 * so[3] + a2 * so[4]
    tl.store(out + goal, total.to(out.dtype.element_ty), mask=mask)
