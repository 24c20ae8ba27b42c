"""Operators that torch's own libraries (cuBLAS, cuDNN, rocBLAS, oneDNN) compute too, as calls of
torch's: `impl="torch"`. This file imports nothing of torch; the caller gives it.

Each takes torch, the operator's arguments as tensors, and its options. What torch cannot do is a
ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["CALLS"]


def _only(**options: tuple[Any, Any]) -> None:
    """Check options that torch has no word for.

    Args:
        options: what each is, and the one value that torch computes.
    """
    for name, (value, default) in options.items():
        if value != default:
            raise ValueError(f"torch's own call knows no {name}={value!r}")


def _linear(torch: Any, x: Any, weight: Any, bias: Any = None, activation: str = "none") -> Any:
    functional = torch.nn.functional
    made = functional.linear(x, weight, bias)
    if activation == "none":
        return made
    known = {"relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu,
             "sigmoid": torch.sigmoid, "tanh": torch.tanh}  # fmt: skip
    if activation not in known:
        raise ValueError(f"torch's own call knows no activation={activation!r}")
    return known[activation](made)


def _convolution(name: str) -> Callable[..., Any]:
    def call(
        torch: Any, x: Any, weight: Any, bias: Any = None, *, stride: Any, padding: Any,
        dilation: Any, groups: int, channels_last: bool,
    ) -> Any:  # fmt: skip
        _only(channels_last=(channels_last, False))
        made = getattr(torch.nn.functional, name or f"conv{x.ndim - 2}d")
        return made(x, weight, bias, stride, padding, dilation, groups)

    return call


def _attention(
    torch: Any, query: Any, key: Any, value: Any, mask: Any = None, slopes: Any = None, *,
    causal: bool, window: Any, scale: Any, softcap: Any, lse: bool, offset: int, layout: str,
) -> Any:  # fmt: skip
    _only(slopes=(slopes, None), window=(window, None), softcap=(softcap, None), lse=(lse, False),
          offset=(offset, 0), layout=(layout, "bhsd"))  # fmt: skip
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, mask, is_causal=causal, scale=scale,
        enable_gqa=query.shape[-3] != key.shape[-3],
    )  # fmt: skip


def _norm(torch: Any, x: Any, weight: Any = None, bias: Any = None, *, eps: float) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _rms_norm(torch: Any, x: Any, weight: Any = None, *, eps: float) -> Any:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def _scan(name: str) -> Callable[..., Any]:
    def call(torch: Any, x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
        _only(exclusive=(exclusive, False), reverse=(reverse, False))
        return getattr(torch, name)(x, axis)

    return call


def _topk(torch: Any, x: Any, *, k: int, axis: int, largest: bool, sorted: bool) -> Any:
    return tuple(torch.topk(x, k, axis, largest, sorted))


def _along(name: str) -> Callable[..., Any]:
    return lambda torch, x, *, axis: getattr(torch, name)(x, axis)


#: By the operator's name.
CALLS: Mapping[str, Callable[..., Any]] = {
    "addmm": lambda torch, c, a, b, *, beta, alpha: torch.addmm(c, a, b, beta=beta, alpha=alpha),
    "argsort": lambda torch, x, *, axis, descending: torch.argsort(
        x, dim=axis, descending=descending, stable=True
    ),
    "attention": _attention,
    "baddbmm": lambda torch, c, a, b, *, beta, alpha: torch.baddbmm(
        c, a, b, beta=beta, alpha=alpha
    ),
    "conv": _convolution(""),
    "conv1d": _convolution("conv1d"),
    "conv2d": _convolution("conv2d"),
    "conv3d": _convolution("conv3d"),
    "cumprod": _scan("cumprod"),
    "cumsum": _scan("cumsum"),
    "einsum": lambda torch, *arrays, subscripts: torch.einsum(subscripts, *arrays),
    "layer_norm": _norm,
    "linear": _linear,
    "log_softmax": _along("log_softmax"),
    "matmul": lambda torch, a, b: torch.matmul(a, b),
    "outer": lambda torch, a, b: torch.outer(a.reshape(-1), b.reshape(-1)),
    "rms_norm": _rms_norm,
    "softmax": _along("softmax"),
    "sort": lambda torch, x, *, axis, descending: torch.sort(
        x, dim=axis, descending=descending, stable=True
    )[0],
    "tensordot": lambda torch, a, b, *, axes: torch.tensordot(a, b, axes),
    "topk": _topk,
}
