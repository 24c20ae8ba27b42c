"""From index to address: what every kernel of the library shares.

Shapes and strides come in the form that `layouts` describes. An operand may be a scalar passed by
value instead of a pointer; its dtype then stands in the place of its strides.
"""

import triton
import triton.language as tl


@triton.jit
def positions(n, BLOCK: tl.constexpr):
    """This block's indices along grid x and the mask of those below `n`.

    The comparison never adds past `n`, so that it holds up to the last index of n's type.
    """
    start = tl.program_id(0).to(n.dtype) * BLOCK
    lane = tl.arange(0, BLOCK).to(n.dtype)
    return start + lane, lane < n - start


@triton.jit
def part(n, shape, step, BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr):
    """`positions`, where a block takes `STEPS` parts that follow each other: those of one part.

    With `ROWS` a part lies in one row along the innermost axis, and its positions are the row's
    number and those in the row.
    """
    number = tl.program_id(0).to(n.dtype) * STEPS + step
    if ROWS:
        lane = tl.arange(0, BLOCK).to(n.dtype)
        length = shape[len(shape) - 1].to(n.dtype)
        parts = (length + (BLOCK - 1)) // BLOCK
        row = number // parts
        start = (number - row * parts) * BLOCK
        left = tl.where(row < n // length, length - start, 0)
        return (row, start + lane), lane < left
    else:
        start = number * BLOCK
        lane = tl.arange(0, BLOCK).to(n.dtype)
        return start + lane, lane < n - start


@triton.jit
def steps_of(n, shape, BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr):
    """How many `part`s of a block have positions: the last block's are fewer than `STEPS`."""
    if STEPS == 1:
        return STEPS
    else:
        if ROWS:
            length = shape[len(shape) - 1].to(n.dtype)
            parts = n // length * ((length + (BLOCK - 1)) // BLOCK)
        else:
            parts = (n - 1) // BLOCK + 1
        return tl.minimum(parts - tl.program_id(0).to(n.dtype) * STEPS, STEPS)


@triton.jit
def span(start, end, BLOCK: tl.constexpr):
    """The indices start... start + BLOCK and the mask of those below `end`."""
    lane = tl.arange(0, BLOCK).to(end.dtype)
    return start + lane, lane < end - start


@triton.jit
def across(start, end, row_mask, BLOCK: tl.constexpr):
    """The indices start... start + BLOCK of columns, the mask of those below `end`, and the mask of
    a tile of them in the rows of `row_mask`.
    """
    column, column_mask = span(start, end, BLOCK)
    return column, column_mask, row_mask[:, None] & column_mask[None, :]


@triton.jit
def offset(i, shape, strides):
    """The element offset of index `i`; `shape` lacks the outermost length, `strides` a last 1."""
    if len(strides) == 0:
        return i
    else:
        return _strided(i, shape, strides)


@triton.jit
def rows_of_block(x, m, shape, sx, BLOCK_M: tl.constexpr, APART: tl.constexpr):
    """The numbers of this block's rows, their mask and their addresses.

    APART: the last row stands for those behind it, too, so that all of them are there.
    """
    row, row_mask = positions(m, BLOCK_M)
    if APART:
        row = tl.minimum(row, m - 1)
        row_mask = tl.full([BLOCK_M], 1, tl.int1)
    return row, row_mask, x + offset(row, shape, sx)[:, None]


@triton.jit
def _strided(i, shape, strides):
    rest = i
    result = i * 0
    for axis in tl.static_range(len(shape), 0, -1):
        if axis < len(strides):
            result += rest % shape[axis - 1] * strides[axis]
        else:
            result += rest % shape[axis - 1]
        rest = rest // shape[axis - 1]
    return result + rest * strides[0]


@triton.jit
def at(p, i, shape, strides):
    """The addresses of elements `i` of `p`.

    `i` may be (row, columns), as of `part`; then a last stride of 0 comes twice.
    """
    if isinstance(i, tl.tuple):
        return _in_row(p, i[0], i[1], shape, strides)
    else:
        return p + offset(i, shape, strides)


@triton.jit
def _in_row(p, row, columns, shape, strides):
    """The row's first address by itself, so that columns are seen to lie side by side."""
    rest = row
    start = row * 0
    for axis in tl.static_range(len(shape) - 1, 0, -1):
        start += rest % shape[axis - 1] * strides[axis]
        rest = rest // shape[axis - 1]
    p += start + rest * strides[0]
    if len(strides) == len(shape):
        return p + columns
    elif len(strides) == len(shape) + 1:
        return p + columns * strides[len(shape)]
    else:
        return p + columns * 0


@triton.jit
def memory(p):
    """`p` to read from: bool as the byte that it is in memory.

    LLVM's SPIR-V back end (22.1) cannot take the vectors of one-bit elements that appear else.
    """
    if p.dtype.element_ty == tl.int1:
        return p.to(tl.pointer_type(tl.int8), bitcast=True)
    else:
        return p


@triton.jit
def element(value, p, T: tl.constexpr):
    """A value loaded from `memory(p)`, as type `T`. A bool is true for every byte but 0: a view of
    other memory as bool has more of them than 1.
    """
    if p.dtype.element_ty == tl.int1:
        return (value != 0).to(T)
    else:
        return value.to(T)


@triton.jit
def load(p, i, mask, shape, strides, T: tl.constexpr):
    """Elements `i` of an operand, as type `T`.

    A scalar is rounded to its own dtype first, as NumPy does: 0.1 may travel as float32 and mean
    the float16 next to 0.1.
    """
    if p.dtype.is_ptr():
        return element(tl.load(at(memory(p), i, shape, strides), mask=mask), p, T)
    else:
        return p.to(strides).to(T)


@triton.jit
def store(p, value, i, mask, shape, strides, STREAM: tl.constexpr):
    """Store `value` as elements `i` of `p`, converted to its type; `STREAM`: past the caches."""
    modifier: tl.constexpr = ".cs" if STREAM else ""
    tl.store(
        at(p, i, shape, strides),
        value.to(p.dtype.element_ty),
        mask=mask,
        cache_modifier=modifier,
    )
