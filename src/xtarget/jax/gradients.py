"""Gradients of the catalog's kernels under JAX: of the function of JAX that computes the same.

`jax.vjp` of that function gives the gradient, so it is made of JAX's own operations and can be
differentiated again. What of the function the gradient does not need, XLA leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import nn

from ..spec import KernelSpec

__all__ = ["differentiable", "with_gradient"]


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction of JAX with our options."""

    def reduce(x: Any, where: Any = None, *, axis: Any, keepdims: bool, initial: Any = None) -> Any:
        more: dict[str, Any] = {} if where is None else {"where": jnp.asarray(where, bool)}
        if initial is not None:
            more["initial"] = initial
        return function(x, axis=axis, keepdims=keepdims, **more)

    return reduce


def _softplus(x: Any, *, beta: float, threshold: float) -> Any:
    scaled = x * beta
    near = jnp.where(scaled > threshold, 0.0, scaled)
    return jnp.where(scaled > threshold, x, jnp.log1p(jnp.exp(near)) / beta)


def _layer_norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float) -> Any:
    away = x - x.mean(-1, keepdims=True)
    normal = away * jax.lax.rsqrt(jnp.square(away).mean(-1, keepdims=True) + eps)
    normal = normal if weight is None else normal * weight
    return normal if bias is None else normal + bias


def _rms_norm(x: Any, weight: Any = None, *, eps: float) -> Any:
    normal = x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + eps)
    return normal if weight is None else normal * weight


#: Functions of the kernel's arrays and numbers, with its options by name.
_LIKE: Final[Mapping[str, Callable[..., Any]]] = {
    **{
        name: getattr(jnp, name)
        for name in (
            *("abs", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "sqrt"),
            *("square", "cbrt", "reciprocal", "sign", "ceil", "floor", "trunc", "round"),
            *("cos", "cosh", "sin", "sinh", "tan", "tanh", "hypot", "maximum", "minimum", "matmul"),
        )
    },
    **{f"a{name}": getattr(jnp, f"arc{name}") for name in ("cos", "cosh", "sin", "sinh", "tan")},
    "add": jnp.add,
    "atanh": jnp.arctanh,
    "div": jnp.divide,
    "elu": lambda x, *, alpha: nn.elu(x, alpha),
    "erf": jax.lax.erf,
    "erfc": jax.lax.erfc,
    "erfinv": jax.lax.erf_inv,
    "fma": lambda a, b, c: a * b + c,
    "gelu": lambda x, *, approximate: nn.gelu(x, approximate=approximate == "tanh"),
    "layer_norm": _layer_norm,
    "leaky_relu": lambda x, *, negative_slope: nn.leaky_relu(x, negative_slope),
    "lgamma": jax.lax.lgamma,
    "log_sigmoid": nn.log_sigmoid,
    "log_softmax": nn.log_softmax,
    "logsumexp": lambda x, *, axis, keepdims: nn.logsumexp(x, axis, keepdims=keepdims),
    "max": _reduced(jnp.max),
    "mean": _reduced(jnp.mean),
    "min": _reduced(jnp.min),
    "mul": jnp.multiply,
    "neg": jnp.negative,
    "pow": jnp.power,
    "relu": nn.relu,
    "rms_norm": _rms_norm,
    "rsqrt": jax.lax.rsqrt,
    "sigmoid": nn.sigmoid,
    "silu": nn.silu,
    "silu_mul": lambda x, scale: nn.silu(x) * scale,
    "softmax": nn.softmax,
    "softplus": _softplus,
    "sub": jnp.subtract,
    "sum": _reduced(jnp.sum),
    "where": jnp.where,
    "select": jnp.where,
}


def differentiable() -> list[str]:
    """The kernels that have a gradient."""
    return sorted(_LIKE)


def with_gradient(
    spec: KernelSpec,
    call: Callable[..., tuple[Any, ...]],
    taken: Sequence[Any],
    options: Mapping[str, Any],
) -> Callable[..., tuple[Any, ...]]:
    """A call that JAX can differentiate; one without a formula says so when it is asked.

    Args:
        call: gets the arrays among `taken`.
        taken: the kernel's arguments.
        options: that the caller gave.
    """
    # a user's kernel of the same name may be another function
    like = _LIKE.get(spec.name) if spec.category != "user" and not spec.updates else None
    given = {name: options.get(name, usual) for name, usual in spec.options.items()}

    def again(*arrays: Any) -> tuple[Any, ...]:
        assert like is not None
        left = iter(arrays)
        args = [next(left) if isinstance(one, jax.Array) else one for one in taken]
        while args and args[-1] is None:
            args.pop()
        return (like(*args, **given),)

    def forward(*arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return differentiated(*arrays), arrays  # it may be differentiated again

    def backward(arrays: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        if like is None:
            raise NotImplementedError(
                f"{spec.name} of xtarget has no gradient under JAX. Say one by jax.custom_vjp, or "
                "pass jax.lax.stop_gradient(x) of the arrays."
            )
        made, back = jax.vjp(again, *arrays)
        found: tuple[Any, ...] = back(
            tuple(g.astype(m.dtype) for g, m in zip(gradients, made, strict=True))
        )
        return found

    differentiated = jax.custom_vjp(call)
    differentiated.defvjp(forward, backward)
    made: Callable[..., tuple[Any, ...]] = differentiated
    return made
