"""ATen's reductions, scans, softmax and normalizations, as calls of the catalog's kernels.

Source: torch's `native_functions.yaml` (the operators' arguments and results).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .aten_pointwise import Declined, Handler, Run, same_dtype, taken_as

__all__ = ["rows_table"]


def _axes(x: Tensor, dim: Any) -> int | tuple[int, ...] | None:
    """Ours of torch's: no dimensions are all of them, and a number has one that it counts."""
    if not x.ndim and dim in (0, -1, [0], [-1]):
        return None
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) if len(dim) else None


def _to(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype is dtype else x.to(dtype)


def _wide(x: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """Of a sum or a product."""
    if dtype is not None:
        return dtype
    return x.dtype if x.is_floating_point() else torch.int64


def _summed(kernel: str, floats: bool = False) -> Handler:
    """sum, prod, mean, nansum."""

    def handler(
        run: Run,
        x: Tensor,
        dim: Any = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        wanted = _wide(x, dtype)
        taken = taken_as(x, dtype, floats=floats)
        return _to(run(kernel, taken, axis=_axes(x, dim), keepdims=keepdim), wanted)

    return handler


def _extreme(kernel: str) -> Handler:
    """amax, amin, and max, min of all."""

    def handler(run: Run, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        return run(kernel, taken_as(x), axis=_axes(x, dim), keepdims=keepdim)

    return handler


def _extreme_with_index(kernel: str) -> Handler:
    def handler(run: Run, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        options = {"axis": _axes(x, dim), "keepdims": keepdim}
        taken = taken_as(x)
        where = run(f"arg{kernel}", taken, **options)
        return run(kernel, taken, **options), _to(where, torch.int64)

    return handler


def _aminmax(
    run: Run, x: Tensor, *, dim: int | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    low, high = run("aminmax", taken_as(x), axis=_axes(x, dim), keepdims=keepdim)
    return low, high


def _truth(kernel: str) -> Handler:
    """any, all: of uint8 torch gives uint8."""

    def handler(run: Run, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        if dim is not None and not isinstance(dim, int) and not len(dim):
            return run("ne", taken_as(x), 0)  # over no dimension
        result = run(kernel, taken_as(x), axis=_axes(x, dim), keepdims=keepdim)
        return _to(result, torch.uint8 if x.dtype is torch.uint8 else torch.bool)

    return handler


def _index(kernel: str) -> Handler:
    def handler(run: Run, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        if x.dtype is torch.bool:
            raise Declined("bool")
        return _to(run(kernel, taken_as(x), axis=_axes(x, dim), keepdims=keepdim), torch.int64)

    return handler


def _count_nonzero(run: Run, x: Tensor, dim: Any = None) -> Tensor:
    return _to(run("count_nonzero", taken_as(x), axis=_axes(x, dim)), torch.int64)


def _logsumexp(run: Run, x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    taken = taken_as(x, None if x.is_floating_point() else torch.get_default_dtype())
    return run("logsumexp", taken, axis=_axes(x, dim), keepdims=keepdim)


def _spread(kernel: str) -> Handler:
    """var, std, var_mean: `correction` is taken from the number of elements."""

    def handler(
        run: Run, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
    ) -> Any:
        given = 1 if correction is None else correction
        axis = _axes(x, dim)
        axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        if math.prod(x.shape[a] for a in axes) <= given:
            raise Declined("no more elements than the correction")
        options = {"axis": axis, "keepdims": keepdim, "correction": given}
        return run(kernel, taken_as(x, floats=True), **options)

    return handler


def _norm(
    run: Run,
    x: Tensor,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    taken = taken_as(x, dtype, floats=True)
    return run("norm", taken, axis=_axes(x, dim), keepdims=keepdim, p=float(ord))


def _scan(kernel: str) -> Handler:
    def handler(run: Run, x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
        wanted = _wide(x, dtype)
        return _to(run(kernel, taken_as(x, wanted), axis=dim), wanted)

    return handler


def _scan_with_index(kernel: str) -> Handler:
    def handler(run: Run, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        values, where = run(kernel, taken_as(x), axis=dim)
        return values, _to(where, torch.int64)

    return handler


def _rows(kernel: str) -> Handler:
    def handler(run: Run, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
        taken = taken_as(x, torch.float32 if half_to_float else None, floats=True)
        if not taken.ndim:
            return run(kernel, taken.reshape(1)).reshape(())
        return run(kernel, taken, axis=dim)

    return handler


def _rows_backward(kernel: str) -> Handler:
    def handler(
        run: Run, gradient: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype
    ) -> Tensor:
        if gradient.dtype is not output.dtype:
            raise Declined("dtypes that differ")
        return _to(run(kernel, taken_as(gradient, floats=True), output, axis=dim), input_dtype)

    return handler


def _glu(run: Run, x: Tensor, dim: int = -1) -> Tensor:
    return run("glu", taken_as(x, floats=True), axis=dim)


# --------------------------------------------------------------------------------- normalization


def _statistics(run: Run, rows: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and 1 / standard deviation of each row, which the gradient asks for."""
    variance, mean = run("var_mean", rows, axis=-1, keepdims=True)
    return mean, run("rsqrt", run("add", variance, eps))


def _check_rows(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    """Decline what the normalizations do not take.

    Raises:
        Declined: torch serves the call.
    """
    same_dtype(x, weight, bias)
    if weight is None and bias is not None:
        raise Declined("a bias without a weight")
    if not x.numel():
        raise Declined("no elements")


def _layer_norm(
    run: Run,
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    _check_rows(x, weight, bias)
    lead = x.shape[: x.ndim - len(shape)]
    rows = taken_as(x, floats=True).reshape(*lead, math.prod(shape))
    flat = [t.reshape(-1) for t in (weight, bias) if t is not None]
    mean, scale = _statistics(run, rows, eps)
    result = run("layer_norm", rows, *flat, eps=eps).reshape(x.shape)
    kept = (*lead, *[1] * len(shape))
    return result, mean.reshape(kept), scale.reshape(kept)


def _group_norm(
    run: Run,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    samples: int,
    channels: int,
    pixels: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    _check_rows(x, weight, bias)
    flat = [t for t in (weight, bias) if t is not None]
    result = run("group_norm", taken_as(x, floats=True), *flat, groups=groups, eps=eps)
    mean, scale = _statistics(run, x.reshape(samples, groups, -1), eps)
    return result, mean.reshape(samples, groups), scale.reshape(samples, groups)


def rows_table() -> dict[str, tuple[str, Handler]]:
    """Of ATen's overload to the kernel that it is replaced by, and the way."""
    table: dict[str, tuple[str, Handler]] = {
        "_log_softmax": ("log_softmax", _rows("log_softmax")),
        "_log_softmax_backward_data": (
            "log_softmax_backward",
            _rows_backward("log_softmax_backward"),
        ),
        "_softmax": ("softmax", _rows("softmax")),
        "_softmax_backward_data": ("softmax_backward", _rows_backward("softmax_backward")),
        "amax": ("max", _extreme("max")),
        "amin": ("min", _extreme("min")),
        "aminmax": ("aminmax", _aminmax),
        "argmax": ("argmax", _index("argmax")),
        "argmin": ("argmin", _index("argmin")),
        "count_nonzero": ("count_nonzero", _count_nonzero),
        "count_nonzero.dim_IntList": ("count_nonzero", _count_nonzero),
        "cummax": ("cummax", _scan_with_index("cummax")),
        "cummin": ("cummin", _scan_with_index("cummin")),
        "cumprod": ("cumprod", _scan("cumprod")),
        "cumsum": ("cumsum", _scan("cumsum")),
        "glu": ("glu", _glu),
        "linalg_vector_norm": ("norm", _norm),
        "logcumsumexp": ("logcumsumexp", _scan("logcumsumexp")),
        "logsumexp": ("logsumexp", _logsumexp),
        "nansum": ("nansum", _summed("nansum")),
        "native_group_norm": ("group_norm", _group_norm),
        "native_layer_norm": ("layer_norm", _layer_norm),
    }
    for name, overloads in (
        ("sum", ("sum", "sum.dim_IntList")),
        ("prod", ("prod", "prod.dim_int")),
        ("mean", ("mean", "mean.dim")),
    ):
        table.update({o: (name, _summed(name, floats=name == "mean")) for o in overloads})
    for name in ("any", "all"):
        table.update({o: (name, _truth(name)) for o in (name, f"{name}.dim", f"{name}.dims")})
    for name in ("max", "min"):
        table[name] = name, _extreme(name)
        table[f"{name}.dim"] = name, _extreme_with_index(name)
    for name in ("var", "std", "var_mean"):
        table[f"{name}.correction"] = name, _spread(name)
    return table
