"""Every element with all before it, along one axis: sums, products, extremes.

`m` rows anywhere (shape and strides, see `layouts`) of `n` elements that are `cx` apart in the
input and `co` apart in the output. Grid y cuts a row into pieces of `chunk` elements. What comes
before a piece is found first: `ends` gives what each piece makes of its elements, and `scan` takes
the pieces before its own together, always in the same order.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .arithmetic import accumulate, exp, settled
from .arithmetic import maximum as _maximum
from .functions.arithmetic import minimum
from .indexing import element, memory, offset, positions
from .maps import combine, combined, identity
from .tails import at_places


@triton.jit
def operator(value):
    """Stands for the device function that a result goes through before it is stored, with what
    stands beside it (`tails.at_places`)."""
    return value


@triton.jit
def before(value):
    """Stands for the device function that gives what is scanned, of what lies in `x` and stands
    beside it."""
    return value


@triton.jit
def _add(x, y):
    return x + y


@triton.jit
def _multiply(x, y):
    return x * y


@triton.jit
def _log_add(x, y):
    """log(exp(x) + exp(y))."""
    top = _maximum(x, y)
    apart = tl.where(x > y, y - x, x - y)
    # equal infinities: their difference would be nan
    sure = (tl.abs(top) == float("inf")) | (x == y)
    both = tl.where(tl.abs(top) == float("inf"), top, top + 0.6931471805599453)
    apart = tl.where(sure, tl.zeros_like(apart), apart)
    return tl.where(sure, both, top + libdevice.log1p(exp(apart)))


@triton.jit
def _later_max(x, i, y, j):
    """The larger one and its index: the later of equals, nan above all (torch's cummax)."""
    take = (y >= x) | (y != y)
    take = take & ((x == x) | (y != y))
    return tl.where(take, y, x), tl.where(take, j, i)


@triton.jit
def _later_min(x, i, y, j):
    take = (y <= x) | (y != y)
    take = take & ((x == x) | (y != y))
    return tl.where(take, y, x), tl.where(take, j, i)


@triton.jit
def _none(T: tl.constexpr, OP: tl.constexpr):
    """The neutral element of `OP`."""
    if OP == "sum":
        return tl.full((), 0, T)
    elif OP == "logsum":
        return tl.full((), float("-inf"), T)
    else:
        return identity(T, OP)


@triton.jit
def _both(x, y, OP: tl.constexpr):
    if OP == "sum":
        return x + y
    elif OP == "logsum":
        return _log_add(x, y)
    else:
        return combine(y, x, OP)


@triton.jit
def _scanned(x, OP: tl.constexpr, REVERSE: tl.constexpr):
    if OP == "sum":
        return tl.associative_scan(x, 1, _add, reverse=REVERSE)
    elif OP == "prod":
        return tl.associative_scan(x, 1, _multiply, reverse=REVERSE)
    elif OP == "logsum":
        return tl.associative_scan(x, 1, _log_add, reverse=REVERSE)
    elif OP == "max":
        return tl.associative_scan(x, 1, _maximum, reverse=REVERSE)
    else:
        return tl.associative_scan(x, 1, minimum, reverse=REVERSE)


@triton.jit
def _reduced(x, OP: tl.constexpr):
    """The elements of each row to one."""
    if OP == "sum":
        return tl.sum(x, 1)
    elif OP == "logsum":
        return tl.reduce(x, 1, _log_add)
    else:
        return combined(x, OP)


@triton.jit
def _grown(carry, lost, part, OP: tl.constexpr):
    """`carry` with one part more, and what the rounding of sums has lost."""
    if OP == "sum":
        return accumulate(carry, lost, part)
    else:
        return _both(carry, part, OP), lost


@triton.jit
def scan(
    x, ends, out, m, n, chunk, from_x, from_out, shape, sx, so, cx, co,
    c, d, e, sc, sd, se, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    f, g, h, sf, sg, sh, F: tl.constexpr, G: tl.constexpr, H: tl.constexpr,
    BEFORE: tl.constexpr,
    OP: tl.constexpr, EXCLUSIVE: tl.constexpr, ENDS: tl.constexpr, PIECES: tl.constexpr,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Elements go from `from_x` on in each row of `x`, from `from_out` on in `out`.

    `c`, `d`, `e` stand beside the results that go through `operator` (`tails.at_places`); BEFORE:
    `f`, `g`, `h` beside `x`, whose elements go through `before`.

    EXCLUSIVE: an element is not among those that are taken together in its place. ENDS: what each
    piece gives goes to `out`, row by row for each piece, and nothing else. `ends`: what that left.
    """
    row, row_mask = positions(m, BLOCK_M)
    piece = tl.program_id(1).to(n.dtype)
    first = piece * chunk
    last = first + tl.minimum(chunk, n - first)
    carry = tl.zeros([BLOCK_M], T) + _none(T, OP)
    lost = tl.zeros([BLOCK_M], T)
    if ends is not None:
        for start in range(0, piece, PIECES):
            ended = start + tl.arange(0, PIECES).to(n.dtype)
            mask = row_mask[:, None] & (ended < piece)[None, :]
            value = tl.load(ends + row[:, None] + (ended * m)[None, :], mask=mask, other=0)
            value = tl.where(mask, value, _none(T, OP))
            carry, lost = _grown(carry, lost, _reduced(value, OP), OP)
    first_in = from_x + offset(row, shape, sx)[:, None]
    rows = memory(x) + first_in
    if not ENDS:
        first_of_row = from_out + offset(row, shape, so)
        goal = first_of_row[:, None]
        if EXCLUSIVE:
            start_mask = row_mask & (piece == 0)
            nothing = tl.zeros([BLOCK_M], T) + _none(T, OP)
            alone = at_places(nothing, c, d, e, sc, sd, se, C, D, E, first_of_row, row, start_mask)
            nothing = operator(*alone)
            tl.store(out + first_of_row, nothing.to(out.dtype.element_ty), mask=start_mask)
    lane = tl.arange(0, BLOCK_N).to(n.dtype)
    for start in range(first, last, BLOCK_N):
        mask = row_mask[:, None] & (lane < last - start)[None, :]
        p = (rows + start * cx) + (lane * cx)[None, :]
        if BEFORE:
            at = (first_in + start * cx) + (lane * cx)[None, :]
            read = tl.load(p, mask=mask, other=0)
            if x.dtype.element_ty == tl.int1:
                read = read != 0
            each = at_places(read, f, g, h, sf, sg, sh, F, G, H, at, row[:, None], mask)
            value = tl.where(mask, before(*each).to(T), _none(T, OP))
        else:
            value = tl.where(mask, element(tl.load(p, mask=mask, other=0), x, T), _none(T, OP))
        if not ENDS:
            if BLOCK_N == 1:
                inner = value
            else:
                inner = _scanned(value, OP, False)
            if OP == "sum":
                inner = settled(carry, lost)[:, None] + inner
            else:
                inner = _both(carry[:, None], inner, OP)
            to = (goal + start * co) + (lane * co)[None, :]
            if EXCLUSIVE:
                to += co
                mask = mask & (lane < n - 1 - start)[None, :]
            found = at_places(inner, c, d, e, sc, sd, se, C, D, E, to, row[:, None], mask)
            inner = operator(*found)
            tl.store(out + to, inner.to(out.dtype.element_ty), mask=mask)
        carry, lost = _grown(carry, lost, _reduced(value, OP), OP)
    if ENDS:
        if OP == "sum":
            carry = settled(carry, lost)
        tl.store(out + piece * m + row, carry, mask=row_mask)


@triton.jit
def scan_arg(
    x, ends, ends_at, out, at, m, n, chunk, from_x, from_out, shape, sx, so, cx, co,
    LARGEST: tl.constexpr, ENDS: tl.constexpr, PIECES: tl.constexpr,
    T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """`scan` of extremes, with the index of each in its row: the last one of equals."""
    row, row_mask = positions(m, BLOCK_M)
    piece = tl.program_id(1).to(n.dtype)
    first = piece * chunk
    last = first + tl.minimum(chunk, n - first)
    NONE: tl.constexpr = "max" if LARGEST else "min"
    best = tl.zeros([BLOCK_M], T) + identity(T, NONE)
    index = tl.zeros([BLOCK_M], n.dtype)
    if ends is not None:
        for start in range(0, piece, PIECES):
            before = start + tl.arange(0, PIECES).to(n.dtype)
            mask = row_mask[:, None] & (before < piece)[None, :]
            p = row[:, None] + (before * m)[None, :]
            value = tl.where(mask, tl.load(ends + p, mask=mask, other=0), identity(T, NONE))
            place = tl.load(ends_at + p, mask=mask, other=0).to(n.dtype)
            # a piece that is none would come after the others, and be taken for an equal
            place = tl.where(mask, place, -1)
            top, where = _last_of(value, place, LARGEST)
            best, index = _later(best, index, top, where, LARGEST)
    rows = memory(x) + from_x + offset(row, shape, sx)[:, None]
    lane = tl.arange(0, BLOCK_N).to(n.dtype)
    for start in range(first, last, BLOCK_N):
        mask = row_mask[:, None] & (lane < last - start)[None, :]
        p = (rows + start * cx) + (lane * cx)[None, :]
        value = tl.where(mask, element(tl.load(p, mask=mask, other=0), x, T), identity(T, NONE))
        place = tl.zeros([BLOCK_M, BLOCK_N], n.dtype) + (start + lane)[None, :]
        place = tl.where(mask, place, -1)
        if not ENDS:
            if BLOCK_N == 1:
                inner, where = value, place
            elif LARGEST:
                inner, where = tl.associative_scan((value, place), 1, _later_max)
            else:
                inner, where = tl.associative_scan((value, place), 1, _later_min)
            inner, where = _later(best[:, None], index[:, None], inner, where, LARGEST)
            to = from_out + offset(row, shape, so)[:, None] + ((start + lane) * co)[None, :]
            tl.store(out + to, inner.to(out.dtype.element_ty), mask=mask)
            tl.store(at + to, where.to(at.dtype.element_ty), mask=mask)
        top, where = _last_of(value, place, LARGEST)
        best, index = _later(best, index, top, where, LARGEST)
    if ENDS:
        tl.store(out + piece * m + row, best, mask=row_mask)
        tl.store(at + piece * m + row, index.to(at.dtype.element_ty), mask=row_mask)


@triton.jit
def _later(x, i, y, j, LARGEST: tl.constexpr):
    if LARGEST:
        return _later_max(x, i, y, j)
    else:
        return _later_min(x, i, y, j)


@triton.jit
def _last_of(x, i, LARGEST: tl.constexpr):
    if LARGEST:
        return tl.reduce((x, i), 1, _last_max)
    else:
        return tl.reduce((x, i), 1, _last_min)


@triton.jit
def _last_max(x, i, y, j):
    """`_later_max` in any order of the operands, as a reduction may take them."""
    same = (x == y) | ((x != x) & (y != y))
    take = tl.where(same, j > i, (y > x) | (y != y)) & ((x == x) | (y != y))
    return tl.where(take, y, x), tl.where(take, j, i)


@triton.jit
def _last_min(x, i, y, j):
    same = (x == y) | ((x != x) & (y != y))
    take = tl.where(same, j > i, (y < x) | (y != y)) & ((x == x) | (y != y))
    return tl.where(take, y, x), tl.where(take, j, i)
