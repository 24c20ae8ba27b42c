"""Gradients of row kernels. Each takes the gradient of the result first."""

from __future__ import annotations

from typing import Any

from xtarget.spec import KernelSpec

from ..plans.gradients import log_softmax_backward, norm_backward, softmax_backward
from .references import by_torch
from .row import alike, row
from .rules import FLOATS

__all__ = ["ROWS"]


def _softmax_gradient(torch: Any, d: Any, y: Any, axis: int = -1) -> Any:
    return y * (d - (d * y).sum(axis, keepdim=True))


def _log_softmax_gradient(torch: Any, d: Any, y: Any, axis: int = -1) -> Any:
    return d - y.exp() * d.sum(axis, keepdim=True)


def _norm(torch: Any, x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _rms(torch: Any, x: Any, weight: Any = None, eps: float = 1e-6) -> Any:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def _layer_back(torch: Any, d: Any, x: Any, weight: Any = None, eps: float = 1e-5) -> Any:
    x = x.clone().requires_grad_()
    w = torch.ones(x.shape[-1], dtype=x.dtype) if weight is None else weight.clone()
    w.requires_grad_()
    b = torch.zeros_like(w).requires_grad_()
    return torch.autograd.grad(_norm(torch, x, w, b, eps), [x, w, b], d.to(x.dtype))


def _rms_back(torch: Any, d: Any, x: Any, weight: Any = None, eps: float = 1e-6) -> Any:
    x = x.clone().requires_grad_()
    w = torch.ones(x.shape[-1], dtype=x.dtype) if weight is None else weight.clone()
    w.requires_grad_()
    return torch.autograd.grad(_rms(torch, x, w, eps), [x, w], d.to(x.dtype))


_ALL: Any = {"category": "gradient", "dtypes": FLOATS}

ROWS: tuple[KernelSpec, ...] = (
    row("softmax_backward", "grad output", softmax_backward, "gradient of softmax, from its result",
        by_torch(_softmax_gradient), alike(2), "softmax_bp", options={"axis": -1},
        tolerance=(64, 32), **_ALL),
    row("log_softmax_backward", "grad output", log_softmax_backward, "gradient of log_softmax, "
        "from its result", by_torch(_log_softmax_gradient), alike(2), "log_softmax_bp",
        options={"axis": -1}, tolerance=(64, 32), **_ALL),
    row("layer_norm_backward", "grad x weight?", norm_backward(False), "gradients of layer_norm: "
        "of x, of its weight, of its bias", by_torch(_layer_back),
        lambda shape: [shape, shape, shape[-1:]], "native_layer_norm_backward layer_norm_bp",
        options={"eps": 1e-5}, tolerance=(128, 64), **_ALL),
    row("rms_norm_backward", "grad x weight?", norm_backward(True), "gradients of rms_norm: of x, "
        "of its weight", by_torch(_rms_back), lambda shape: [shape, shape, shape[-1:]],
        "rms_norm_bp", options={"eps": 1e-6}, tolerance=(128, 64), **_ALL),
)  # fmt: skip
