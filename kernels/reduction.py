"""Many elements to one, along any axes.

The input is an index space of `kept` x `reduced` elements, each part with its own shape and strides
(see `layouts`). A block takes BLOCK_K kept indices; grid y cuts the reduced indices into parts of
`chunk`, each of which writes its own result, `part` elements after the one before.
"""

import triton
import triton.language as tl

from .arithmetic import accumulate, divide, lowest, settled
from .indexing import element, memory, offset, positions, span
from .maps import after, before, combine, combined, highest, identity


@triton.jit
def sum(
    x, out, kept, reduced, chunk, part, kept_shape, kx, ko, reduced_shape, rx,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
    LONG: tl.constexpr,
):  # fmt: skip
    """LONG: so many steps are added one after the other, then to the whole (`accumulate`), so that
    the error of a sum does not grow with its length; 0: there are no more of them.
    """
    if STEPS and len(rx) == 0:
        first, end = _tiles(kept, BLOCK_K)
        for number in range(first, end):
            k, k_mask = _tile(number, kept, BLOCK_K)
            _sum(
                x, out, k, k_mask, reduced, chunk, part, kept_shape, kx, ko, reduced_shape, rx,
                T, BLOCK_K, BLOCK_R, STEPS, LONG,
            )  # fmt: skip
    else:
        k, k_mask = positions(kept, BLOCK_K)
        _sum(
            x, out, k, k_mask, reduced, chunk, part, kept_shape, kx, ko, reduced_shape, rx,
            T, BLOCK_K, BLOCK_R, STEPS, LONG,
        )  # fmt: skip


@triton.jit
def _sum(
    x, out, k, k_mask, reduced, chunk, part, kept_shape, kx, ko, reduced_shape, rx,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
    LONG: tl.constexpr,
):  # fmt: skip
    total = _summed(
        x, k_mask, offset(k, kept_shape, kx), reduced, chunk, reduced_shape, rx, None, None,
        T, T, BLOCK_K, BLOCK_R, STEPS, LONG, "",
    )  # fmt: skip
    p = out + tl.program_id(1).to(reduced.dtype) * part + offset(k, kept_shape, ko)
    tl.store(p, total.to(out.dtype.element_ty), mask=k_mask)


@triton.jit
def total(
    x, aux, out, kept, reduced, chunk, part, count, p, kept_shape, kx, ko, reduced_shape, rx,
    MAP: tl.constexpr, FINISH: tl.constexpr, S: tl.constexpr,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
    LONG: tl.constexpr,
):  # fmt: skip
    """`sum` of what `MAP` makes of the elements in type `S`; `FINISH` makes the results of it.

    `aux` has a number for each kept index, `count` and `p` are the same for all.
    """
    if STEPS and len(rx) == 0:
        first, end = _tiles(kept, BLOCK_K)
        for number in range(first, end):
            k, k_mask = _tile(number, kept, BLOCK_K)
            _total(
                x, aux, out, k, k_mask, reduced, chunk, part, count, p, kept_shape, kx, ko,
                reduced_shape, rx,
                MAP, FINISH, S, T, BLOCK_K, BLOCK_R, STEPS, LONG,
            )  # fmt: skip
    else:
        k, k_mask = positions(kept, BLOCK_K)
        _total(
            x, aux, out, k, k_mask, reduced, chunk, part, count, p, kept_shape, kx, ko,
            reduced_shape, rx,
            MAP, FINISH, S, T, BLOCK_K, BLOCK_R, STEPS, LONG,
        )  # fmt: skip


@triton.jit
def _total(
    x, aux, out, k, k_mask, reduced, chunk, part, count, p, kept_shape, kx, ko,
    reduced_shape, rx,
    MAP: tl.constexpr, FINISH: tl.constexpr, S: tl.constexpr,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
    LONG: tl.constexpr,
):  # fmt: skip
    centre = None
    if aux is not None:
        centre = tl.load(aux + k, mask=k_mask, other=0)
    total = _summed(
        x, k_mask, offset(k, kept_shape, kx), reduced, chunk, reduced_shape, rx, centre, p,
        S, T, BLOCK_K, BLOCK_R, STEPS, LONG, MAP,
    )  # fmt: skip
    total = after(total, centre, count, p, FINISH)
    place = out + tl.program_id(1).to(reduced.dtype) * part + offset(k, kept_shape, ko)
    tl.store(place, total.to(out.dtype.element_ty), mask=k_mask)


@triton.jit
def _tiles(kept, BLOCK_K: tl.constexpr):
    """This block's tiles of kept indices: their first number and the one behind the last."""
    count = (kept - 1) // BLOCK_K + 1
    blocks = tl.num_programs(0).to(kept.dtype)
    each = (count - 1) // blocks + 1
    first = tl.minimum(tl.program_id(0).to(kept.dtype) * each, count)
    return first, first + tl.minimum(each, count - first)


@triton.jit
def _tile(number, kept, BLOCK_K: tl.constexpr):
    """The kept indices of a tile and their mask. The last one stands for those behind it, too, so
    that all of them are there.
    """
    start = number * BLOCK_K
    lane = tl.arange(0, BLOCK_K).to(kept.dtype)
    return start + tl.minimum(lane, kept - 1 - start), tl.full([BLOCK_K], 1, tl.int1)


@triton.jit
def _summed(
    x, k_mask, rows, reduced, chunk, reduced_shape, rx, centre, power,
    S: tl.constexpr, T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr,
    STEPS: tl.constexpr, LONG: tl.constexpr, MAP: tl.constexpr,
):  # fmt: skip
    """The sums of this block's piece of each of `rows`."""
    first = tl.program_id(1).to(reduced.dtype) * chunk
    last = first + tl.minimum(chunk, reduced - first)
    total = tl.zeros([BLOCK_K, BLOCK_R], T)
    if LONG:
        lost = tl.zeros([BLOCK_K, BLOCK_R], T)
        for begin in range(first, last, BLOCK_R * LONG):
            end = begin + tl.minimum(BLOCK_R * LONG, last - begin)
            partial = _added(
                tl.zeros([BLOCK_K, BLOCK_R], T), begin, end,
                x, k_mask, rows, last, reduced_shape, rx, centre, power, S, T, BLOCK_R, STEPS, MAP,
            )  # fmt: skip
            total, lost = accumulate(total, lost, partial)
        total = settled(total, lost)
    else:
        total = _added(
            total, first, last,
            x, k_mask, rows, last, reduced_shape, rx, centre, power, S, T, BLOCK_R, STEPS, MAP,
        )  # fmt: skip
    return tl.sum(total, 1)


@triton.jit
def _added(
    total, begin, end, x, k_mask, rows, last, reduced_shape, rx, centre, power,
    S: tl.constexpr, T: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
    MAP: tl.constexpr,
):  # fmt: skip
    """`total` and the terms of the elements from `begin` to `end`."""
    whole = begin + (end - begin) // BLOCK_R * BLOCK_R if STEPS else begin
    if STEPS:  # a CPU's masks cost more than code of their own for the last step
        for start in range(begin, whole, BLOCK_R):
            p, _ = _elements(memory(x), rows, start, last, reduced_shape, rx, BLOCK_R, STEPS)
            total += _mapped(x, p, k_mask[:, None], centre, power, S, T, MAP)
    for start in range(whole, end, BLOCK_R):
        p, r_mask = _elements(memory(x), rows, start, last, reduced_shape, rx, BLOCK_R, STEPS)
        mask = k_mask[:, None] & r_mask[None, :]
        total += _mapped(x, p, mask, centre, power, S, T, MAP)
    return total


@triton.jit
def _mapped(
    x, p, mask, centre, power, S: tl.constexpr, T: tl.constexpr, MAP: tl.constexpr
):  # fmt: skip
    """The terms that the elements at `p` add to a sum; 0 where `mask` is false."""
    value = element(tl.load(p, mask=mask, other=0), x, S)
    if MAP == "":
        return value.to(T)
    else:
        if centre is not None:
            value = before(value, centre[:, None], power, MAP).to(T)
        else:
            value = before(value, None, power, MAP).to(T)
        return tl.where(mask, value, tl.zeros_like(value))


@triton.jit
def moments(
    x, mean, rest, out, kept, reduced, chunk, part, count, kept_shape, kx, ko, reduced_shape, rx,
    FINISH: tl.constexpr,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """The sums of (x - m)^2, m the mean of this block's piece; `FINISH` makes the results of them.

    `mean`: where m goes. `rest`: where the part of m goes that has no room there. None: nowhere.
    """
    LANES: tl.constexpr = BLOCK_R // 4 if BLOCK_R >= 4 else BLOCK_R
    k, k_mask = positions(kept, BLOCK_K)
    rows = offset(k, kept_shape, kx)
    first = tl.program_id(1).to(reduced.dtype) * chunk
    length = tl.minimum(chunk, reduced - first)
    last = first + length
    # what is left of the elements is small where they lie far from zero
    p, r_mask = _elements(memory(x), rows, first, last, reduced_shape, rx, LANES, STEPS)
    near = element(tl.load(p, mask=k_mask[:, None] & r_mask[None, :], other=0), x, T)
    centre = divide(tl.sum(near, 1), tl.minimum(length, LANES).to(T))
    centre = tl.where(tl.abs(centre) < float("inf"), centre, 0)
    squares = tl.zeros([BLOCK_K, LANES], T)
    over = tl.zeros([BLOCK_K, LANES], T)
    squares_lost = tl.zeros([BLOCK_K, LANES], T)
    over_lost = tl.zeros([BLOCK_K, LANES], T)
    plain = tl.zeros([BLOCK_K, LANES], T)
    plain_lost = tl.zeros([BLOCK_K, LANES], T)
    turns = tl.zeros([1, 1], T)
    share = tl.zeros([1, 1], T)
    one = tl.full([1, 1], 1, T)
    # each lane takes four elements at a time, whose squares are those of what differs from their
    # own mean: nothing cancels, wherever the first elements lie
    whole = first + length // (4 * LANES) * (4 * LANES)
    for start in range(first, whole, 4 * LANES):
        total, own, apart = _four(
            x, k_mask, rows, start, whole, reduced_shape, rx, centre, one * 0.25,
            T, LANES, STEPS, False,
        )  # fmt: skip
        if mean is not None and rest is None:
            plain, plain_lost = accumulate(plain, plain_lost, total)
        behind = apart - over * share
        own += behind * behind * (4 * turns * divide(one, turns + 4))
        squares, squares_lost = accumulate(squares, squares_lost, own)
        over, over_lost = accumulate(over, over_lost, apart * 4)
        turns += 4
        share = divide(one, turns)
    lane = tl.arange(0, LANES).to(length.dtype)
    number = ((length - lane + LANES - 1) // LANES).to(T)[None, :]
    for start in range(whole, last, 4 * LANES):  # the others: none, or as many as one turn takes
        here = number - turns
        total, own, apart = _four(
            x, k_mask, rows, start, last, reduced_shape, rx, centre,
            divide(tl.full([1, LANES], 1, T), tl.maximum(here, 1)), T, LANES, STEPS, True,
        )  # fmt: skip
        if mean is not None and rest is None:
            plain, plain_lost = accumulate(plain, plain_lost, total)
        behind = apart - over * share
        own += behind * behind * divide(here * turns, tl.maximum(number, 1))
        squares, squares_lost = accumulate(squares, squares_lost, own)
        over, over_lost = accumulate(over, over_lost, apart * here)
    sums = settled(over, over_lost)
    more = divide(tl.sum(sums, 1), length.to(T))
    between = divide(sums, tl.maximum(number, 1)) - more[:, None]
    result = tl.sum(settled(squares, squares_lost) + number * between * between, 1)
    result = after(result, None, count, None, FINISH)
    goal = tl.program_id(1).to(reduced.dtype) * part + offset(k, kept_shape, ko)
    tl.store(out + goal, result.to(out.dtype.element_ty), mask=k_mask)
    if rest is not None:
        tl.store(rest + goal, more, mask=k_mask)
    elif mean is not None:
        centre = divide(tl.sum(settled(plain, plain_lost), 1), length.to(T))
    if mean is not None:
        tl.store(mean + goal, centre.to(mean.dtype.element_ty), mask=k_mask)


@triton.jit
def _four(
    x, k_mask, rows, start, last, reduced_shape, rx, centre, inverse,
    T: tl.constexpr, LANES: tl.constexpr, STEPS: tl.constexpr, SOME: tl.constexpr,
):  # fmt: skip
    """Of up to four elements in each lane: their sum, the squares of what differs from their mean,
    and how far this is from `centre`.

    `inverse`: 1 / how many they are. SOME: not all of them may lie below `last`.
    """
    a, a_mask = _quarter(x, k_mask, rows, start, last, reduced_shape, rx, T, LANES, STEPS, SOME)
    b, b_mask = _quarter(
        x, k_mask, rows, start + LANES, last, reduced_shape, rx, T, LANES, STEPS, SOME
    )  # fmt: skip
    c, c_mask = _quarter(
        x, k_mask, rows, start + 2 * LANES, last, reduced_shape, rx, T, LANES, STEPS, SOME
    )  # fmt: skip
    d, d_mask = _quarter(
        x, k_mask, rows, start + 3 * LANES, last, reduced_shape, rx, T, LANES, STEPS, SOME
    )  # fmt: skip
    total = (a + b) + (c + d)
    mean = total * inverse
    a -= mean
    b -= mean
    c -= mean
    d -= mean
    if SOME:
        a = tl.where(a_mask, a, tl.zeros_like(a))
        b = tl.where(b_mask, b, tl.zeros_like(b))
        c = tl.where(c_mask, c, tl.zeros_like(c))
        d = tl.where(d_mask, d, tl.zeros_like(d))
    lost = (a + b) + (c + d)  # what the rounding of the mean has left
    lost = tl.where(tl.abs(lost) < float("inf"), lost, tl.zeros_like(lost))
    squares = (a * a + b * b) + (c * c + d * d) - lost * lost * inverse
    return total, squares, (mean - centre[:, None]) + lost * inverse


@triton.jit
def _quarter(
    x, k_mask, rows, start, last, reduced_shape, rx,
    T: tl.constexpr, LANES: tl.constexpr, STEPS: tl.constexpr, SOME: tl.constexpr,
):  # fmt: skip
    """The elements from `start` on in each of `rows`, and where they are; 0 elsewhere."""
    p, r_mask = _elements(memory(x), rows, start, last, reduced_shape, rx, LANES, STEPS)
    mask = k_mask[:, None] & (r_mask | (not SOME))[None, :]
    return element(tl.load(p, mask=mask, other=0), x, T), mask


@triton.jit
def merged(
    x, rest, squares, mean, out, kept, reduced, chunk, part, piece, last, whole, count,
    kept_shape, kx, ko, reduced_shape, rx,
    FINISH: tl.constexpr,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Return what `moments` leaves of pieces, as the same of all their elements; `x` are their
    means.

    `piece`: elements of a piece, `last`: of the last one, `whole`: of all. `mean`: where the mean
    of all goes; None: nowhere.
    """
    k, k_mask = positions(kept, BLOCK_K)
    rows = offset(k, kept_shape, kx)
    total = tl.zeros([BLOCK_K, BLOCK_R], T)
    for start in range(0, reduced, BLOCK_R):
        p, r_mask = _elements(memory(x), rows, start, reduced, reduced_shape, rx, BLOCK_R, STEPS)
        q, _ = _elements(memory(rest), rows, start, reduced, reduced_shape, rx, BLOCK_R, STEPS)
        mask = k_mask[:, None] & r_mask[None, :]
        number = _elements_of(start, reduced, piece, last, T, BLOCK_R)
        total += (tl.load(p, mask=mask, other=0) + tl.load(q, mask=mask, other=0)) * number
    centre = divide(tl.sum(total, 1), whole.to(T))
    total = tl.zeros([BLOCK_K, BLOCK_R], T)
    over = tl.zeros([BLOCK_K, BLOCK_R], T)
    for start in range(0, reduced, BLOCK_R):
        p, r_mask = _elements(memory(x), rows, start, reduced, reduced_shape, rx, BLOCK_R, STEPS)
        q, _ = _elements(memory(rest), rows, start, reduced, reduced_shape, rx, BLOCK_R, STEPS)
        s, _ = _elements(memory(squares), rows, start, reduced, reduced_shape, rx, BLOCK_R, STEPS)
        mask = k_mask[:, None] & r_mask[None, :]
        number = _elements_of(start, reduced, piece, last, T, BLOCK_R)
        apart = tl.load(p, mask=mask, other=0) - centre[:, None] + tl.load(q, mask=mask, other=0)
        own = tl.load(s, mask=mask, other=0) + number * apart * apart
        total += tl.where(mask, own, tl.zeros_like(own))
        over += tl.where(mask, number * apart, tl.zeros_like(own))
    goal = offset(k, kept_shape, ko)
    # what the rounding of the mean itself has added to each
    more = divide(tl.sum(over, 1), whole.to(T))
    result = tl.sum(total, 1) - whole.to(T) * more * more
    result = after(tl.where(result < 0, 0, result), None, count, None, FINISH)
    centre += tl.where(tl.abs(more) < float("inf"), more, 0)
    tl.store(out + goal, result.to(out.dtype.element_ty), mask=k_mask)
    if mean is not None:
        tl.store(mean + goal, centre.to(mean.dtype.element_ty), mask=k_mask)


@triton.jit
def _elements_of(start, pieces, piece, last, T: tl.constexpr, BLOCK: tl.constexpr):
    """How many elements each of the pieces from `start` on has."""
    at = start + tl.arange(0, BLOCK)
    return tl.where(at == pieces - 1, last.to(T), piece.to(T))[None, :]


@triton.jit
def max(
    x, out, kept, reduced, chunk, part, kept_shape, kx, ko, reduced_shape, rx,
    OP: tl.constexpr,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    if STEPS and len(rx) == 0:
        first, end = _tiles(kept, BLOCK_K)
        for number in range(first, end):
            k, k_mask = _tile(number, kept, BLOCK_K)
            _max(
                x, out, k, k_mask, reduced, chunk, part, kept_shape, kx, ko, reduced_shape, rx,
                OP, T, BLOCK_K, BLOCK_R, STEPS,
            )  # fmt: skip
    else:
        k, k_mask = positions(kept, BLOCK_K)
        _max(
            x, out, k, k_mask, reduced, chunk, part, kept_shape, kx, ko, reduced_shape, rx,
            OP, T, BLOCK_K, BLOCK_R, STEPS,
        )  # fmt: skip


@triton.jit
def _max(
    x, out, k, k_mask, reduced, chunk, part, kept_shape, kx, ko, reduced_shape, rx,
    OP: tl.constexpr,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    largest = _folded(
        x, k_mask, offset(k, kept_shape, kx), reduced, chunk, reduced_shape, rx,
        T, T, BLOCK_K, BLOCK_R, STEPS, "", OP,
    )  # fmt: skip
    p = out + tl.program_id(1).to(reduced.dtype) * part + offset(k, kept_shape, ko)
    tl.store(p, largest.to(out.dtype.element_ty), mask=k_mask)


@triton.jit
def fold(
    x, out, kept, reduced, chunk, part, initial, kept_shape, kx, ko, reduced_shape, rx,
    MAP: tl.constexpr, OP: tl.constexpr, S: tl.constexpr,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """The elements, mapped by `MAP` in type `S`, and `initial`, combined by `OP`."""
    if STEPS and len(rx) == 0:
        first, end = _tiles(kept, BLOCK_K)
        for number in range(first, end):
            k, k_mask = _tile(number, kept, BLOCK_K)
            _fold(
                x, out, k, k_mask, reduced, chunk, part, initial, kept_shape, kx, ko,
                reduced_shape, rx,
                MAP, OP, S, T, BLOCK_K, BLOCK_R, STEPS,
            )  # fmt: skip
    else:
        k, k_mask = positions(kept, BLOCK_K)
        _fold(
            x, out, k, k_mask, reduced, chunk, part, initial, kept_shape, kx, ko,
            reduced_shape, rx,
            MAP, OP, S, T, BLOCK_K, BLOCK_R, STEPS,
        )  # fmt: skip


@triton.jit
def _fold(
    x, out, k, k_mask, reduced, chunk, part, initial, kept_shape, kx, ko,
    reduced_shape, rx,
    MAP: tl.constexpr, OP: tl.constexpr, S: tl.constexpr,
    T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    result = _folded(
        x, k_mask, offset(k, kept_shape, kx), reduced, chunk, reduced_shape, rx,
        S, T, BLOCK_K, BLOCK_R, STEPS, MAP, OP,
    )  # fmt: skip
    if initial is not None:
        result = combine(result, tl.full([BLOCK_K], 0, T) + initial.to(T), OP)
    p = out + tl.program_id(1).to(reduced.dtype) * part + offset(k, kept_shape, ko)
    tl.store(p, result.to(out.dtype.element_ty), mask=k_mask)


@triton.jit
def _folded(
    x, k_mask, rows, reduced, chunk, reduced_shape, rx,
    S: tl.constexpr, T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr,
    STEPS: tl.constexpr, MAP: tl.constexpr, OP: tl.constexpr,
):  # fmt: skip
    """This block's piece of each of `rows`, combined by `OP`."""
    first = tl.program_id(1).to(reduced.dtype) * chunk
    last = first + tl.minimum(chunk, reduced - first)
    ORDERED: tl.constexpr = T.is_floating() and (OP == "max" or OP == "min")
    PAIRS: tl.constexpr = STEPS and len(rx) == 0 and BLOCK_R >= 32 and ORDERED
    STEP: tl.constexpr = BLOCK_R // 2 if PAIRS else BLOCK_R
    result = tl.zeros([BLOCK_K, STEP], T) + identity(T, OP)
    whole = first + (last - first) // BLOCK_R * BLOCK_R if STEPS else first
    if PAIRS:
        result = _of_pairs(
            result, first, whole, x, k_mask, rows, reduced_shape, rx, S, T, STEP, MAP, OP
        )  # fmt: skip
    elif STEPS:
        for start in range(first, whole, BLOCK_R):
            p, _ = _elements(memory(x), rows, start, last, reduced_shape, rx, BLOCK_R, STEPS)
            result = combine(_term(x, p, k_mask[:, None], S, T, MAP, OP), result, OP)
    for start in range(whole, last, STEP):
        p, r_mask = _elements(memory(x), rows, start, last, reduced_shape, rx, STEP, STEPS)
        mask = k_mask[:, None] & r_mask[None, :]
        result = combine(_term(x, p, mask, S, T, MAP, OP), result, OP)
    return combined(result, OP)


@triton.jit
def _of_pairs(
    result, first, whole, x, k_mask, rows, reduced_shape, rx,
    S: tl.constexpr, T: tl.constexpr, STEP: tl.constexpr, MAP: tl.constexpr, OP: tl.constexpr,
):  # fmt: skip
    """`result` and the elements from `first` to `whole`, all of which are there, two steps at once.

    A CPU's instruction for the larger of two takes the second where one is nan, so nan is noted
    apart: by one comparison of two elements, which is true unless one of them is nan.
    """
    other = result
    nan = tl.zeros_like(result)
    for start in range(first, whole, 2 * STEP):
        p, _ = _elements(memory(x), rows, start, whole, reduced_shape, rx, STEP, True)
        q, _ = _elements(memory(x), rows, start + STEP, whole, reduced_shape, rx, STEP, True)
        a = _term(x, p, k_mask[:, None], S, T, MAP, OP)
        b = _term(x, q, k_mask[:, None], S, T, MAP, OP)
        result = tl.where(result > a if OP == "max" else result < a, result, a)
        other = tl.where(other > b if OP == "max" else other < b, other, b)
        nan = tl.where((a < b) | (a >= b), nan, float("nan"))
    return tl.where(nan == nan, combine(result, other, OP), nan)


@triton.jit
def _term(
    x, p, mask, S: tl.constexpr, T: tl.constexpr, MAP: tl.constexpr, OP: tl.constexpr
):  # fmt: skip
    """What the elements at `p` are combined as by `OP`; its identity where `mask` is false."""
    if MAP == "" and x.dtype.element_ty == T:
        return tl.load(p, mask=mask, other=identity(T, OP))
    else:
        value = element(tl.load(p, mask=mask, other=0), x, S)
        value = before(value, None, None, MAP).to(T)
        return tl.where(mask, value, identity(T, OP))


@triton.jit
def _ahead(x, i, y, j, LARGEST: tl.constexpr):
    """Whether `x` at `i` comes before `y` at `j`: larger (or smaller), nan above all, first."""
    if LARGEST:
        better = x > y
    else:
        better = x < y
    same = (x == y) | ((x != x) & (y != y))
    return better | ((x != x) & (y == y)) | (same & (i < j))


@triton.jit
def _larger(x, i, y, j):
    take = _ahead(x, i, y, j, True)
    return tl.where(take, x, y), tl.where(take, i, j)


@triton.jit
def _smaller(x, i, y, j):
    take = _ahead(x, i, y, j, False)
    return tl.where(take, x, y), tl.where(take, i, j)


@triton.jit
def arg(
    x, at, value, out, kept, reduced, chunk, part, kept_shape, kx, ko, reduced_shape, rx,
    LARGEST: tl.constexpr, T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_R: tl.constexpr,
    STEPS: tl.constexpr,
):  # fmt: skip
    """The index of the largest (or smallest) element: the first of several, the first nan.

    `at`: the indices that the elements stand for, side by side with them; None: their own. `value`:
    where the elements go that were found; None: nowhere.
    """
    k, k_mask = positions(kept, BLOCK_K)
    y = tl.program_id(1).to(reduced.dtype)
    first = y * chunk
    last = first + tl.minimum(chunk, reduced - first)
    rows = offset(k, kept_shape, kx)
    PLACE: tl.constexpr = reduced.dtype if at is None else at.dtype.element_ty
    FAR: tl.constexpr = 2**31 - 1 if PLACE.primitive_bitwidth == 32 else 2**63 - 1
    far = tl.full([BLOCK_K, BLOCK_R], FAR, PLACE)
    best = tl.zeros([BLOCK_K, BLOCK_R], T) + (lowest(T) if LARGEST else highest(T))
    index = far
    for start in range(first, last, BLOCK_R):
        p, r_mask = _elements(memory(x), rows, start, last, reduced_shape, rx, BLOCK_R, STEPS)
        mask = k_mask[:, None] & r_mask[None, :]
        now = element(tl.load(p, mask=mask, other=0), x, T)
        if at is not None:
            p, _ = _elements(at, rows, start, last, reduced_shape, rx, BLOCK_R, STEPS)
            own = tl.load(p, mask=mask, other=0)
        else:
            own = (start + tl.arange(0, BLOCK_R).to(reduced.dtype))[None, :]
        take = mask & _ahead(now, own, best, index, LARGEST)
        best = tl.where(take, now, best)
        index = tl.where(take, own, index)
    if LARGEST:
        top, place = tl.reduce((best, index), 1, _larger)
    else:
        top, place = tl.reduce((best, index), 1, _smaller)
    goal = y * part + offset(k, kept_shape, ko)
    tl.store(out + goal, place.to(out.dtype.element_ty), mask=k_mask)
    if value is not None:
        tl.store(value + goal, top.to(value.dtype.element_ty), mask=k_mask)


@triton.jit
def _elements(
    x, rows, start, last, shape, strides, BLOCK: tl.constexpr, STEPS: tl.constexpr
):  # fmt: skip
    """Addresses of the elements from `start` on in each of `rows`, and the mask of those below
    `last`. With `STEPS` along one axis, a step's first element is reached by itself, so that
    neighbours are seen as such: a CPU loads them at once then, and a GPU would only add more.
    """
    r, mask = span(start, last, BLOCK)
    if STEPS and len(shape) == 0:
        lane = tl.arange(0, BLOCK).to(last.dtype)
        step = 1
        if len(strides) == 1:
            step = strides[0]
        p = (x + start * step) + rows[:, None]
        return p + (lane * step)[None, :], mask
    else:
        return (x + rows[:, None]) + offset(r, shape, strides)[None, :], mask
