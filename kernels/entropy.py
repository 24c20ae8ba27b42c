"""Cross entropy of rows of logits: probabilities are never written to memory.

`m` rows anywhere (shape and strides, see `layouts`) of `n` classes that are `cx` apart. A target
that is no class and not `ignore` gives nan; memory outside of the arrays is not read.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import accumulate, divide, exp, settled
from .indexing import across, offset, positions, span
from .row_exponentials import largest_and_total, quick_exp


@triton.jit
def weights(
    target, weight, out, m, n, ignore, shape, st, sw, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """The weight of each row's target: 0 of one that is ignored, nan of one that is no class."""
    row, mask = positions(m, BLOCK_M)
    t = tl.load(target + offset(row, shape, st), mask=mask, other=0)
    T: tl.constexpr = out.dtype.element_ty
    tl.store(out + row, _weight(t, weight, n, ignore, sw, mask, T), mask=mask)


@triton.jit
def _weight(t, weight, n, ignore, sw, mask, T: tl.constexpr):
    inside = (t >= 0) & (t < n)
    own = tl.full(t.shape, 1, T)
    if weight is not None:
        own = tl.load(weight + t.to(n.dtype) * sw, mask=mask & inside, other=0).to(T)
    own = tl.where(inside, own, float("nan"))
    return tl.where(t == ignore, tl.zeros_like(own), own)


@triton.jit
def _rows(x, target, m, shape, sx, st, BLOCK_M: tl.constexpr):
    """This block's rows, their mask, where they begin in `x`, and their targets."""
    row, mask = positions(m, BLOCK_M)
    t = tl.load(target + offset(row, shape, st), mask=mask, other=0)
    return row, mask, x + offset(row, shape, sx), t


@triton.jit
def nll_loss(
    x, target, weight, out, m, n, ignore, shape, sx, st, so, cx, sw,
    T: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """The negative of each row's element at its target, times its weight."""
    row, mask, rows, t = _rows(x, target, m, shape, sx, st, BLOCK_M)
    own = _weight(t, weight, n, ignore, sw, mask, T)
    inside = mask & (t >= 0) & (t < n) & (t != ignore)
    value = tl.load(rows + t.to(n.dtype) * cx, mask=inside, other=0).to(T)
    loss = tl.where(t == ignore, tl.zeros_like(own), -value * own)
    tl.store(out + offset(row, shape, so), loss.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _largest(
    x, row_mask, n, cx, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """The largest element of each of the rows at `x`, and sum exp(x - largest).

    GROUP: elements of a long row that a lane takes at once; 0: the row is read twice.
    """
    if GROUP:
        return largest_and_total(x, row_mask, n, cx, False, False, T, BLOCK_M, BLOCK_N, GROUP)
    else:
        return _twice(x, row_mask, n, cx, T, BLOCK_M, BLOCK_N)


@triton.jit
def _twice(x, row_mask, n, cx, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    top = tl.full([BLOCK_M, BLOCK_N], float("-inf"), T)
    for start in range(0, n, BLOCK_N):
        column, _, mask = across(start, n, row_mask, BLOCK_N)
        value = tl.load(x + (column * cx)[None, :], mask=mask, other=float("-inf")).to(T)
        top = tl.where(value > top, value, top)
    top = tl.max(top, 1)
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for start in range(0, n, BLOCK_N):
        column, _, mask = across(start, n, row_mask, BLOCK_N)
        value = tl.load(x + (column * cx)[None, :], mask=mask, other=float("-inf")).to(T)
        power = tl.where(mask, exp(value - top[:, None]), tl.zeros_like(value))
        total, lost = accumulate(total, lost, power)
    return top, tl.sum(settled(total, lost), 1)


@triton.jit
def cross_entropy(
    x, target, weight, out, m, n, ignore, smoothing, shape, sx, st, so, cx, sw,
    SMOOTH: tl.constexpr, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    row, row_mask, rows, t = _rows(x, target, m, shape, sx, st, BLOCK_M)
    top, total = _largest(rows[:, None], row_mask, n, cx, T, BLOCK_M, BLOCK_N, GROUP)
    log = libdevice.log(total)
    own = _weight(t, weight, n, ignore, sw, row_mask, T)
    inside = row_mask & (t >= 0) & (t < n) & (t != ignore)
    chosen = tl.load(rows + t.to(n.dtype) * cx, mask=inside, other=0).to(T)
    loss = (log - (chosen - top)) * own
    if SMOOTH:
        spread = tl.zeros([BLOCK_M, BLOCK_N], T)
        for start in range(0, n, BLOCK_N):
            column, column_mask, mask = across(start, n, row_mask, BLOCK_N)
            value = tl.load(rows[:, None] + (column * cx)[None, :], mask=mask, other=0).to(T)
            part = log[:, None] - (value - top[:, None])
            if weight is not None:
                part *= tl.load(weight + column * sw, mask=column_mask, other=0).to(T)[None, :]
            spread += tl.where(mask, part, tl.zeros_like(part))
        mean = divide(tl.sum(spread, 1), n.to(T))
        loss = loss * (1.0 - smoothing) + mean * smoothing
    loss = tl.where(t == ignore, tl.zeros_like(loss), loss)
    tl.store(out + offset(row, shape, so), loss.to(out.dtype.element_ty), mask=row_mask)


@triton.jit
def cross_entropy_backward(
    d, x, target, weight, count, out, m, n, ignore, smoothing, shape, sd, sx, st, so, cx, co, sw,
    SMOOTH: tl.constexpr, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    GROUP: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """`count`: what the sum of all losses is divided by; None: nothing is.

    HELD: steps at the beginning of a row whose elements stay in registers; only of a half type.
    """
    row, row_mask, rows, t = _rows(x, target, m, shape, sx, st, BLOCK_M)
    STEP: tl.constexpr = BLOCK_N * GROUP if GROUP else BLOCK_N
    held = _held(rows, row_mask, cx, HELD, STEP)
    LAST: tl.constexpr = "evict_first" if HELD else ""
    behind = rows[:, None] + HELD * STEP * cx
    if HELD:
        top, total = largest_and_total(
            behind, row_mask, n - HELD * STEP, cx, False, True, T, BLOCK_M, BLOCK_N, GROUP
        )
        top, total = _with_held(top, total, held, HELD, T)
    else:
        top, total = _largest(behind, row_mask, n, cx, T, BLOCK_M, BLOCK_N, GROUP)
    own = _weight(t, weight, n, ignore, sw, row_mask, T)
    slope = tl.load(d + offset(row, shape, sd), mask=row_mask, other=0).to(T)
    if count is not None:
        slope = divide(slope, tl.zeros_like(slope) + tl.load(count))
    slope = tl.where(t == ignore, tl.zeros_like(slope), slope)
    each = tl.zeros([BLOCK_M], T)
    if SMOOTH:
        whole = tl.zeros([BLOCK_N], T)
        for start in range(0, n, BLOCK_N):
            column, column_mask = span(start, n, BLOCK_N)
            if weight is not None:
                whole += tl.load(weight + column * sw, mask=column_mask, other=0).to(T)
            else:
                whole += column_mask.to(T)
        each += divide(smoothing, n.to(T))
        share = own * (1.0 - smoothing) + each * tl.sum(whole, 0)
        own = own * (1.0 - smoothing)
    else:
        share = own
    goal = out + offset(row, shape, so)[:, None]
    # a class of the row, or none
    chosen = tl.where((t >= 0) & (t < n), t, -1).to(n.dtype)
    share = divide(share * slope, total)[:, None]
    own = (own * slope)[:, None]
    each = (each * slope)[:, None]
    for number in tl.static_range(HELD):
        column, column_mask, mask = across(number * STEP, n, row_mask, STEP)
        _slopes(
            _again(held[number]).to(T), goal, column, column_mask, mask, top, share, own, each,
            chosen, t, weight, ignore, co, sw, SMOOTH, T, GROUP,
        )  # fmt: skip
    for start in range(HELD * STEP, n, STEP):
        column, column_mask, mask = across(start, n, row_mask, STEP)
        p = rows[:, None] + (column * cx)[None, :]
        value = tl.load(p, mask=mask, other=0, eviction_policy=LAST).to(T)
        _slopes(
            value, goal, column, column_mask, mask, top, share, own, each, chosen, t,
            weight, ignore, co, sw, SMOOTH, T, GROUP,
        )  # fmt: skip


@triton.jit
def _slopes(
    value, goal, column, column_mask, mask, top, share, own, each, chosen, t, weight, ignore, co,
    sw, SMOOTH: tl.constexpr, T: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Store the gradient of the elements `value` in these columns."""
    D: tl.constexpr = goal.dtype.scalar.element_ty
    part = _power(value - top[:, None], D) * share
    part -= tl.where(column[None, :] == chosen[:, None], own, tl.zeros_like(part))
    if SMOOTH:
        less = tl.zeros_like(part) + each
        if weight is not None:
            less *= tl.load(weight + column * sw, mask=column_mask, other=0).to(T)[None, :]
        part -= less
    part = tl.where(t[:, None] == ignore, tl.zeros_like(part), part)
    tl.store(
        goal + (column * co)[None, :],
        part.to(D),
        mask=mask,
        cache_modifier=".cs" if GROUP else "",
    )


@triton.jit
def _held(rows, row_mask, cx, HELD: tl.constexpr, STEP: tl.constexpr):
    """The elements of HELD steps at the beginning of rows."""
    found = ()
    for number in tl.static_range(HELD):
        column = number * STEP + tl.arange(0, STEP)
        value = tl.load(
            rows[:, None] + (column * cx)[None, :],
            mask=row_mask[:, None] & (column >= 0)[None, :],
            other=float("-inf"),
            eviction_policy="evict_first",
        )
        found = found + (value,)  # noqa: RUF005 -- Triton knows no star in a tuple
    return found


@triton.jit
def _with_held(top, total, held, HELD: tl.constexpr, T: tl.constexpr):
    """`largest_and_total` of rows, with the elements that are held."""
    most = held[0]
    for number in tl.static_range(1, HELD):
        most = tl.maximum(most, held[number])
    most = tl.max(most.to(T), 1)
    now = tl.where(most > top, most, top)
    shift = tl.where(now == float("-inf"), tl.zeros_like(now), now)
    part = quick_exp(_again(held[0]).to(T) - shift[:, None])
    for number in tl.static_range(1, HELD):
        part += quick_exp(_again(held[number]).to(T) - shift[:, None])
    return now, total * quick_exp(top - shift) + tl.sum(part, 1)


@triton.jit
def _again(x):
    """The same elements of a half type: the compiler would keep what else it has made of them, for
    which there are no registers.
    """
    return tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [x], dtype=x.dtype, is_pure=False, pack=2
    )


@triton.jit
def _power(x, D: tl.constexpr):
    """e**x for x <= 0, as exact as type `D` shows."""
    if D.primitive_bitwidth == 16:
        return quick_exp(x)
    else:
        return exp(x)


@triton.jit
def _shares(
    y, weight, column, mask, column_mask, n, smoothing, cy, sw,
    SMOOTH: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """The probabilities of classes, smoothed, times the classes' weights."""
    share = tl.load(y + (column * cy)[None, :], mask=mask, other=0).to(T)
    if SMOOTH:
        share = share * (1.0 - smoothing) + divide(smoothing, n.to(T))
    if weight is not None:
        share *= tl.load(weight + column * sw, mask=column_mask, other=0).to(T)[None, :]
    return tl.where(mask, share, tl.zeros_like(share))


@triton.jit
def _pairs(x, y, m, shape, sx, sy, BLOCK_M: tl.constexpr):
    """This block's rows, their mask, and where they begin in `x` and in `y`."""
    row, mask = positions(m, BLOCK_M)
    return row, mask, x + offset(row, shape, sx)[:, None], y + offset(row, shape, sy)[:, None]


@triton.jit
def soft_cross_entropy(
    x, y, weight, out, m, n, smoothing, shape, sx, sy, so, cx, cy, sw,
    SMOOTH: tl.constexpr, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """-sum(y * log(softmax(x))) of each row: `y` are the probabilities of the classes."""
    row, row_mask, rows, others = _pairs(x, y, m, shape, sx, sy, BLOCK_M)
    top, whole = _largest(rows, row_mask, n, cx, T, BLOCK_M, BLOCK_N, GROUP)
    log = libdevice.log(whole)[:, None]
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    lost = tl.zeros([BLOCK_M, BLOCK_N], T)
    for start in range(0, n, BLOCK_N):
        column, column_mask, mask = across(start, n, row_mask, BLOCK_N)
        value = tl.load(rows + (column * cx)[None, :], mask=mask, other=0).to(T)
        share = _shares(
            others, weight, column, mask, column_mask, n, smoothing, cy, sw, SMOOTH, T
        )  # fmt: skip
        part = tl.where(mask, (log - (value - top[:, None])) * share, tl.zeros_like(value))
        total, lost = accumulate(total, lost, part)
    loss = tl.sum(settled(total, lost), 1)
    tl.store(out + offset(row, shape, so), loss.to(out.dtype.element_ty), mask=row_mask)


@triton.jit
def soft_cross_entropy_backward(
    d, x, y, weight, out, m, n, count, smoothing, shape, sx, sy, so, sd, cx, cy, co, sw,
    SMOOTH: tl.constexpr, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """`count`: what the sum of all losses is divided by."""
    row, row_mask, rows, others = _pairs(x, y, m, shape, sx, sy, BLOCK_M)
    top, whole = _largest(rows, row_mask, n, cx, T, BLOCK_M, BLOCK_N, GROUP)
    slope = tl.load(d + offset(row, shape, sd), mask=row_mask, other=0).to(T)
    slope = divide(slope, tl.zeros_like(slope) + count.to(T))[:, None]
    total = tl.zeros([BLOCK_M, BLOCK_N], T)
    for start in range(0, n, BLOCK_N):
        column, column_mask, mask = across(start, n, row_mask, BLOCK_N)
        total += _shares(
            others, weight, column, mask, column_mask, n, smoothing, cy, sw, SMOOTH, T
        )  # fmt: skip
    share = tl.sum(total, 1)[:, None]
    goal = out + offset(row, shape, so)[:, None]
    for start in range(0, n, BLOCK_N):
        column, column_mask, mask = across(start, n, row_mask, BLOCK_N)
        value = tl.load(rows + (column * cx)[None, :], mask=mask, other=0).to(T)
        part = divide(exp(value - top[:, None]), whole[:, None]) * share
        part -= _shares(
            others, weight, column, mask, column_mask, n, smoothing, cy, sw, SMOOTH, T
        )  # fmt: skip
        tl.store(goal + (column * co)[None, :], (part * slope).to(out.dtype.element_ty), mask=mask)
