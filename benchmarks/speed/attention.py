"""Attention of whole sequences, forward and backward, and of one query against many keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import xtarget

from .case import Case, randn

__all__ = ["cases"]

_HALF = torch.bfloat16
_SHAPE = (4, 32, 4096, 128)


def _by(backend: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        with sdpa_kernel(backend):
            return function(*args)

    return call


def _in_single(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """In float32, a head at a time: scores of float64 do not fit."""
    found = torch.empty(q.shape, device="cuda")
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            with sdpa_kernel(SDPBackend.MATH):
                one = (x[b : b + 1, h : h + 1].float() for x in (q, k, v))
                found[b, h] = F.scaled_dot_product_attention(*one, is_causal=causal)[0, 0]
    return found


def _forward(causal: bool) -> Case:
    b, h, s, d = _SHAPE
    work = 4 * b * h * s * s * d // (2 if causal else 1)
    return Case(
        f"attention bf16 4x32x4096x128 {'causal' if causal else 'full'}", "attention",
        lambda: tuple(randn(*_SHAPE, dtype=_HALF) for _ in range(3)),
        _by(SDPBackend.CUDNN_ATTENTION,
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)),
        work, True, options={"causal": causal},
        exact=lambda q, k, v: _in_single(q, k, v, causal), asked=0.97,
    )  # fmt: skip


def _backward(causal: bool) -> Case:
    """All three gradients; what is checked is that of the queries."""
    b, h, s, d = _SHAPE
    work = 10 * b * h * s * s * d // (2 if causal else 1)
    name = f"attention backward bf16 4x32x4096x128 {'causal' if causal else 'full'}"

    def inputs() -> tuple[Any, ...]:
        q, k, v = (randn(*_SHAPE, dtype=_HALF) for _ in range(3))
        out, lse = xtarget.run("attention", q, k, v, causal=causal, lse=True)
        return q, k, v, out, lse, randn(*_SHAPE, dtype=_HALF)

    graphs: dict[int, Any] = {}

    def theirs(q: Any, k: Any, v: Any, out: Any, lse: Any, grad: Any) -> Any:
        if q.data_ptr() not in graphs:
            leaves = [x.detach().requires_grad_() for x in (q, k, v)]
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                graphs[q.data_ptr()] = leaves, F.scaled_dot_product_attention(
                    *leaves, is_causal=causal
                )  # fmt: skip
        leaves, made = graphs[q.data_ptr()]
        return torch.autograd.grad(made, leaves, grad, retain_graph=True)[0]

    def ours(*args: Any, out: Any = None) -> Any:
        q, k, v, made, lse, grad = args
        return xtarget.run("attention_backward", grad, q, k, v, made, lse, causal=causal)[0]

    def exact(q: Any, k: Any, v: Any, out: Any, lse: Any, grad: Any) -> Any:
        found = torch.empty(q.shape, device="cuda")
        for i in range(q.shape[0]):
            for j in range(q.shape[1]):
                leaf, *rest = (x[i : i + 1, j : j + 1].float() for x in (q, k, v))
                leaf = leaf.requires_grad_()
                with sdpa_kernel(SDPBackend.MATH):
                    one = F.scaled_dot_product_attention(leaf, *rest, is_causal=causal)
                    (made,) = torch.autograd.grad(one, [leaf], grad[i : i + 1, j : j + 1].float())
                found[i, j] = made[0, 0]
        return found

    return Case(
        name, "attention_backward", inputs, theirs, work, True, ours=ours, exact=exact,
        asked=0.85, reuses=False, allowed=2e-2,
    )  # fmt: skip


def _decode(paged: bool) -> Case:
    requests, keys, heads, shared, d, page = 64, 8192, 32, 8, 128, 64
    work = 2 * 2 * requests * keys * shared * d

    def inputs() -> tuple[Any, ...]:
        q = randn(requests, heads, 1, d, dtype=_HALF)
        k, v = (randn(requests, shared, keys, d, dtype=_HALF) for _ in range(2))
        if not paged:
            return q, k, v
        pages = requests * keys // page
        table = torch.randperm(pages, device="cuda").view(requests, -1).to(torch.int32)
        lengths = torch.full((requests,), keys, device="cuda", dtype=torch.int32)
        places = table.view(-1).long()
        cache = []
        for x in (k, v):
            rows = x.transpose(1, 2).reshape(pages, page, shared, d)
            held = torch.empty_like(rows)
            held[places] = rows
            cache.append(held)
        return q, k, v, *cache, table, lengths

    def ours(q: Any, k: Any, v: Any, *rest: Any, out: Any = None) -> Any:
        if not rest:
            return xtarget.run("attention", q, k, v, out=out)
        found = None if out is None else out.view(requests, heads, d)
        made = xtarget.run("paged_attention", q.view(requests, heads, d), *rest, out=found)
        return made.view(requests, heads, 1, d)

    def exact(q: Any, k: Any, v: Any, *rest: Any) -> Any:
        with sdpa_kernel(SDPBackend.MATH):
            made = [F.scaled_dot_product_attention(
                        *(x[i : i + 1].float() for x in (q, k, v)), enable_gqa=True)
                    for i in range(requests)]  # fmt: skip
        return torch.cat(made)

    return Case(
        f"decode bf16 64 requests x 8192 keys, 32 heads on 8{', paged' if paged else ''}",
        "paged_attention" if paged else "attention", inputs,
        _by(SDPBackend.FLASH_ATTENTION, lambda q, k, v, *_: F.scaled_dot_product_attention(
            q, k, v, enable_gqa=True)),
        work, ours=ours, exact=exact, asked=0.9 if paged else 0.97,
    )  # fmt: skip


def cases() -> Iterator[Case]:
    for causal in (True, False):
        yield _forward(causal)
    for causal in (True, False):
        yield _backward(causal)
    for paged in (False, True):
        yield _decode(paged)
