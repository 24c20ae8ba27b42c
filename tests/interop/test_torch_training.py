"""Operators of `torch.ops.xtarget` within what trains models: DDP, FSDP, checkpoints and hooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch
from torch import distributed, nn
from torch.utils.checkpoint import checkpoint

from xtarget.torch import operators

operators()
OPS = torch.ops.xtarget


class Block(nn.Module):
    """A layer by the catalog's kernels, or by torch's own operators."""

    def __init__(self, *, own: bool) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.own, self.linear = own, nn.Linear(8, 8)
        self.weight, self.bias = nn.Parameter(torch.rand(8)), nn.Parameter(torch.rand(8))

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        if self.own:
            return OPS.gelu(OPS.layer_norm(y, self.weight, self.bias))
        return nn.functional.gelu(nn.functional.layer_norm(y, (8,), self.weight, self.bias))


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of this process alone."""
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def gradients(module: Any, x: Any) -> list[Any]:
    module(x).square().sum().backward()
    found = [parameter.grad for parameter in module.parameters()]
    return [g.full_tensor() if hasattr(g, "full_tensor") else g for g in found]


def same(found: list[Any], wanted: list[Any]) -> None:
    assert len(found) == len(wanted) == 4
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_hooks_of_ddp_see_every_gradient(group: None) -> None:
    x, model = torch.rand(5, 8), Block(own=True)
    parallel = nn.parallel.DistributedDataParallel(model)
    buckets: list[Any] = []

    def noted(state, bucket):  # type: ignore[no-untyped-def]  # torch looks at annotations
        buckets.append(bucket.buffer().clone())
        future: Any = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    parallel.register_comm_hook(None, noted)
    came: list[Any] = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(came.append)
    same(gradients(parallel, x), gradients(Block(own=False), x))
    assert sum(bucket.numel() for bucket in buckets) == 8 * 8 + 3 * 8
    assert len(came) == 4


def test_parameters_that_fsdp_shards(group: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    x = torch.rand(5, 8)
    model = fully_shard(Block(own=True), mesh=init_device_mesh("cpu", (1,)))
    assert type(model.weight).__name__ == "DTensor"
    same(gradients(model, x), gradients(Block(own=False), x))


def test_what_is_computed_again_in_the_backward_pass() -> None:
    x, model = torch.rand(5, 8), Block(own=True)
    again = gradients(_Checkpointed(model), x)
    same(again, gradients(Block(own=False), x))


class _Checkpointed(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return checkpoint(self.inner, x, use_reentrant=False)


def test_hooks_of_saved_tensors_and_of_results_are_called() -> None:
    x = torch.rand(5, requires_grad=True)
    saved: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        result = OPS.gelu(x)
    assert saved
    came: list[Any] = []
    result.register_hook(came.append)
    result.sum().backward()
    assert len(came) == 1
    other = x.detach().requires_grad_()
    nn.functional.gelu(other).sum().backward()
    torch.testing.assert_close(x.grad, other.grad)


def test_second_derivatives() -> None:
    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(OPS.mul(x, OPS.mul(x, x)).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 6 * x.detach())


# ----------------------------------------------------------------------------- what a graph keeps


@pytest.mark.parametrize(
    ("name", "shapes", "kept"),
    [
        ("add", [(8, 8), (8, 8)], []),
        ("neg", [(8, 8)], []),
        ("sum", [(8, 8)], []),
        ("exp", [(8, 8)], ["result"]),
        ("sin", [(8, 8)], [0]),
        ("softmax", [(8, 8)], ["result"]),
        ("mul", [(8, 8), (8, 8)], [0, 1]),
        ("mul", [(8, 8), ()], [0, 1]),
        ("div", [(8, 8), (8, 8)], [1, "result"]),
        ("matmul", [(8, 8), (8, 8)], [0, 1]),
        ("layer_norm", [(8, 8), (8,), (8,)], [0, 1]),
        ("gelu", [(8, 8)], [0]),
        ("pow", [(8, 8), (8, 8)], [0, 1, "result"]),
    ],
)
def test_a_graph_keeps_what_its_gradient_reads(
    name: str, shapes: list[tuple[int, ...]], kept: list[Any], place: str
) -> None:
    operator = getattr(torch.ops.xtarget, name)
    inputs = [torch.rand(s, device=place).add_(0.5).requires_grad_() for s in shapes]
    assert _kept(operator, inputs)[0] == kept


@pytest.mark.parametrize("name", ["mul", "matmul"])
def test_a_frozen_weight_s_partner_is_not_kept(name: str, place: str) -> None:
    x = torch.rand(8, 8, device=place, requires_grad=True)
    weight = torch.rand(8, 8, device=place)
    found, result = _kept(getattr(torch.ops.xtarget, name), [x, weight])
    assert found == [1]
    result.sum().backward()
    ones = torch.ones_like(x)
    want = weight if name == "mul" else ones @ weight.T
    torch.testing.assert_close(x.grad, want)


def _kept(operator: Any, inputs: list[torch.Tensor]) -> tuple[list[Any], torch.Tensor]:
    """The inputs, by number, that the graph of a call keeps, and whether it keeps the result."""
    saved: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = operator(*inputs)
    addresses = [tensor.data_ptr() for tensor in inputs]
    found = [addresses.index(t.data_ptr()) if t.data_ptr() in addresses else "result"
             for t in saved]  # fmt: skip
    return found, result
