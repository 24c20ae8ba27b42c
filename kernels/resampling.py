"""Values between the elements of an array: resizing, grids of places, and crops.

Places outside of an array are never read.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import accumulate, divide
from .functions.arithmetic import minimum
from .functions.floats import nearest
from .indexing import element, memory, positions
from .windows import in_planes


@triton.jit
def _between(o, scale, length, MODE: tl.constexpr, WIDE: tl.constexpr, T: tl.constexpr):
    """The element before the place of output `o`, and how far the place is behind it.

    The place is (o * scale[0] + scale[1]) / scale[2], so that no rounding moves it.
    """
    if WIDE:
        at = o.to(tl.int64) * scale[0] + scale[1]
    else:
        at = o * scale[0] + scale[1]
    if MODE != "cubic":
        at = tl.maximum(at, 0)
    first = (at + scale[2]) // scale[2] - 1
    part = divide((at - first * scale[2]).to(T), (o * 0 + scale[2]).to(T))
    return first.to(o.dtype), part


@triton.jit
def _last(first, scale, length, MODE: tl.constexpr):
    """The last element that is read: as torch's, the place's own where no length changes."""
    if MODE == "linear":
        return tl.where(scale[0] == scale[2], first, length - 1)
    else:
        return length - 1


@triton.jit
def _cubic(part, k: tl.constexpr):
    """The weight of element number `k` of the four around a place, `part` behind the second.

    R. Keys, "Cubic convolution interpolation for digital image processing", with a = -0.75.
    """
    away = tl.abs(part + (1 - k))
    if k == 0 or k == 3:
        return ((-0.75 * away + 3.75) * away - 6.0) * away + 3.0
    else:
        return (1.25 * away - 2.25) * away * away + 1.0


@triton.jit
def _tap(first, part, k: tl.constexpr, last, MODE: tl.constexpr):
    """The element number `k` around a place, and its weight."""
    if MODE == "nearest":
        return tl.minimum(first, last), part * 0 + 1
    elif MODE == "linear":
        weight = part if k else 1 - part
        return tl.minimum(tl.maximum(first + k, 0), last), weight
    else:
        return tl.minimum(tl.maximum(first + (k - 1), 0), last), _cubic(part, k)


@triton.jit
def resize(
    x, out, n, channels, out_shape, in_shape, scale0, scale1, scale2, sx, so,
    MODE: tl.constexpr, RANK: tl.constexpr, WIDE: tl.constexpr, T: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Each output from the nearest element, or from two or four around its place on each axis.

    RANK: how many of the three axes there are; the others have one element.
    """
    i, mask = positions(n, BLOCK)
    sample, channel, o0, o1, o2 = in_planes(i, channels, out_shape)
    start = sample * sx[0] + channel * sx[1]
    goal = sample * so[0] + channel * so[1] + o0 * so[2] + o1 * so[3] + o2 * so[4]
    F: tl.constexpr = tl.float32 if MODE == "nearest" else T
    f2, p2 = _between(o2, scale2, in_shape[2], MODE, WIDE, F)
    f1, p1 = _between(o1, scale1, in_shape[1], MODE, WIDE, F)
    f0, p0 = _between(o0, scale0, in_shape[0], MODE, WIDE, F)
    last2 = _last(f2, scale2, in_shape[2], MODE)
    last1 = _last(f1, scale1, in_shape[1], MODE)
    last0 = _last(f0, scale0, in_shape[0], MODE)
    if MODE == "nearest":
        a0, _ = _tap(f0, p0, 0, last0, MODE)
        a1, _ = _tap(f1, p1, 0, last1, MODE)
        a2, _ = _tap(f2, p2, 0, last2, MODE)
        p = memory(x) + start + a0 * sx[2] + a1 * sx[3] + a2 * sx[4]
        total = element(tl.load(p, mask=mask), x, out.dtype.element_ty)
    else:
        TAPS: tl.constexpr = 2 if MODE == "linear" else 4
        total = tl.zeros([BLOCK], T)
        for k0 in tl.static_range(TAPS if RANK > 2 else 1):
            if RANK > 2:
                a0, w0 = _tap(f0, p0, k0, last0, MODE)
            else:
                a0, w0 = f0 * 0, p0 * 0 + 1
            for k1 in tl.static_range(TAPS if RANK > 1 else 1):
                if RANK > 1:
                    a1, w1 = _tap(f1, p1, k1, last1, MODE)
                else:
                    a1, w1 = f1 * 0, p1 * 0 + 1
                for k2 in tl.static_range(TAPS):
                    a2, w2 = _tap(f2, p2, k2, last2, MODE)
                    p = x + start + a0 * sx[2] + a1 * sx[3] + a2 * sx[4]
                    total += tl.load(p, mask=mask, other=0).to(T) * (w0 * w1 * w2)
    tl.store(out + goal, total.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _on_axis(
    place, length, PADDING: tl.constexpr, ALIGNED: tl.constexpr, MODE: tl.constexpr
):  # fmt: skip
    """A place of -1 to 1 among the elements of an axis, moved inside if PADDING says so (for cubic
    its four elements are, by `_near`); and what rounding took from it, without which the weights
    on a long axis would have few digits.
    """
    MOVED: tl.constexpr = "zeros" if MODE == "cubic" else PADDING
    top = tl.zeros(place.shape, place.dtype) + length - 1
    span = top if ALIGNED else top + 1
    if MODE == "nearest":  # rounded as torch's, so that the same halves go the same way
        at = (place + 1) * 0.5 * top if ALIGNED else ((place + 1) * span - 1) * 0.5
        lost = tl.zeros_like(at)
    else:
        half = span * 0.5
        product = tl.fma(place, half, tl.zeros_like(half))  # nothing can be joined with it
        lost = tl.fma(place, half, -product)
        at, lost = accumulate(product, lost, top * 0.5)
    if MOVED == "reflection":
        # to and fro between the first and the last element, or between their outer edges
        low = 0.0 if ALIGNED else -0.5
        at, lost = accumulate(at, lost, -low)
        away = tl.abs(at)
        lost = tl.where(at < 0, -lost, lost)
        turns = libdevice.floor(divide(away, tl.where(span > 0, span, 1)))
        rest = tl.fma(-turns, span, away)
        odd = libdevice.floor(turns * 0.5) * 2 != turns
        back, lost_back = accumulate(span, -lost, -rest)
        at, lost = accumulate(tl.where(odd, back, rest), tl.where(odd, lost_back, lost), low)
        at = tl.where(span > 0, at, 0)
    if MOVED != "zeros":
        lost = tl.where((at > 0) & (at < top), lost, 0)
        at = tl.where(at > 0, at, 0)
        at = tl.where(at < top, at, top)
    # farther out, and for nan, no element counts
    FAR: tl.constexpr = 2.0**52 if MODE == "cubic" and PADDING == "reflection" else 3.0
    lost = tl.where((at > -FAR) & (at < top + FAR), lost, 0)
    if MODE == "cubic":  # as torch's
        lost = tl.where(tl.abs(at) < float("inf"), lost, float("nan"))
    at = tl.where(at > -FAR, at, -FAR)
    return tl.where(at < top + FAR, at, top + FAR), lost


@triton.jit
def _moved(own, length, PADDING: tl.constexpr, ALIGNED: tl.constexpr):
    """The number of an element, moved inside if PADDING says so."""
    if PADDING == "border":
        return tl.minimum(tl.maximum(own, 0), length - 1)
    elif PADDING == "reflection":
        last = (own * 0 + length - 1).to(tl.int64)
        period = tl.maximum(2 * last, 1) if ALIGNED else 2 * last + 2
        rest = own % period
        rest = tl.where(rest < 0, rest + period, rest)
        back = period - rest if ALIGNED else period - 1 - rest
        return tl.where(rest > last, tl.minimum(back, last), rest)
    else:
        return own


@triton.jit
def _near(
    at, lost, k: tl.constexpr, length, PADDING: tl.constexpr, ALIGNED: tl.constexpr,
    MODE: tl.constexpr,
):  # fmt: skip
    """An element next to a place: its number, its weight, and whether there is one."""
    if MODE == "nearest":
        own = nearest(at)
        weight = at * 0 + 1
    else:
        first = libdevice.floor(at)
        behind = at - first + lost
        before = behind < 0
        first = tl.where(before, first - 1, first)
        behind = tl.where(before, behind + 1, behind)
        if MODE == "cubic":
            own = _moved(first.to(tl.int64) + (k - 1), length, PADDING, ALIGNED)
            weight = _cubic(behind, k)
        else:
            own = first + k
            weight = behind if k else 1 - behind
    return own.to(tl.int32), weight, (own >= 0) & (own < length)


@triton.jit
def grid_sample(
    x, grid, out, n, channels, out_shape, in_shape, sx, sg, so,
    MODE: tl.constexpr, PADDING: tl.constexpr, ALIGNED: tl.constexpr, RANK: tl.constexpr,
    T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The element nearest to each place of `grid`, the mean of those around it by distance, or of
    four on each axis by Keys' cubic.

    sg: strides of samples, three axes, and the numbers of a place, of which the first belongs to
    the last axis.
    """
    i, mask = positions(n, BLOCK)
    sample, channel, o0, o1, o2 = in_planes(i, channels, out_shape)
    pg = grid + sample * sg[0] + o0 * sg[1] + o1 * sg[2] + o2 * sg[3]
    g2 = tl.load(pg, mask=mask, other=0).to(T)
    at2, lost2 = _on_axis(g2, in_shape[2], PADDING, ALIGNED, MODE)
    g1 = tl.load(pg + sg[4], mask=mask, other=0).to(T)
    at1, lost1 = _on_axis(g1, in_shape[1], PADDING, ALIGNED, MODE)
    if RANK > 2:
        g0 = tl.load(pg + 2 * sg[4], mask=mask, other=0).to(T)
        at0, lost0 = _on_axis(g0, in_shape[0], PADDING, ALIGNED, MODE)
    start = sample * sx[0] + channel * sx[1]
    total = tl.zeros([BLOCK], T)
    TAPS: tl.constexpr = 1 if MODE == "nearest" else 2 if MODE == "linear" else 4
    for k0 in tl.static_range(TAPS if RANK > 2 else 1):
        if RANK > 2:
            a0, w0, in0 = _near(at0, lost0, k0, in_shape[0], PADDING, ALIGNED, MODE)
        else:
            a0, w0, in0 = o0 * 0, lost1 * 0 + 1, mask
        for k1 in tl.static_range(TAPS):
            a1, w1, in1 = _near(at1, lost1, k1, in_shape[1], PADDING, ALIGNED, MODE)
            for k2 in tl.static_range(TAPS):
                a2, w2, in2 = _near(at2, lost2, k2, in_shape[2], PADDING, ALIGNED, MODE)
                inside = mask & in0 & in1 & in2
                place = a0.to(n.dtype) * sx[2] + a1.to(n.dtype) * sx[3] + a2.to(n.dtype) * sx[4]
                value = tl.load(x + start + place, mask=inside, other=0).to(T)
                value = value * (w0 * w1 * w2)
                total += value if MODE == "cubic" else tl.where(inside, value, 0)
    goal = sample * so[0] + channel * so[1] + o0 * so[2] + o1 * so[3] + o2 * so[4]
    tl.store(out + goal, total.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _in_box(o, count, low, high, length, T: tl.constexpr):
    """The place of output `o` of `count` in a box from `low` to `high` of an axis."""
    top = (o * 0 + length - 1).to(T)
    step = divide((high - low) * top, (o * 0 + tl.maximum(count - 1, 1)).to(T))
    at = tl.where(count > 1, low * top + o.to(T) * step, 0.5 * (low + high) * top)
    return at, top


@triton.jit
def crop(
    x, boxes, index, out, n, outside, samples, channels, out_shape, in_shape, sx, sb, si, so,
    NEAREST: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Parts of images, resized: box (y1, x1, y2, x2) of image `index`, from 0 to 1 of its axes.

    What lies outside of the image, or belongs to no image, is `outside`.
    """
    i, mask = positions(n, BLOCK)
    box, channel, _, o1, o2 = in_planes(i, channels, out_shape)
    image = tl.load(index + box * si, mask=mask, other=0).to(tl.int64)
    pb = boxes + box * sb[0]
    y1, x1 = tl.load(pb, mask=mask, other=0).to(T), tl.load(pb + sb[1], mask=mask, other=0).to(T)
    y2 = tl.load(pb + 2 * sb[1], mask=mask, other=0).to(T)
    x2 = tl.load(pb + 3 * sb[1], mask=mask, other=0).to(T)
    at1, top1 = _in_box(o1, out_shape[1], y1, y2, in_shape[1], T)
    at2, top2 = _in_box(o2, out_shape[2], x1, x2, in_shape[2], T)
    inside = mask & (image >= 0) & (image < samples)
    inside = inside & (at1 >= 0) & (at1 <= top1) & (at2 >= 0) & (at2 <= top2)
    at1, at2 = tl.where(inside, at1, 0), tl.where(inside, at2, 0)
    start = tl.where(inside, image, 0).to(n.dtype) * sx[0] + channel * sx[1]
    total = tl.zeros([BLOCK], T)
    if NEAREST:
        # a half goes away from 0, as C's round
        a1 = minimum(libdevice.floor(at1 + 0.5), top1).to(n.dtype)
        a2 = minimum(libdevice.floor(at2 + 0.5), top2).to(n.dtype)
        total += tl.load(x + start + a1 * sx[3] + a2 * sx[4], mask=inside, other=0).to(T)
    else:
        first1, first2 = libdevice.floor(at1), libdevice.floor(at2)
        for k1 in tl.static_range(2):
            for k2 in tl.static_range(2):
                a1 = minimum(first1 + k1, top1).to(n.dtype)
                a2 = minimum(first2 + k2, top2).to(n.dtype)
                w1 = at1 - first1 if k1 else 1 - (at1 - first1)
                w2 = at2 - first2 if k2 else 1 - (at2 - first2)
                value = tl.load(x + start + a1 * sx[3] + a2 * sx[4], mask=inside, other=0).to(T)
                total += value * (w1 * w2)
    total = tl.where(inside, total, outside.to(T))
    goal = box * so[0] + channel * so[1] + o1 * so[3] + o2 * so[4]
    tl.store(out + goal, total.to(out.dtype.element_ty), mask=mask)
