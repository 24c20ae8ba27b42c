"""Products of matrices of which some rows and columns were never written."""

import triton
import triton.language as tl


@triton.jit
def _partly(pointers, known):
    """The block after a store of ones where `known`."""
    tl.store(pointers, (pointers.to(tl.int64) * 0 + 1).to(pointers.dtype.element_ty), mask=known)
    tl.debug_barrier()
    return tl.load(pointers)


@triton.jit
def product(
    a, b, o, rows, columns, depth, stored_rows, stored_columns,
    size: tl.constexpr, inner: tl.constexpr, turned: tl.constexpr, out: tl.constexpr,
):  # fmt: skip
    """Of `size` rows of `a` some are written, so are columns of `b`, and as many places of `o`."""
    i, k = tl.arange(0, size), tl.arange(0, inner)
    row, column, deep = i[:, None], i[None, :], k
    to_a = a + (row + deep[None, :] * size if turned else row * inner + deep[None, :])
    to_b = b + (deep[:, None] + column * inner if turned else deep[:, None] * size + column)
    to_o = o + row * size + column
    x = _partly(to_a, (row < rows) & (deep[None, :] < depth))
    y = _partly(to_b, (column < columns) & (deep[:, None] < depth))
    z = _partly(to_o, (row < rows) & (column < columns))
    total = tl.dot(x, y, z, input_precision="ieee", out_dtype=out)
    tl.store(to_o, total, mask=(row < stored_rows) & (column < stored_columns))


@triton.jit
def scaled_product(
    a, b, o, scales, rows, columns, depth, stored_rows, stored_columns,
    size: tl.constexpr, inner: tl.constexpr, kind: tl.constexpr, pack: tl.constexpr,
):  # fmt: skip
    i, k = tl.arange(0, size), tl.arange(0, inner // pack)
    row, column, groups = i[:, None], i[None, :], tl.arange(0, inner // 32)[None, :]
    to_a = a + row * (inner // pack) + k[None, :]
    to_b = b + k[:, None] * size + column
    to_o = o + row * size + column
    x = _partly(to_a, (row < rows) & (k[None, :] < depth // pack))
    y = _partly(to_b, (column < columns) & (k[:, None] < depth // pack))
    scale = tl.load(scales + row * (inner // 32) + groups)
    total = tl.dot_scaled(x, scale, kind, y, scale, kind)
    tl.store(to_o, total, mask=(row < stored_rows) & (column < stored_columns))
