"""Elements from one place to another; see `indexing` for shapes and strides.

Nothing is read or written outside of the arrays, whatever an array of indices contains.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .eight_bits import encoded
from .indexing import at, element, memory, offset, part, positions, span, steps_of


@triton.jit
def copy(
    x, out, n, from_x, from_out, shape, sx, so,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Elements from `from_x` on to elements from `from_out` on."""
    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)
        value = tl.load(at(memory(x) + from_x, i, shape, sx), mask=mask)
        value = element(value, x, out.dtype.element_ty)
        tl.store(at(out + from_out, i, shape, so), value, mask=mask)


@triton.jit
def difference(
    x, out, n, step, shape, sx, so,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """From each element to the one `step` on."""
    T: tl.constexpr = tl.int8 if x.dtype.element_ty == tl.int1 else x.dtype.element_ty
    for number in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):
        i, mask = part(n, shape, number, BLOCK, STEPS, ROWS)
        p = at(memory(x), i, shape, sx)
        value = element(tl.load(p + step, mask=mask), x, T) - element(tl.load(p, mask=mask), x, T)
        tl.store(at(out, i, shape, so), value.to(out.dtype.element_ty), mask=mask)


@triton.jit
def transposed(
    x, out, rows, columns, from_x, from_out, shape, sx, so, xc, ro,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """`copy` of matrices whose columns lie side by side in `x`, `xc` apart, and whose rows do so in
    `out`, `ro` apart: both sides are reached along memory. Grid: tiles, column by column; matrices.
    """
    tiles = tl.cdiv(rows, BLOCK_R)
    tile = tl.program_id(0).to(rows.dtype)
    r, r_mask = span(tile % tiles * BLOCK_R, rows, BLOCK_R)
    c, c_mask = span(tile // tiles * BLOCK_C, columns, BLOCK_C)
    mask = r_mask[:, None] & c_mask[None, :]
    i = tl.program_id(1).to(rows.dtype)
    p = memory(x) + from_x + offset(i, shape, sx)
    value = tl.load(p + r[:, None] + (c * xc)[None, :], mask=mask)
    value = element(value, x, out.dtype.element_ty)
    p = out + from_out + offset(i, shape, so)
    tl.store(p + (r * ro)[:, None] + c[None, :], value, mask=mask)


@triton.jit
def pad(
    x, out, n, value, shape, sx, so, lengths, before,
    MODE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`x` of `lengths`, with `before` elements in front along each axis: `shape` is that of the
    result without its outermost length, all strides are given.
    """
    i, mask = positions(n, BLOCK)
    rest = i
    place = i * 0
    goal = i * 0
    inside = mask
    ENDS: tl.constexpr = 0 if MODE == "symmetric" else 1
    for axis in tl.static_range(len(lengths) - 1, -1, -1):
        if axis > 0:
            own = rest % shape[axis - 1]
            rest = rest // shape[axis - 1]
        else:
            own = rest
        goal += own * so[axis]
        length = lengths[axis]
        own = own - before[axis]
        if MODE == "constant":
            inside = inside & (own >= 0) & (own < length)
        elif MODE == "edge":
            own = tl.minimum(tl.maximum(own, 0), length - 1)
        elif MODE == "wrap":
            own = own % length
            own = tl.where(own < 0, own + length, own)
        else:
            # there and back: of a period of 2 * length - 2 (symmetric: 2 * length) elements
            period = tl.maximum(2 * (length - ENDS), 1)
            own = own % period
            own = tl.where(own < 0, own + period, own)
            own = tl.where(own < length, own, period - (1 - ENDS) - own)
        place += own * sx[axis]
    found = element(tl.load(memory(x) + place, mask=inside, other=0), x, out.dtype.element_ty)
    if MODE == "constant":
        found = tl.where(inside, found, value.to(out.dtype.element_ty))
    tl.store(out + goal, found, mask=mask)


@triton.jit
def triangle(
    x, out, n, k, rows, columns, shape, sx, so, UPPER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Elements of matrices on and above (UPPER) or below the diagonal `k`, and zeros."""
    i, mask = positions(n, BLOCK)
    column = i % columns
    row = i // columns % rows
    if UPPER:
        stays = column - row >= k
    else:
        stays = column - row <= k
    p = memory(x) + offset(i, shape, sx)
    value = element(tl.load(p, mask=mask & stays, other=0), x, out.dtype.element_ty)
    tl.store(out + offset(i, shape, so), value, mask=mask)


@triton.jit
def clipped(own, length):
    """Indices that count from the end where they are below 0, and stay inside."""
    own = tl.where(own < 0, own + length, own)
    return tl.minimum(tl.maximum(own, 0), length - 1)


@triton.jit
def picked(x, index, i, mask, n, shape, sx, si, length, step, T: tl.constexpr):
    """Elements `i` of what `take` gives (MODE `clip`), as type `T`."""
    own = tl.load(at(index, i, shape, si), mask=mask, other=0).to(tl.int64)
    p = at(memory(x), i, shape, sx) + clipped(own, length).to(n.dtype) * step
    return element(tl.load(p, mask=mask), x, T)


@triton.jit
def take(
    x, index, out, n, length, step, shape, sx, si, so,
    MODE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[i] is the element of x that lies index[i] steps on from where `sx` leads.

    MODE of an index outside of `length`: it counts from the end and stays inside (`clip`), goes
    around (`wrap`), or gives 0 (`zero`).
    """
    i, mask = positions(n, BLOCK)
    own = tl.load(index + offset(i, shape, si), mask=mask, other=0).to(tl.int64)
    reads = mask
    if MODE == "wrap":
        own = own % length
        own = tl.where(own < 0, own + length, own)
    elif MODE == "zero":
        own = tl.where(own < 0, own + length, own)
        reads = reads & (own >= 0) & (own < length)
    else:
        own = clipped(own, length)
    p = memory(x) + offset(i, shape, sx) + own.to(n.dtype) * step
    value = element(tl.load(p, mask=reads, other=0), x, out.dtype.element_ty)
    tl.store(out + offset(i, shape, so), value, mask=mask)


@triton.jit
def scatter(
    index, source, out, n, count, length, step, index_step, source_step, shape, si, ss, so,
    OP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """For each of `n` lines, `count` elements of `source` to where their indices say, one after the
    other: the last one stays where several go to one place, and sums are in that order, in the
    type of `out`.
    """
    i, mask = positions(n, BLOCK)
    pi = index + offset(i, shape, si)
    ps = memory(source) + offset(i, shape, ss)
    po = out + offset(i, shape, so)
    for k in range(count):
        own = tl.load(pi + k * index_step, mask=mask, other=0).to(tl.int64)
        own = tl.where(own < 0, own + length, own)
        inside = mask & (own >= 0) & (own < length)
        p = po + own.to(n.dtype) * step
        value = element(
            tl.load(ps + k * source_step, mask=inside, other=0), source, out.dtype.element_ty
        )
        put(p, value, inside, OP)


@triton.jit
def _nd_place(index, lengths, steps, last, mask, MODE: tl.constexpr):
    """Where indices lead that are `last` apart, one for each of `lengths`; and which of them are
    inside. MODE as of `take`.
    """
    goal = tl.zeros_like(index.to(tl.int64, bitcast=True))
    inside = mask
    for axis in tl.static_range(len(lengths)):
        own = tl.load(index + axis * last, mask=mask, other=0).to(tl.int64)
        length = lengths[axis]
        if MODE == "wrap":
            own = own % length
            own = tl.where(own < 0, own + length, own)
        else:
            own = tl.where(own < 0, own + length, own)
            if MODE == "zero":
                inside = inside & (own >= 0) & (own < length)
            else:
                own = tl.minimum(tl.maximum(own, 0), length - 1)
        goal += own * steps[axis]
    return tl.where(inside, goal, 0), inside


@triton.jit
def take_nd(
    x, index, out, n, lengths, steps, last, shape, sx, si, so,
    MODE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[i] is the element of x to which the indices at `si` lead, from where `sx` does."""
    i, mask = positions(n, BLOCK)
    place, inside = _nd_place(index + offset(i, shape, si), lengths, steps, last, mask, MODE)
    p = memory(x) + offset(i, shape, sx) + place
    value = element(tl.load(p, mask=inside, other=0), x, out.dtype.element_ty)
    tl.store(out + offset(i, shape, so), value, mask=mask)


@triton.jit
def put(p, value, mask, OP: tl.constexpr):
    """`value`, or what OP makes of it and of what is there, to `p`."""
    if OP != "set":
        old = tl.load(p, mask=mask, other=0)
        if OP == "add":
            value = old + value
        elif OP == "multiply":
            value = old * value
        elif OP == "max":
            value = tl.where((value > old) | (value != value), value, old)
        else:
            value = tl.where((value < old) | (value != value), value, old)
    tl.store(p, value, mask=mask)


@triton.jit
def scatter_nd(
    index, source, out, n, count, lengths, steps, last, rows, ri, rs, shape, ss, so,
    OP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """For each of `n` elements of a slice, that of `count` slices of `source` to where their rows
    of indices say, one after the other; `rows` are these slices, `shape` is the slice.
    """
    i, mask = positions(n, BLOCK)
    ps = memory(source) + offset(i, shape, ss)
    po = out + offset(i, shape, so)
    for k in range(count):
        own = index + offset(k.to(n.dtype), rows, ri)
        place, inside = _nd_place(own, lengths, steps, last, True, "zero")
        inside = mask & inside
        value = tl.load(ps + offset(k.to(n.dtype), rows, rs), mask=inside, other=0)
        put(po + place, element(value, source, out.dtype.element_ty), inside, OP)


@triton.jit
def place(
    index, x, out, n, count, page, to_page, step, shape, si, st, sx, so, BLOCK: tl.constexpr,
):  # fmt: skip
    """Element i of `x` to place index[i] (and as many on as `st` leads to) of `count`; they lie in
    pages of `page`, `to_page` apart, and `step` apart in a page. Nothing goes to other places.
    """
    i, mask = positions(n, BLOCK)
    own = tl.load(index + offset(i, shape, si), mask=mask, other=-1).to(tl.int64)
    own = tl.where(own < 0, own, own + offset(i, shape, st))
    inside = mask & (own >= 0) & (own < count)
    own = tl.where(inside, own, 0).to(n.dtype)
    value = tl.load(memory(x) + offset(i, shape, sx), mask=inside, other=0)
    value = element(value, x, out.dtype.element_ty)
    p = out + offset(i, shape, so) + own // page * to_page + own % page * step
    tl.store(p, value, mask=inside)


@triton.jit
def one_hot(index, out, n, classes, shape, si, BELOW: tl.constexpr, BLOCK: tl.constexpr):
    """out[i, c] is c == index[i], or c < index[i] (BELOW): `shape` is that of the result without
    its outermost length.
    """
    i, mask = positions(n, BLOCK)
    own = tl.load(index + offset(i, shape, si), mask=mask, other=0).to(tl.int64)
    if BELOW:
        value = i % classes < own
    else:
        value = own == i % classes
    tl.store(out + i, value.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _stored(value, out, KIND: tl.constexpr):
    """`value` as the elements of `out` are: where these are bytes of floats of 8 bits, its bits."""
    if KIND != "":
        value = encoded(value.to(tl.float32), KIND, True)
    return value.to(out.dtype.element_ty)


@triton.jit
def diagonal(out, n, columns, k, shape, so, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """1 on the diagonal `k` of a matrix and 0 elsewhere. KIND: of floats of 8 bits (`_stored`)."""
    i, mask = positions(n, BLOCK)
    value = i % columns - i // columns == k
    tl.store(out + offset(i, shape, so), _stored(value, out, KIND), mask=mask)


@triton.jit
def sequence(
    out, n, start, step, last, base, shape, so, T: tl.constexpr, KIND: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """start + i * step; the last one is `last`, if that is given. Or `base` to the power of it.

    KIND: of floats of 8 bits (`_stored`).
    """
    i, mask = positions(n, BLOCK)
    value = i.to(T) * step.to(T) + start.to(T)
    if last is not None:
        value = tl.where(i == n - 1, last.to(T), value)
    if base is not None:
        value = libdevice.pow(value * 0 + base.to(T), value)
    tl.store(out + offset(i, shape, so), _stored(value, out, KIND), mask=mask)
