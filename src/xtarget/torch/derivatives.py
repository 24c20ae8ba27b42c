"""Derivatives of kernels, in torch's own operations, so that they can be differentiated again.

Each formula gets the gradient of the result, and gives one for each input; `fit` sums over what an
input was broadcast to.

Source: derivatives of elementary functions as in torch's `derivatives.yaml` (the mathematics, not
the text); layer and RMS normalization by the chain rule over the centred and scaled row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._kernels.libraries import catalog
from .._values.value_classes import value_class
from ..spec import KernelSpec
from .attention import attention_gradient

__all__ = [
    "FORMULAS",
    "PARTIAL",
    "UNARY",
    "Layout",
    "differentiable",
    "fit",
    "has_gradient",
    "reads",
]


@value_class(frozen=True, slots=True)
class Layout:
    """In the place of a tensor whose elements a derivative does not read."""

    shape: Sequence[int]
    dtype: torch.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def is_floating_point(self) -> bool:
        return bool(self.dtype.is_floating_point)


#: Of one input: (gradient, input, result) to the input's gradient.
_Unary = Callable[[Tensor, Tensor, Tensor], Tensor]
#: Of any kernel: (gradient, inputs, result, options) to one gradient for each input.
_Formula = Callable[[Tensor, Sequence[Any], Tensor, Mapping[str, Any]], Sequence[Any]]

UNARY: dict[str, _Unary] = {
    "abs": lambda g, x, y: g * x.sign(),
    "acos": lambda g, x, y: -g * (1 - x * x).rsqrt(),
    "acosh": lambda g, x, y: g * (x * x - 1).rsqrt(),
    "asin": lambda g, x, y: g * (1 - x * x).rsqrt(),
    "asinh": lambda g, x, y: g * (x * x + 1).rsqrt(),
    "atan": lambda g, x, y: g / (x * x + 1),
    "atanh": lambda g, x, y: g / (1 - x * x),
    "cbrt": lambda g, x, y: g / (3 * y * y),
    "ceil": lambda g, x, y: torch.zeros_like(g),
    "cos": lambda g, x, y: -g * x.sin(),
    "cosh": lambda g, x, y: g * x.sinh(),
    "erf": lambda g, x, y: g * (2 / math.sqrt(math.pi)) * (-x * x).exp(),
    "erfc": lambda g, x, y: -g * (2 / math.sqrt(math.pi)) * (-x * x).exp(),
    "exp": lambda g, x, y: g * y,
    "exp2": lambda g, x, y: g * y * math.log(2),
    "expm1": lambda g, x, y: g * (y + 1),
    "floor": lambda g, x, y: torch.zeros_like(g),
    "log": lambda g, x, y: g / x,
    "log10": lambda g, x, y: g / (x * math.log(10)),
    "log1p": lambda g, x, y: g / (x + 1),
    "log2": lambda g, x, y: g / (x * math.log(2)),
    "negative": lambda g, x, y: -g,
    "neg": lambda g, x, y: -g,
    "reciprocal": lambda g, x, y: -g * y * y,
    "relu": lambda g, x, y: g * (x > 0),
    "round": lambda g, x, y: torch.zeros_like(g),
    "rsqrt": lambda g, x, y: -0.5 * g * y * y * y,
    "sigmoid": lambda g, x, y: g * y * (1 - y),
    "sign": lambda g, x, y: torch.zeros_like(g),
    "silu": lambda g, x, y: g * x.sigmoid() * (1 + x * (1 - x.sigmoid())),
    "sin": lambda g, x, y: g * x.cos(),
    "sinh": lambda g, x, y: g * x.cosh(),
    "sqrt": lambda g, x, y: g / (2 * y),
    "square": lambda g, x, y: 2 * g * x,
    "tan": lambda g, x, y: g * (y * y + 1),
    "tanh": lambda g, x, y: g * (1 - y * y),
    "trunc": lambda g, x, y: torch.zeros_like(g),
}


#: Of these, the derivatives that read the result and not the input, and those that read neither;
#: the others read the input and not the result.
_OF_RESULT = frozenset(
    ("cbrt", "exp", "exp2", "expm1", "reciprocal", "rsqrt", "sigmoid", "sqrt", "tan", "tanh")
)
_OF_NEITHER = frozenset(("ceil", "floor", "neg", "negative", "round", "sign", "trunc"))


def _gelu(g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]) -> Sequence[Any]:
    (x,) = given
    if options["approximate"] == "tanh":
        scale = math.sqrt(2 / math.pi)
        inner = (scale * (x + 0.044715 * x**3)).tanh()
        slope = scale * (1 + 3 * 0.044715 * x * x)
        return (g * (0.5 * (1 + inner) + 0.5 * x * (1 - inner * inner) * slope),)
    normal = (-0.5 * x * x).exp() / math.sqrt(2 * math.pi)
    return (g * (0.5 * torch.erfc(-x / math.sqrt(2)) + x * normal),)


def _maximum(
    g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]
) -> Sequence[Any]:
    """Or the minimum. Of equal numbers each gets half, as in torch."""
    a, b = (torch.as_tensor(x, dtype=g.dtype, device=g.device) for x in given)
    tie = 0.5 * (a == b).to(g.dtype)
    return g * ((a == y).to(g.dtype) - tie), g * ((b == y).to(g.dtype) - tie)


def _where(g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]) -> Sequence[Any]:
    condition = torch.as_tensor(given[0], device=g.device).to(torch.bool)
    nothing = torch.zeros_like(g)
    return None, torch.where(condition, g, nothing), torch.where(condition, nothing, g)


def _spread(g: Tensor, x: Tensor, options: Mapping[str, Any]) -> Tensor:
    """The value of a reduction's result, at each of the elements that it was made of."""
    axis = options["axis"]
    if axis is None:
        return g.reshape([1] * x.ndim).expand(x.shape)
    if not options["keepdims"]:
        axes = sorted(a % x.ndim for a in ([axis] if isinstance(axis, int) else axis))
        for one in axes:
            g = g.unsqueeze(one)
    return g.expand(x.shape)


def _axes(x: Tensor, options: Mapping[str, Any]) -> list[int]:
    axis = options["axis"]
    return list(range(x.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)


def _chosen(given: Sequence[Any], g: Tensor) -> Tensor:
    """1 for each element that a reduction takes, 0 for those that `where` leaves out."""
    x, where = (*given, None)[:2]
    if where is None:
        return torch.ones((), dtype=g.dtype, device=g.device).expand(x.shape)
    return torch.as_tensor(where, device=g.device).to(g.dtype).expand(x.shape)


def _reduced(share: Callable[..., Tensor]) -> _Formula:
    """Of a reduction with `where`: what each element that it takes has of the result's gradient, by
    a function of these elements (as numbers), input, result and options."""

    def formula(
        g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]
    ) -> Sequence[Any]:
        own = share(_chosen(given, g), given[0], y, options)
        # what is left out gets 0 also of a result that is nan
        found = torch.where(own == 0, torch.zeros_like(own), _spread(g, given[0], options) * own)
        return (found, None)[: len(given)]

    return formula


def _greatest(chosen: Tensor, x: Tensor, y: Tensor, options: Mapping[str, Any]) -> Tensor:
    """Equal greatest (or least) elements share the gradient, as in `torch.amax`."""
    chosen = (x == _spread(y, x, options)).to(chosen.dtype) * chosen
    many = chosen.sum(_axes(x, options), keepdim=True) if x.ndim else chosen
    return chosen / many.clamp(min=1)


def _equally(chosen: Tensor, x: Tensor, y: Tensor, options: Mapping[str, Any]) -> Tensor:
    many = chosen.sum(_axes(x, options), keepdim=True) if x.ndim else chosen
    return chosen / many.clamp(min=1)


def _logsumexp(
    g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]
) -> Sequence[Any]:
    (x,) = given
    return (_spread(g, x, options) * (x - _spread(y, x, options)).exp(),)


def _log_softmax(
    g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]
) -> Sequence[Any]:
    return (g - y.exp() * g.sum(options["axis"], keepdim=True),)


def _pow(g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]) -> Sequence[Any]:
    a, b = (torch.as_tensor(x, dtype=g.dtype, device=g.device) for x in given)
    # of 0 ** b the logarithm is nothing, not infinity
    return g * b * a ** (b - 1), g * torch.where(a == 0, torch.zeros_like(y), y * a.log())


def _silu_mul(
    g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]
) -> Sequence[Any]:
    x, scale = given
    sigmoid = x.sigmoid()
    return g * scale * sigmoid * (1 + x * (1 - sigmoid)), g * x * sigmoid


def _leaky_relu(
    g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]
) -> Sequence[Any]:
    return (torch.where(given[0] > 0, g, g * options["negative_slope"]),)


def _elu(g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]) -> Sequence[Any]:
    return (torch.where(given[0] > 0, g, g * (y + options["alpha"])),)


def _softplus(
    g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]
) -> Sequence[Any]:
    scaled = given[0] * options["beta"]
    return (torch.where(scaled > options["threshold"], g, g * scaled.sigmoid()),)


def _softmax(
    g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]
) -> Sequence[Any]:
    return (y * (g - (g * y).sum(options["axis"], keepdim=True)),)


def _layer_norm(
    g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]
) -> Sequence[Any]:
    x, weight, bias = (*given, None, None)[:3]
    centred = x - x.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + options["eps"]).rsqrt()
    normal = centred * scale
    inner = g if weight is None else g * weight
    mean = inner.mean(-1, keepdim=True)
    slope = (inner * normal).mean(-1, keepdim=True)
    return (
        (inner - mean - normal * slope) * scale,
        None if weight is None else g * normal,
        None if bias is None else g,
    )[: len(given)]


def _rms_norm(
    g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]
) -> Sequence[Any]:
    x, weight = (*given, None)[:2]
    scale = (x.square().mean(-1, keepdim=True) + options["eps"]).rsqrt()
    normal = x * scale
    inner = g if weight is None else g * weight
    slope = (inner * normal).mean(-1, keepdim=True)
    return ((inner - normal * slope) * scale, None if weight is None else g * normal)[: len(given)]


def _of_left(g: Tensor, a: Any, b: Tensor, y: Any) -> Tensor:
    """Of a product's first factor."""
    wide = _with_both(g, a, b)
    found = wide @ (b.unsqueeze(-1) if b.ndim == 1 else b).transpose(-1, -2)
    return found.squeeze(-2) if a.ndim == 1 else found


def _of_right(g: Tensor, a: Tensor, b: Any, y: Any) -> Tensor:
    """Of a product's second factor."""
    found = (a.unsqueeze(0) if a.ndim == 1 else a).transpose(-1, -2) @ _with_both(g, a, b)
    return found.squeeze(-1) if b.ndim == 1 else found


def _with_both(g: Tensor, a: Any, b: Any) -> Tensor:
    """The gradient of a product with the dimensions that vectors took away."""
    if a.ndim == 1:
        g = g.unsqueeze(-1 if b.ndim == 1 else -2)
    return g.unsqueeze(-1) if b.ndim == 1 else g


#: Of each input by itself: what its gradient reads (numbers of inputs, `y` the result), and the
#: formula of gradient, inputs and result. Only those that are asked for are computed.
PARTIAL: dict[str, tuple[tuple[str, Callable[..., Tensor]], ...]] = {
    "add": (("", lambda g, a, b, y: g), ("", lambda g, a, b, y: g)),
    "sub": (("", lambda g, a, b, y: g), ("", lambda g, a, b, y: -g)),
    "mul": (("1", lambda g, a, b, y: g * b), ("0", lambda g, a, b, y: g * a)),
    "div": (("1", lambda g, a, b, y: g / b), ("1y", lambda g, a, b, y: -g * y / b)),
    "fma": (
        ("1", lambda g, a, b, c, y: g * b),
        ("0", lambda g, a, b, c, y: g * a),
        ("", lambda g, a, b, c, y: g),
    ),
    "matmul": (("1", _of_left), ("0", _of_right)),
}

#: What the formulas below read, as above, of those that do not read all of it.
_READ = {
    **dict.fromkeys(("gelu", "layer_norm", "leaky_relu", "log_sigmoid", "rms_norm"), "01"),
    **dict.fromkeys(("silu_mul", "softplus"), "01"),
    **dict.fromkeys(("log_softmax", "softmax"), "y"),
    **dict.fromkeys(("mean", "sum"), "1"),
    "select": "0",
    "where": "0",
}

FORMULAS: dict[str, _Formula] = {
    "attention": attention_gradient,
    "elu": _elu,
    "leaky_relu": _leaky_relu,
    "log_sigmoid": lambda g, given, y, options: (g * torch.sigmoid(-given[0]),),
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "mean": _reduced(_equally),
    "min": _reduced(_greatest),
    "minimum": _maximum,
    "pow": _pow,
    "silu_mul": _silu_mul,
    "softplus": _softplus,
    "maximum": _maximum,
    "where": _where,
    "select": _where,
    "gelu": _gelu,
    "sum": _reduced(lambda chosen, x, y, options: chosen),
    "max": _reduced(_greatest),
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
}


def reads(name: str, wanted: Sequence[bool]) -> tuple[frozenset[int] | None, bool]:
    """The arrays that the gradients of a kernel read.

    Args:
        wanted: the inputs whose gradients are asked for.

    Returns:
        the numbers of inputs (None: all), and whether they read the result.
    """
    if name in UNARY:
        given = not (name in _OF_RESULT or name in _OF_NEITHER)
        return frozenset([0] if given else []), name in _OF_RESULT
    if name in PARTIAL:
        text = "".join(r for (r, _), one in zip(PARTIAL[name], wanted, strict=False) if one)
    else:
        text = _READ.get(name, "")
        if not text:
            return None, True
    return frozenset(map(int, text.replace("y", ""))), "y" in text


def has_gradient(spec: KernelSpec) -> bool:
    """Formulas are for the catalog's kernels: a user's `exp` may be another function."""
    return spec.category != "user" and (
        spec.name in UNARY or spec.name in PARTIAL or spec.name in FORMULAS
    )


def differentiable() -> list[str]:
    """The kernels that have a gradient."""
    return sorted(name for name, spec in catalog().items() if has_gradient(spec))


def fit(gradient: Any, given: Any) -> Any:
    """The gradient of an input that was broadcast, and None for a number."""
    if gradient is None or not isinstance(given, Tensor | Layout) or not given.is_floating_point():
        return None
    return gradient.sum_to_size(given.shape).to(given.dtype)
