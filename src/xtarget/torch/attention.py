"""The gradient of attention: by the kernel where that can be, else in torch's operations.

Source: T. Dao, "FlashAttention-2" (2023), section 2.3.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._launch.run import run

__all__ = ["attention_gradient"]

#: Options of `attention` that its gradient has too.
_SHARED = ("causal", "window", "scale", "softcap", "offset", "layout")


def attention_gradient(
    g: Tensor, given: Sequence[Any], y: Tensor, options: Mapping[str, Any]
) -> Sequence[Any]:
    """Gradients of query, key, value, and of an added mask and ALiBi's slopes.

    The scores stay out of memory where there is neither mask nor slopes, and nobody differentiates
    the gradient again or traces it.
    """
    query, key, value, mask, slopes = (*given, None, None)[:5]
    tensors = (g, query, key, value, y)
    plain = all(type(one) in (Tensor, torch.nn.Parameter) for one in tensors)
    if plain and mask is None and slopes is None and not torch.is_grad_enabled():
        own = {name: _number(options[name]) for name in _SHARED}
        _, lse = run("attention", query, key, value, lse=True, **own)
        return list(run("attention_backward", g.contiguous(), query, key, value, y, lse, **own))
    if options["layout"] == "bshd":
        turned = [one.transpose(-3, -2) for one in tensors]
        found = _formula(turned, mask, slopes, options)
        return [*(one.transpose(-3, -2) for one in found[:3]), *found[3:]][: len(given)]
    return _formula(tensors, mask, slopes, options)[: len(given)]


def _number(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _formula(
    tensors: Sequence[Tensor], mask: Any, slopes: Any, options: Mapping[str, Any]
) -> list[Any]:
    g, query, key, value, y = tensors
    cap, scale = options["softcap"], options["scale"]
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    many = 1 if query.ndim < 3 else query.shape[-3] // max(key.shape[-3], 1)
    keys, values = (x if many == 1 else x.repeat_interleave(many, -3) for x in (key, value))
    scores = query @ keys.transpose(-1, -2) * scale
    bent = torch.tanh(scores / cap) if cap else None
    scores = scores if bent is None else bent * cap
    seen, apart = _visible(query, key, options)
    if slopes is not None:
        scores = scores - slopes[..., None, None] * apart
    if mask is not None:
        seen = seen & mask if mask.dtype is torch.bool else seen
        scores = scores if mask.dtype is torch.bool else scores + mask
    scores = scores.masked_fill(~seen, float("-inf"))
    # a query that sees no key has no weights
    none = scores.amax(-1, keepdim=True).isneginf() if scores.shape[-1] else seen.new_zeros(())
    weights = torch.softmax(scores.masked_fill(none, 0), -1).masked_fill(none, 0)
    of_weights = g @ values.transpose(-1, -2)
    of_scores = weights * (of_weights - (g * y).sum(-1, keepdim=True))
    inner = of_scores if bent is None else of_scores * (1 - bent * bent)
    of_query = inner @ keys * scale
    of_key = _together(inner.transpose(-1, -2) @ query * scale, many)
    of_value = _together(weights.transpose(-1, -2) @ g, many)
    added = mask is not None and mask.dtype is not torch.bool
    of_slopes = None if slopes is None else -(of_scores * apart).sum((-1, -2))
    return [of_query, of_key, of_value, of_scores if added else None, of_slopes]


def _together(x: Tensor, many: int) -> Tensor:
    """The sum over the heads that share one of the keys."""
    return x if many == 1 else x.unflatten(-3, (x.shape[-3] // many, many)).sum(-3)


def _visible(query: Tensor, key: Tensor, options: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """The keys that each query sees, and their distances."""
    length, count = query.shape[-2], key.shape[-2]
    begin = count - length if options["offset"] is None else options["offset"]
    place = torch.arange(length, device=query.device)[:, None] + begin
    other = torch.arange(count, device=query.device)[None, :]
    left, right = options["window"] or (-1, -1)
    right = 0 if options["causal"] else right
    seen = torch.ones(length, count, dtype=torch.bool, device=query.device)
    if left >= 0:
        seen = seen & (other >= place - left)
    if right >= 0:
        seen = seen & (other <= place + right)
    return seen, (place - other).abs().to(query.dtype)
