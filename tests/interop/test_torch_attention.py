"""Attention as an operator of PyTorch: its gradients, also of a mask and of ALiBi's slopes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

import xtarget.torch

xtarget.torch.register("attention")


def _random(*shape: int) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)


QUERY, KEY, VALUE = _random(1, 2, 3, 4), _random(1, 1, 4, 4), _random(1, 1, 4, 2)
MASK, SLOPES = _random(3, 4), _random(2)
SEEN = torch.tensor([[True, False, True, True], [False] * 4, [True] * 4])


def _attended(options: dict[str, Any], *more: Any) -> Any:
    return lambda *given: torch.ops.xtarget.attention(*given, *more, **options)


@pytest.mark.parametrize(
    ("given", "more", "options"),
    [
        ((), (), {"causal": True}),
        ((), (SEEN,), {}),
        ((MASK, SLOPES), (), {"window": [2, 1], "softcap": 2.0}),
    ],
)
def test_gradients(given: Any, more: Any, options: dict[str, Any]) -> None:
    """By the kernel, and in torch's operations (of a mask, and of a gradient)."""
    call, given = _attended(options, *more), (QUERY, KEY, VALUE, *given)
    assert torch.autograd.gradcheck(call, given, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, given, fast_mode=True)


def test_the_kernels_gradient_is_the_one_in_torchs_operations() -> None:
    options = {"causal": True, "layout": "bshd"}
    given = [x.detach().transpose(1, 2).requires_grad_() for x in (QUERY, KEY, VALUE)]
    result = _attended(options)(*given)
    by_kernel = torch.autograd.grad(result.sum(), given, retain_graph=True)
    by_formula = torch.autograd.grad(result.sum(), given, create_graph=True)
    for one, other in zip(by_kernel, by_formula, strict=True):
        torch.testing.assert_close(one, other.detach())
