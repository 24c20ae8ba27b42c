"""`torch.vmap` of operators: one call for all samples, with the batch as their first dimension.

An operator without a rule here is called sample by sample, which torch warns of.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._values.errors import ArgumentError
from ..spec import KernelSpec

__all__ = ["batched"]

#: Categories of kernels that work along the axes of their option `axis`.
_ALONG_AXES = frozenset({"gate", "normalization", "reduction", "scan", "sorting"})
#: Kernels that work along the last axis of their first argument, and those of any category that
#: have the option.
_ALONG_LAST, _ALONG_ONE = frozenset({"layer_norm", "linear", "rms_norm"}), frozenset({"diff"})

_Operator = Callable[[], Any]
_Batched = Callable[..., tuple[Any, Any]]


def batched(spec: KernelSpec, operator: _Operator) -> _Batched | None:
    """What computes an operator for a batch (`torch.library.register_vmap`); None: nothing does."""
    user = spec.category == "user"
    if spec.elementwise:
        return functools.partial(_elementwise, operator, user)
    if user:
        return None
    names = [name.rstrip("?") for name in spec.inputs]
    by_axis = spec.category in _ALONG_AXES or spec.name in _ALONG_ONE
    if by_axis and "axis" in spec.options and names in (["x"], ["x", "where"]):
        return functools.partial(_along_axes, operator, spec.options["axis"])
    if spec.name in _ALONG_LAST:
        return functools.partial(_along_last, operator)
    return functools.partial(_matmul, operator) if spec.name == "matmul" else None


def _elementwise(
    operator: _Operator,
    spread: bool,
    info: Any,
    in_dims: tuple[Any, ...],
    *args: Any,
    **options: Any,
) -> tuple[Any, int]:
    """That is one dimension more, in front.

    Args:
        spread: the kernel broadcasts nothing and takes no strides: an array that all samples share
            gets the dimension too, where it has as many as a sample.
    """
    samples = [
        tuple(n for axis, n in enumerate(arg.shape) if axis != dim)
        for arg, dim in zip(args, in_dims, strict=True)
        if isinstance(arg, torch.Tensor)
    ]
    most = max(map(len, samples))
    moved = []
    for arg, dim in zip(args, in_dims, strict=True):
        if dim is None:
            shared = spread and isinstance(arg, torch.Tensor) and arg.ndim == most
            moved.append(arg.expand(info.batch_size, *arg.shape).contiguous() if shared else arg)
            continue
        front = _in_front(arg, dim, most)
        moved.append(front.contiguous() if spread else front)
    return operator()(*moved, **options), 0


def _in_front(array: torch.Tensor, dim: int, sample: int) -> torch.Tensor:
    """The batch before as many dimensions as samples have, those in front of length 1."""
    front = array.movedim(dim, 0)
    missing = sample - (front.ndim - 1)
    return front.reshape(front.shape[0], *[1] * missing, *front.shape[1:])


def _one_by_one(
    operator: _Operator, info: Any, in_dims: Sequence[Any], args: Sequence[Any], options: Any
) -> tuple[Any, Any]:
    """Each sample in a call of its own, with its own errors."""
    if not info.batch_size:
        raise ArgumentError(
            f"{operator()} is called for each sample here, and the batch of torch.vmap has none: "
            "nothing tells what a result looks like. Give it a sample."
        )
    found = [
        operator()(
            *(
                arg if dim is None else arg.select(dim, sample)
                for arg, dim in zip(args, in_dims, strict=True)
            ),
            **options,
        )
        for sample in range(info.batch_size)
    ]
    if isinstance(found[0], torch.Tensor):
        return torch.stack(found), 0
    return tuple(map(torch.stack, zip(*found, strict=True))), (0,) * len(found[0])


def _along_axes(
    operator: _Operator,
    usual: Any,
    info: Any,
    in_dims: tuple[Any, ...],
    *args: Any,
    **options: Any,
) -> tuple[Any, Any]:
    """A sample's axes come after that of the batch."""
    x, dim = args[0], in_dims[0]
    rank = x.ndim - (dim is not None)
    axis = options.get("axis", usual)
    whole = isinstance(axis, int)
    axes = [axis] if whole else axis
    masks = [(arg, at) for arg, at in zip(args[1:], in_dims[1:], strict=True) if arg is not None]
    wide = any(mask.ndim - (at is not None) > rank for mask, at in masks)
    if wide or not rank or any(not -rank <= one < rank for one in axes or ()):
        return _one_by_one(operator, info, in_dims, args, options)
    given = [x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)]
    for mask, at in masks:
        front = _in_front(mask if at is not None else mask[None], at or 0, rank)
        given.append(front.expand_as(given[0]) if axes is None else front)
    if axes is None:  # all of a sample
        given = [one.reshape(info.batch_size, math.prod(one.shape[1:])) for one in given]
    after = [1] if axes is None else [one % rank + 1 for one in axes]
    found = operator()(*given, **{**options, "axis": after[0] if whole else after})
    several = options.get("q")
    place = 1 if isinstance(several, list | tuple) and len(several) > 1 else 0  # of quantile
    if axes is None and options.get("keepdims"):
        found = _each(lambda one: one.reshape(*one.shape[:-1], *[1] * rank), found)
    return found, place if isinstance(found, torch.Tensor) else (place,) * len(found)


def _each(change: Callable[[torch.Tensor], torch.Tensor], found: Any) -> Any:
    return change(found) if isinstance(found, torch.Tensor) else tuple(map(change, found))


def _along_last(
    operator: _Operator, info: Any, in_dims: tuple[Any, ...], *args: Any, **options: Any
) -> tuple[Any, Any]:
    """Samples are more rows, if all of them have the same weights."""
    shared = in_dims[0] is not None and all(dim is None for dim in in_dims[1:])
    if not shared or args[0].ndim < 2:
        return _one_by_one(operator, info, in_dims, args, options)
    return operator()(args[0].movedim(in_dims[0], 0), *args[1:], **options), 0


def _matmul(
    operator: _Operator, info: Any, in_dims: tuple[Any, ...], a: Any, b: Any
) -> tuple[Any, Any]:
    """A batch of products; a vector is a matrix of one row or column."""
    ranks = [one.ndim - (dim is not None) for one, dim in zip((a, b), in_dims, strict=True)]
    if not all(ranks):
        return _one_by_one(operator, info, in_dims, (a, b), {})
    most = max(2, *ranks)
    moved = []
    for one, dim, rank, place in zip((a, b), in_dims, ranks, (-2, -1), strict=True):
        front = one[None] if dim is None else one.movedim(dim, 0)
        front = front.unsqueeze(place) if rank == 1 else front
        moved.append(_in_front(front, 0, most))
    found = operator()(*moved)
    if ranks[0] == 1:
        found = found.squeeze(-2)
    return found.squeeze(-1) if ranks[1] == 1 else found, 0
