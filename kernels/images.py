"""Colours of images: between RGB and HSV, grey, and adjusted."""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import divide
from .functions.arithmetic import maximum, minimum
from .indexing import at, part, steps_of


@triton.jit
def _to_hsv(r, g, b):
    """Hue, saturation and value, from 0 to 1; nan if one of the colours is nan, as torch has it.

    Source: A. R. Smith, "Color gamut transform pairs", 1978.
    """
    value = maximum(maximum(r, g), b)
    apart = value - minimum(minimum(r, g), b)
    saturation = tl.where(value <= 0, 0, divide(apart, tl.where(value <= 0, 1, value)))
    one = tl.full(r.shape, 1, r.dtype)
    sixth = divide(one, tl.where(apart <= 0, 1, apart * 6))
    hue = (r - g) * sixth + divide(one * 2, one * 3)
    hue = tl.where(g == value, (b - r) * sixth + divide(one, one * 3), hue)
    hue = tl.where(r == value, (g - b) * sixth, hue)
    hue = tl.where(apart <= 0, 0, hue)
    return tl.where(hue < 0, hue + 1, hue), saturation, value


@triton.jit
def _clipped(x):
    return tl.where(x < 0, 0, tl.where(x > 1, 1, x))


@triton.jit
def _to_rgb(hue, saturation, value):
    sixths = hue * 6
    r = _clipped(tl.abs(sixths - 3) - 1)
    g = _clipped(2 - tl.abs(sixths - 2))
    b = _clipped(2 - tl.abs(sixths - 4))
    rest = 1 - saturation
    return (
        (rest + saturation * r) * value,
        (rest + saturation * g) * value,
        (rest + saturation * b) * value,
    )


@triton.jit
def colours(
    x, out, n, amount, step, out_step, shape, so, sx,
    OP: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Three numbers for each place, `step` apart, to three others (to one: grey)."""
    for number in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, number, BLOCK, STEPS, ROWS)
        p = at(x, i, shape, sx)
        a = tl.load(p, mask=mask, other=0).to(T)
        b = tl.load(p + step, mask=mask, other=0).to(T)
        c = tl.load(p + 2 * step, mask=mask, other=0).to(T)
        if OP == "to_hsv":
            a, b, c = _to_hsv(a, b, c)
        elif OP == "to_rgb":
            a, b, c = _to_rgb(a, b, c)
        elif OP == "hue":
            hue, saturation, value = _to_hsv(a, b, c)
            hue += amount.to(T)
            a, b, c = _to_rgb(hue - libdevice.floor(hue), saturation, value)
        elif OP == "saturation":
            hue, saturation, value = _to_hsv(a, b, c)
            a, b, c = _to_rgb(hue, _clipped(saturation * amount.to(T)), value)
        else:
            a = 0.2989 * a + 0.587 * b + 0.114 * c
        goal = at(out, i, shape, so)
        tl.store(goal, a.to(out.dtype.element_ty), mask=mask)
        if OP != "grey":
            tl.store(goal + out_step, b.to(out.dtype.element_ty), mask=mask)
            tl.store(goal + 2 * out_step, c.to(out.dtype.element_ty), mask=mask)


@triton.jit
def contrast(
    x, mean, out, n, amount, shape, so, sx, sm,
    T: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """(x - mean) * amount + mean."""
    for number in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, number, BLOCK, STEPS, ROWS)
        value = tl.load(at(x, i, shape, sx), mask=mask, other=0).to(T)
        centre = tl.load(at(mean, i, shape, sm), mask=mask, other=0).to(T)
        value = (value - centre) * amount.to(T) + centre
        tl.store(at(out, i, shape, so), value.to(out.dtype.element_ty), mask=mask)
