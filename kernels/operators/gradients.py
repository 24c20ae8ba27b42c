"""Gradients of row kernels. Each takes the gradient of the result first."""

from __future__ import annotations

from typing import Any

from xtarget.spec import KernelSpec

from ..plans import hopper_attention
from ..plans.attention_gradients import attention_backward
from ..plans.gradients import log_softmax_backward, norm_backward, softmax_backward
from .attention import HOPPER, visible
from .references import by_torch
from .row import alike, implementation, row
from .rules import FLOATS

__all__ = ["IMPLEMENTATIONS", "ROWS"]


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


def _attention_back(
    grad: Any, query: Any, key: Any, value: Any, output: Any, lse: Any, *, layout: str = "bhsd",
    softcap: float | None = None, scale: float | None = None, **options: Any,
) -> Any:  # fmt: skip
    """By the formula, from the result and the sums that are given."""
    import numpy as np

    def heads(x: Any) -> Any:
        return np.swapaxes(x, -3, -2) if layout == "bshd" else x

    grad, query, key, value, output = map(heads, (grad, query, key, value, output))
    group = query.shape[-3] // max(key.shape[-3], 1) if query.ndim > 2 else 1
    k, v = (np.repeat(x, group, -3) if query.ndim > 2 else x for x in (key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores, slope = query @ np.swapaxes(k, -1, -2) * scale, scale
    if softcap:
        bent = np.tanh(scores / softcap)
        scores, slope = bent * softcap, scale * (1 - bent**2)
    seen = visible(np, query.shape[-2], key.shape[-2], options)[0]
    total = np.where(np.isneginf(lse), np.inf, lse)[..., None]
    power = np.where(seen, np.exp(np.where(seen, scores - total, -np.inf)), 0)
    level = (grad * output).sum(-1, keepdims=True)
    change = power * (grad @ np.swapaxes(v, -1, -2) - level) * slope
    of_key, of_value = (np.swapaxes(x, -1, -2) for x in (change, power))

    def together(x: Any) -> Any:  # heads that share one
        if query.ndim < 3:
            return x
        return x.reshape(*key.shape[:-2], group, *x.shape[-2:]).sum(-3)

    found = change @ k, together(of_key @ query), together(of_value @ grad)
    return tuple(heads(x) for x in found)


def _attended(shape: tuple[int, ...]) -> Any:
    """Arrays of one head size, of at most 64; no result of attention, but of its shapes."""
    front = shape[:-1] or (1,)
    return [(*front, min((shape or (1,))[-1], 64))] * 5 + [front]


def _normalized(shape: tuple[int, ...]) -> Any:
    """Rows of five elements where they would be of one: of that the gradient cancels, and what is
    left is the rounding of its parts, here as in torch."""
    rows = (*shape[:-1], 5) if shape[-1:] == (1,) else shape
    return [rows, rows, rows[-1:]]


_ALL: Any = {"category": "gradient", "dtypes": FLOATS}

ROWS: tuple[KernelSpec, ...] = (
    row("softmax_backward", "grad output", softmax_backward, "gradient of softmax, from its result",
        by_torch(_softmax_gradient), alike(2), "softmax_bp softmax_backward_data",
        options={"axis": -1}, tolerance=(64, 32), **_ALL),
    row("log_softmax_backward", "grad output", log_softmax_backward, "gradient of log_softmax, "
        "from its result", by_torch(_log_softmax_gradient), alike(2),
        "log_softmax_bp log_softmax_backward_data",
        options={"axis": -1}, tolerance=(64, 32), **_ALL),
    row("layer_norm_backward", "grad x weight?", norm_backward(False), "gradients of layer_norm: "
        "of x, of its weight, of its bias", by_torch(_layer_back),
        _normalized, "native_layer_norm_backward layer_norm_bp",
        options={"eps": 1e-5}, tolerance=(128, 64), **_ALL),
    row("attention_backward", "grad query key value output lse", attention_backward, "gradients of "
        "attention: of query, of key, of value, from its result and the log of its sums; causal, "
        "in a window, keys with fewer heads", _attention_back, _attended,
        "scaled_dot_product_attention_backward flash_attention_backward sdpa_backward",
        options={"causal": False, "window": None, "scale": None, "softcap": None, "offset": 0,
                 "layout": "bhsd"}, tolerance=None, **_ALL),
    row("rms_norm_backward", "grad x weight?", norm_backward(True), "gradients of rms_norm: of x, "
        "of its weight", by_torch(_rms_back), _normalized,
        "rms_norm_bp", options={"eps": 1e-6}, tolerance=(128, 64), **_ALL),
)  # fmt: skip

IMPLEMENTATIONS: tuple[KernelSpec, ...] = (
    implementation("attention_backward", ROWS, "hopper", hopper_attention.attention_backward,
        *HOPPER, preferred=True),
)  # fmt: skip
