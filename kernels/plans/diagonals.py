"""From call to launches: the diagonals of two axes, read and written."""

from __future__ import annotations

from xtarget import spec

from .movement import copied_view, copy_launch, integers

__all__ = ["diag", "diag_embed", "diagonal", "diagonal_backward"]


def diagonal(call: spec.Call) -> spec.Plan:
    """The plan of diagonal: NumPy's, of the last two axes unless `axis1` and `axis2` say others."""
    (k,) = integers(call, "offset")
    return _of_diagonal(call, _pair(call, call.array(0).ndim), k)


def _pair(call: spec.Call, ndim: int) -> tuple[int, ...]:
    """The options `axis1` and `axis2`: two axes of so many."""
    pair = tuple(integers(call, name)[0] for name in ("axis1", "axis2"))
    if any(not -ndim <= a < ndim for a in pair) or (pair[0] - pair[1]) % ndim == 0:
        raise spec.ArgumentError(
            f"{call.kernel}: axes {pair} of an array of {ndim} dimensions; they have to be two "
            "of its axes."
        )
    return tuple(axis % ndim for axis in pair)


def _along_diagonal(
    x: spec.ArrayType, pair: tuple[int, ...], k: int
) -> tuple[list[int], int, list[int], int]:
    """The axes beside a diagonal, its length, the strides of both, and where it begins."""
    one, other = pair
    rows, columns = x.shape[one], x.shape[other]
    length = max(0, min(rows, columns - k) if k >= 0 else min(rows + k, columns))
    start = (k * x.strides[other] if k >= 0 else -k * x.strides[one]) if length else 0
    left = [i for i in range(x.ndim) if i not in (one, other)]
    strides = [*(x.strides[i] for i in left), x.strides[one] + x.strides[other]]
    return left, length, strides, start


def _of_diagonal(call: spec.Call, pair: tuple[int, ...], k: int) -> spec.Plan:
    x = call.array(0)
    left, length, strides, start = _along_diagonal(x, pair, k)
    return copied_view(call, [*(x.shape[i] for i in left), length], strides, start)


def diag(call: spec.Call) -> spec.Plan:
    """The plan of diag: a matrix of a vector, or the diagonal of a matrix."""
    x = call.array(0)
    (k,) = integers(call, "k", count=1)
    if x.ndim == 2:
        return _of_diagonal(call, (0, 1), k)
    if x.ndim != 1:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape}; it has to be a vector or a matrix."
        )
    n = x.size + abs(k)
    return _on_diagonal(call, (n, n), (0, 1), k)


def diag_embed(call: spec.Call) -> spec.Plan:
    """The plan of diag_embed: matrices of two new axes."""
    x = call.array(0)
    (k,) = integers(call, "offset", count=1)
    if not x.ndim:
        raise spec.ArgumentError(f"{call.kernel}: x has no dimension. Give it one or more.")
    pair = _pair(call, x.ndim + 1)
    shape = list(x.shape[:-1])
    for axis in sorted(pair):
        shape.insert(axis, x.shape[-1] + abs(k))
    return _on_diagonal(call, tuple(shape), pair, k)


def diagonal_backward(call: spec.Call) -> spec.Plan:
    """The plan of the gradient of diagonal."""
    shape = integers(call, "shape")
    if len(shape) < 2 or min(shape) < 0:
        raise spec.ArgumentError(
            f"{call.kernel}: shape is {shape}; it has to be that of two dimensions or more."
        )
    (k,) = integers(call, "offset", count=1)
    return _on_diagonal(call, shape, _pair(call, len(shape)), k)


def _on_diagonal(
    call: spec.Call, shape: tuple[int, ...], pair: tuple[int, ...], k: int
) -> spec.Plan:
    """Zeros of a shape, with the first argument on the diagonal of two axes."""
    x = call.array(0)
    out = call.output(shape, x.dtype)
    if not out.contiguous:
        raise spec.ArgumentError(f"{call.kernel}: out is not C-contiguous. Give one that is.")
    left, length, strides, start = _along_diagonal(out, pair, k)
    wanted = (*(shape[axis] for axis in left), length)
    if x.shape != wanted:
        raise spec.ArgumentError(
            f"{call.kernel}: its argument has shape {x.shape}; the diagonal of an array of shape "
            f"{shape} has shape {wanted}."
        )
    copies = copy_launch(call, spec.Input(0), wanted, x.strides, strides, from_out=start)
    return spec.Plan((out,), copies, (), (0,))
