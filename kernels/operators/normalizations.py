"""Softmax and normalisations: kernels of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from .. import ahead, c_interfaces
from ..plans.gradients import add_norm
from ..plans.norms import (
    batch_norm,
    batch_norm_training,
    batch_norm_training_inverse,
    group_norm,
    instance_norm,
    normalize,
)
from ..plans.rows import layer_norm, log_softmax, rms_norm, softmax, softmin
from .references import by_torch
from .row import alike, elementwise, row
from .rules import FLOATS, QUOTIENT_TWO

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _softmax(x: Any, axis: int = -1) -> Any:
    import numpy as np

    x = np.asarray(x)
    if not x.size:
        return x
    with np.errstate(all="ignore"):
        power = np.exp(x - x.max(axis=axis, keepdims=True))
        return power / power.sum(axis=axis, keepdims=True)


def _layer_norm(x: Any, weight: Any = 1, bias: Any = 0, eps: float = 1e-5) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        return centred / np.sqrt(variance + eps) * weight + bias


def _rms_norm(x: Any, weight: Any = 1, eps: float = 1e-6) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + eps) * weight


def _moments(counts: Any, total: Any, squares: Any, shift: Any = 0) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        mean = np.divide(total, counts)
        return mean + shift, np.divide(squares, counts) - np.square(mean)


def _with_last_axis(count: int) -> Callable[[_Shape], Sequence[_Shape]]:
    """x, and `count` vectors as long as its last axis."""
    return lambda shape: [shape, *[shape[-1:]] * count]


def _with_channels(vectors: int, least: int = 2) -> Callable[[_Shape], Sequence[_Shape]]:
    """x, whose axis 1 are the channels, and `vectors` of them."""

    def examples(shape: _Shape) -> Sequence[_Shape]:
        while len(shape) < least:
            shape = (*shape, 3)
        return [shape, *[shape[1:2]] * vectors]

    return examples


def _added_with(count: int) -> Callable[[_Shape], Sequence[_Shape]]:
    return lambda shape: [shape, shape, *[shape[-1:]] * count]


def _group_norm(
    torch: Any, x: Any, weight: Any = None, bias: Any = None, groups: int = 1, eps: float = 1e-5
) -> Any:
    shape = (x.shape[0], groups, math.prod(x.shape[1:]) // groups)  # also without examples
    y = x.reshape(shape)
    y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True, correction=0) + eps).sqrt()
    return _affine(y.reshape(x.shape), weight, bias)


def _affine(y: Any, weight: Any, bias: Any) -> Any:
    form = (1, -1, *[1] * (y.ndim - 2))
    y = y if weight is None else y * weight.reshape(form)
    return y if bias is None else y + bias.reshape(form)


def _instance_norm(
    torch: Any, x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    return _group_norm(torch, x, weight, bias, x.shape[1], eps)


def _batch_norm(
    torch: Any, x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    form = (1, -1, *[1] * (x.ndim - 2))
    return _affine((x - mean.reshape(form)) / (variance.reshape(form) + eps).sqrt(), weight, bias)


def _batch_norm_training(
    torch: Any, x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    axes = (0, *range(2, x.ndim))
    mean, variance = x.mean(axes), x.var(axes, correction=0)
    return _batch_norm(torch, x, mean, variance, weight, bias, eps), mean, variance


def _batch_norm_legit(
    torch: Any, x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    made, mean, variance = _batch_norm_training(torch, x, weight, bias, eps)
    return made, mean, (variance + eps).rsqrt()


def _normalize(torch: Any, x: Any, axis: Any = -1, eps: float = 1e-12) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else axis
    return x / (x * x).sum(axes, keepdim=True).sqrt().clamp(min=eps)


def _layer(torch: Any, x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _rms(torch: Any, x: Any, weight: Any = None, eps: float = 1e-6) -> Any:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def _added(norm: Callable[..., Any]) -> Callable[..., Any]:
    def reference(torch: Any, x: Any, residual: Any, *vectors: Any, **options: Any) -> Any:
        return norm(torch, x + residual, *vectors, **options), x + residual

    return reference


_ALL: Any = {"category": "normalization", "dtypes": FLOATS, "tolerance": (64, 64)}


def _add_norm(
    kind: str, parameters: str, reference: Callable[..., Any], aliases: str, eps: float
) -> KernelSpec:
    """A normalisation of a sum, of rows; the sum is a result too."""
    return row(
        f"add_{kind}_norm",
        f"x residual {parameters}",
        add_norm(kind == "rms"),
        f"{kind}_norm(x + residual), and x + residual",
        by_torch(_added(reference)),
        _added_with(len(parameters.split())),
        aliases,
        options={"eps": eps},
        **_ALL,
    )


#: mean or sum, division, root; the quotient's numerator may cancel.
ROWS: tuple[KernelSpec, ...] = (
    row(
        "softmax",
        "x",
        softmax,
        "exp(x - max x) / sum exp(x - max x) along axis",
        _softmax,
        alike(1),
        category="normalization",
        dtypes=FLOATS,
        options={"axis": -1},
        along="axis",
        ahead=ahead.rows(0),
        c=c_interfaces.rows("softmax", file="softmaxes", fixed={"LOG": False, "NEGATE": False}),
        tolerance=(32, 0),
    ),
    row(
        "log_softmax",
        "x",
        log_softmax,
        "x - log(sum(exp(x))) along axis, which does not overflow",
        by_torch(lambda torch, x, axis=-1: x.log_softmax(axis)),
        alike(1),
        "fused_log_softmax",
        category="normalization",
        dtypes=FLOATS,
        options={"axis": -1},
        ahead=ahead.rows(0),
        along="axis",
        tolerance=(32, 32),
    ),
    row(
        "softmin",
        "x",
        softmin,
        "softmax(-x) along axis",
        by_torch(lambda torch, x, axis=-1: (-x).softmax(axis)),
        alike(1),
        category="normalization",
        dtypes=FLOATS,
        options={"axis": -1},
        along="axis",
        tolerance=(32, 0),
    ),
    row(
        "layer_norm",
        "x weight? bias?",
        layer_norm,
        "(x - mean x) / sqrt(var x + eps) * weight + bias over the last axis",
        _layer_norm,
        _with_last_axis(2),
        "LayerNormalization native_layer_norm layer_normalization fused_layer_norm",
        ahead=ahead.rows(2),
        c=c_interfaces.rows("layer_norm", ("weight", "bias"), ("eps",)),
        options={"eps": 1e-5},
        along="last",
        **{**_ALL, "tolerance": (32, 32)},
    ),
    row(
        "rms_norm",
        "x weight?",
        rms_norm,
        "x / sqrt(mean x^2 + eps) * weight over the last axis",
        _rms_norm,
        _with_last_axis(1),
        ahead=ahead.rows(1),
        c=c_interfaces.rows("rms_norm", ("weight",), ("eps",)),
        options={"eps": 1e-6},
        along="last",
        **{**_ALL, "tolerance": (16, 0)},
    ),
    row(
        "group_norm",
        "x weight? bias?",
        group_norm,
        "(x - mean) / sqrt(var + eps) * weight + bias: "
        "of each group of channels (axis 1) of each sample",
        by_torch(_group_norm),
        _with_channels(2),
        "GroupNormalization native_group_norm",
        options={"groups": 1, "eps": 1e-5},
        **_ALL,
    ),
    row(
        "instance_norm",
        "x weight? bias?",
        instance_norm,
        "(x - mean) / sqrt(var + eps) * weight + bias: of each channel (axis 1) of each sample",
        by_torch(_instance_norm),
        _with_channels(2, 3),
        "InstanceNormalization",
        options={"eps": 1e-5},
        **_ALL,
    ),
    row(
        "batch_norm",
        "x mean variance weight? bias?",
        batch_norm,
        "(x - mean) / sqrt(variance + eps) * weight + bias: of each channel (axis 1)",
        by_torch(_batch_norm),
        _with_channels(4),
        "batchnorm torch.nn.functional.batch_norm",
        options={"eps": 1e-5},
        **_ALL,
    ),
    row(
        "batch_norm_training",
        "x weight? bias?",
        batch_norm_training,
        "batch_norm by the batch's own mean and variance; and these",
        by_torch(_batch_norm_training),
        _with_channels(2),
        options={"eps": 1e-5},
        **_ALL,
    ),
    row(
        "native_batch_norm_legit",
        "x weight? bias?",
        batch_norm_training_inverse,
        "batch_norm by the batch's own mean and variance; and the means, and 1 / sqrt(variance + "
        "eps)",
        by_torch(_batch_norm_legit),
        _with_channels(2),
        "native_batch_norm_legit_no_stats",
        options={"eps": 1e-5},
        **_ALL,
    ),
    elementwise(
        "normalize_moments",
        "counts mean_ss variance_ss shift?",
        "mean and variance of counts elements from their sum and sum of squares, of elements less "
        "shift: mean_ss / counts + shift, and variance_ss / counts - (mean_ss / counts)^2",
        _moments,
        file="arithmetic",
        rule=QUOTIENT_TWO,
        by_given={
            (True, True, True, False): "arithmetic:moments",
            (True, True, True, True): "arithmetic:shifted_moments",
        },
        results=2,
        category="normalization",
        tolerance=(8, 8),
    ),
    row(
        "normalize",
        "x",
        normalize,
        "x / max(sqrt(sum x^2), eps) along axis (None: all)",
        by_torch(_normalize),
        alike(1),
        "LpNormalization",
        options={"axis": -1, "eps": 1e-12},
        **_ALL,
    ),
    _add_norm("layer", "weight? bias?", _layer, "", 1e-5),
    _add_norm("rms", "weight?", _rms, "fused_add_rms_norm", 1e-6),
)
