"""Losses of rows: cosine distance, squares of pairs, and connectionist temporal classification."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import accumulate, divide, exp, settled
from .indexing import offset, positions, span
from .row_sums import products_of_rows


@triton.jit
def cosine_distance(
    x, y, out, m, n, shape, sx, sy, so, cx, cy,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """1 - the sum of the products of each row."""
    row, row_mask = positions(m, BLOCK_M)
    px = x + offset(row, shape, sx)[:, None]
    py = y + offset(row, shape, sy)[:, None]
    loss = 1.0 - products_of_rows(px, py, row_mask, n, cx, cy, T, BLOCK_M, BLOCK_N)
    tl.store(out + offset(row, shape, so), loss.to(out.dtype.element_ty), mask=row_mask)


@triton.jit
def pairwise(
    x, y, out, n, step_x, step_y, step_out, shape, sx, sy, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The mean over all pairs of a sample's `n` elements of (d_i - d_j)^2, where d = x - y: twice
    their variance of n - 1.
    """
    sample = tl.program_id(0).to(n.dtype)
    px, py = x + sample * step_x, y + sample * step_y
    total = tl.zeros([BLOCK], T)
    lost = tl.zeros([BLOCK], T)
    for start in range(0, n, BLOCK):
        apart, _ = _apart(px, py, start, n, shape, sx, sy, T, BLOCK)
        total, lost = accumulate(total, lost, apart)
    count = n.to(T)
    mean = divide(tl.sum(settled(total, lost), 0), count)
    total = tl.zeros([BLOCK], T)
    lost = tl.zeros([BLOCK], T)
    for start in range(0, n, BLOCK):
        apart, mask = _apart(px, py, start, n, shape, sx, sy, T, BLOCK)
        rest = tl.where(mask, apart - mean, tl.zeros_like(apart))
        total, lost = accumulate(total, lost, rest * rest)
    loss = divide(2.0 * tl.sum(settled(total, lost), 0), tl.maximum(count - 1.0, 1.0))
    tl.store(out + sample * step_out, loss.to(out.dtype.element_ty))


@triton.jit
def _apart(px, py, start, n, shape, sx, sy, T: tl.constexpr, BLOCK: tl.constexpr):
    """x - y from `start` on; 0 behind the end."""
    i, mask = span(start, n, BLOCK)
    one = tl.load(px + offset(i, shape, sx), mask=mask, other=0).to(T)
    return one - tl.load(py + offset(i, shape, sy), mask=mask, other=0).to(T), mask


@triton.jit
def _log_sum(a, b, c):
    """log(exp(a) + exp(b) + exp(c)), which does not overflow."""
    top = tl.where(b > a, b, a)
    top = tl.where(c > top, c, top)
    top = tl.where(top == float("-inf"), tl.zeros_like(top), top)
    return libdevice.log(exp(a - top) + exp(b - top) + exp(c - top)) + top


@triton.jit
def _label(p, s, labels, step, blank, wanted):
    """The label of state `s`: a blank, and at odd numbers the target's; those before it too."""
    place = s // 2
    inside = wanted & (s % 2 == 1) & (s > 0) & (place < labels)
    found = tl.load(p + place * step, mask=inside, other=0).to(tl.int64)
    return tl.where(inside, found, blank)


@triton.jit
def ctc(
    x, target, inputs, targets, alpha, out, steps, classes, longest, blank, room,
    xt, xn, xc, tn, ts, si, sl, step_out,
    PACKED: tl.constexpr, INFINITY: tl.constexpr, EACH: tl.constexpr, T: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Minus the logarithm of the probability of a sample's target in `steps` steps of `classes`
    log-probabilities: the forward variables of Graves et al. (2006), equations 5 to 8.

    Args:
        inputs, targets: the samples' own numbers of steps and of labels; one that is more than
            there are gives nan, and so does a label that is no class.
        alpha: `room` forward variables of a sample, twice: of the step before, and of this one.
        longest: labels that a row of `target` has; PACKED: that all samples have together.
        INFINITY: an infinite loss stays as it is; else it is 0.
        EACH: the loss is divided by the number of labels.
    """
    sample = tl.program_id(0).to(classes.dtype)
    length = tl.load(inputs + sample * si).to(tl.int64)
    labels = tl.load(targets + sample * sl).to(tl.int64)
    first = labels * 0
    if PACKED:
        for before in range(sample):
            first += tl.load(targets + before * sl).to(tl.int64)
        most = longest.to(tl.int64) - first
        start = target
    else:
        most = longest.to(tl.int64)
        start = target + sample * tn
    wrong = (length < 0) | (length > steps) | (labels < 0) | (labels > most) | (first < 0)
    length = tl.where(wrong, 0, length)
    labels = tl.where(wrong, 0, labels)
    if PACKED:
        start += tl.where(wrong, 0, first) * ts
    states = (2 * labels + 1).to(classes.dtype)
    px = x + sample * xn
    own = alpha + sample * (2 * room)
    no = wrong.to(tl.int32)
    for begin in range(0, states, BLOCK):
        s, mask = span(begin, states, BLOCK)
        label = _label(start, s, labels, ts, blank, mask)
        inside = mask & (label >= 0) & (label < classes)
        no = tl.maximum(no, tl.max((mask & (inside == 0)).to(tl.int32), 0))
        here = inside & (s < 2) & (length > 0)
        value = tl.load(px + label * xc, mask=here, other=float("-inf")).to(T)
        tl.store(own + s, value, mask=mask)
    for t in range(1, length):
        tl.debug_barrier()
        old = own + (t + 1) % 2 * room
        for begin in range(0, states, BLOCK):
            s, mask = span(begin, states, BLOCK)
            label = _label(start, s, labels, ts, blank, mask)
            skip = (s > 1) & (label != _label(start, s - 2, labels, ts, blank, mask))
            a = tl.load(old + s, mask=mask, other=float("-inf"))
            b = tl.load(old + s - 1, mask=mask & (s > 0), other=float("-inf"))
            c = tl.load(old + s - 2, mask=mask & skip, other=float("-inf"))
            inside = mask & (label >= 0) & (label < classes)
            value = tl.load(px + t * xt + label * xc, mask=inside, other=0).to(T)
            tl.store(own + t % 2 * room + s, _log_sum(a, b, c) + value, mask=mask)
    tl.debug_barrier()
    last = own + tl.where(length > 0, (length - 1) % 2, 0) * room + 2 * labels
    end = tl.load(last)
    label_end = tl.load(last - 1, mask=labels > 0, other=float("-inf"))
    loss = -_log_sum(end, label_end, tl.full((), float("-inf"), T))
    nothing = tl.where(labels == 0, tl.full((), 0, T), tl.full((), float("inf"), T))
    loss = tl.where(length == 0, nothing, loss)
    if not INFINITY:
        loss = tl.where(loss == float("inf"), tl.zeros_like(loss), loss)
    if EACH:
        loss = divide(loss, tl.maximum(labels, 1).to(T))
    loss = tl.where(no > 0, tl.full((), float("nan"), T), loss)
    tl.store(out + sample * step_out, loss.to(out.dtype.element_ty))
