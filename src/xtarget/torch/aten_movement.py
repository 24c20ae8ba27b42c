"""ATen's products, movement of data and losses, as calls of the catalog's kernels.

Indexing is not here: torch raises an error for an index out of range, kernels clip it.

Source: torch's `native_functions.yaml` (the operators' arguments and results).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .aten_pointwise import Declined, Handler, Run, same_dtype, taken_as

__all__ = ["movement_table"]

# -------------------------------------------------------------------------------------- products


def _product(ndim: int, second: int) -> Handler:
    """mm, bmm, mv, dot."""

    def handler(run: Run, a: Tensor, b: Tensor) -> Tensor:
        if a.ndim != ndim or b.ndim != second:
            raise Declined("other numbers of dimensions")
        same_dtype(a, b)
        if a.dtype is torch.bool:
            raise Declined("bool")
        return run("matmul", taken_as(a), b)

    return handler


def _added_product(ndim: int) -> Handler:
    """addmm, baddbmm: in 16 bits torch adds before it rounds, which two kernels would not."""

    def handler(
        run: Run, x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1
    ) -> Tensor:
        same_dtype(x, a, b)
        if a.ndim != ndim or b.ndim != ndim or x.dtype not in (torch.float32, torch.float64):
            raise Declined(f"{x.dtype}, or other numbers of dimensions")
        product = run("matmul", a, b)
        if alpha != 1:
            product = run("mul", product, float(alpha))
        if beta == 0:
            return product  # what is in x, nan also, has no part
        return run("fma", x, float(beta), product)

    return handler


# -------------------------------------------------------------------------------------- movement


def _joined(kernel: str) -> Handler:
    """cat, stack: of one dtype, and not of the empty vectors that torch leaves out."""

    def handler(run: Run, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
        same_dtype(*tensors)
        if any(t.ndim != tensors[0].ndim or not t.numel() for t in tensors):
            raise Declined("an empty tensor, or other numbers of dimensions")
        for tensor in tensors:
            taken_as(tensor)
        return run(kernel, *tensors, axis=dim)

    return handler


def _flip(run: Run, x: Tensor, dims: Sequence[int]) -> Tensor:
    if not len(dims):
        raise Declined("no dimension")
    return run("flip", taken_as(x), axis=tuple(dims))


def _roll(run: Run, x: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    shift = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    axis = (dims,) if isinstance(dims, int) else tuple(dims)
    taken = taken_as(x)
    if not axis and len(shift) == 1:
        return run("roll", taken.reshape(-1), shift=shift[0], axis=0).reshape(x.shape)
    if len(shift) != len(axis):
        raise Declined("other numbers of shifts and dimensions")
    return run("roll", taken, shift=shift, axis=axis)


def _triangle(kernel: str) -> Handler:
    def handler(run: Run, x: Tensor, diagonal: int = 0) -> Tensor:
        return run(kernel, taken_as(x), k=diagonal)

    return handler


def _pad(run: Run, x: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """torch gives the last axis first; a negative width cuts."""
    if any(width < 0 for width in pad) or not x.ndim:
        raise Declined("a negative width, or no axis")
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)][::-1]
    width = (((0, 0),) * (x.ndim - len(pairs))) + tuple(pairs)
    flat = tuple(w for pair in width for w in pair)
    fill = value if x.is_floating_point() else int(value)
    return run("pad", taken_as(x), width=flat, value=fill)


def _repeat(run: Run, x: Tensor, repeats: Sequence[int]) -> Tensor:
    if len(repeats) < x.ndim or not len(repeats):
        raise Declined("fewer numbers than dimensions")
    return run("tile", taken_as(x), reps=tuple(repeats))


# ---------------------------------------------------------------------------------------- losses

_REDUCTIONS = ("none", "mean", "sum")


def _loss(kernel: str, option: str | None = None) -> Handler:
    def handler(
        run: Run, x: Tensor, target: Tensor, reduction: int = 1, scale: float = 1.0, **named: Any
    ) -> Tensor:
        same_dtype(x, target)
        options = {option: float(named.get(option, scale))} if option else {}
        if x.shape != target.shape:
            x, target = torch.broadcast_tensors(x, target)
        chosen = _REDUCTIONS[reduction]
        return run(kernel, taken_as(x, floats=True), target, reduction=chosen, **options)

    return handler


def movement_table() -> dict[str, tuple[str, Handler]]:
    """Of ATen's overload to the kernel that it is replaced by, and the way."""
    return {
        "addmm": ("matmul", _added_product(2)),
        "baddbmm": ("matmul", _added_product(3)),
        "bmm": ("matmul", _product(3, 3)),
        "cat": ("concat", _joined("concat")),
        "constant_pad_nd": ("pad", _pad),
        "dot": ("matmul", _product(1, 1)),
        "flip": ("flip", _flip),
        "huber_loss": ("huber_loss", _loss("huber_loss", "delta")),
        "mm": ("matmul", _product(2, 2)),
        "mse_loss": ("mse_loss", _loss("mse_loss")),
        "mv": ("matmul", _product(2, 1)),
        "repeat": ("tile", _repeat),
        "roll": ("roll", _roll),
        "smooth_l1_loss": ("smooth_l1_loss", _loss("smooth_l1_loss", "beta")),
        "soft_margin_loss": ("soft_margin_loss", _loss("soft_margin_loss")),
        "stack": ("stack", _joined("stack")),
        "tril": ("tril", _triangle("tril")),
        "triu": ("triu", _triangle("triu")),
    }
