"""Kernels as operators of PyTorch: results, torch's own checks, gradients, compiling."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from operators import dtypes_of, own, sampled

import xtarget

pytest.importorskip("torch", reason="torch is not installed")

import torch

import xtarget.torch as xt
from xtarget._values.errors import ArgumentError
from xtarget.spec import KernelSpec
from xtarget.torch.schemas import schemas

OPS = torch.ops.xtarget
LONG = bool(os.environ.get("XTARGET_TEST_LONG"))
GRADIENTS = xt.differentiable()
CATALOG = sorted(own())


def operator(name: str) -> Any:
    return getattr(OPS, name)


def samples(spec: KernelSpec, dtype: str) -> list[Any]:
    """Tensors for all inputs, 0.3 to 0.9: in every function's domain, away from corners."""
    torch.manual_seed(len(spec.name))
    assert spec.examples is not None
    shapes, dtypes = spec.examples((3, 5)), dtypes_of(spec, dtype)
    return [
        None if shape is None else _tensor(shape, own)
        for shape, own in zip(shapes, dtypes, strict=False)
    ]


def _tensor(shape: tuple[int, ...], dtype: str) -> Any:
    if dtype == "bool":
        return torch.rand(shape) > 0.5
    numbers = 0.3 + 0.6 * torch.rand(shape, dtype=torch.float64)
    if dtype.startswith(("int", "uint")):
        numbers = (3 * numbers).round()
    return numbers.to(getattr(torch, dtype))


def dtype_of(spec: KernelSpec) -> str:
    return next(d for d in ("float64", "int32", "bool", *spec.dtypes) if d in spec.dtypes)


def inputs(name: str, place: str, *, requires_grad: bool = False) -> tuple[Any, ...]:
    spec = xtarget.catalog()[name]
    given = [t if t is None else t.to(place) for t in samples(spec, dtype_of(spec))]
    if name == "acosh":
        given[0] = given[0] + 1
    if requires_grad:
        for tensor in given:
            if tensor is not None and tensor.is_floating_point():
                tensor.requires_grad_()
    return tuple(given)


def same(one: Any, other: Any) -> None:
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (one, other)), strict=True):
        torch.testing.assert_close(a, b)


def test_every_kernel_is_an_operator() -> None:
    refused = xt.operators()
    # other tests of this process register kernels of their own
    assert not [name for name in refused if name in CATALOG]
    for name in CATALOG:
        assert operator(name).default is not None


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [sampled(name, name) for name in CATALOG])
def test_an_operator_gives_what_run_gives(name: str, place: str) -> None:
    given = inputs(name, place)
    if given:
        same(operator(name)(*given), xtarget.run(name, *given))
    else:  # `run` has no array to tell the library from, and gives NumPy's; torch has a device
        expected = torch.as_tensor(np.asarray(xtarget.run(name))).to(place)
        same(operator(name)(device=place), expected)


# opcheck compares the schema with what is done, fake results with real ones, gradients with and
# without tracing; sizes are symbolic in its last test
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [sampled(name, name) for name in CATALOG])
def test_torch_s_own_check_of_operators(name: str, place: str) -> None:
    given = inputs(name, place, requires_grad=name in GRADIENTS)
    results = torch.library.opcheck(operator(name).default, given, raise_exception=True)
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", [sampled(name, name) for name in GRADIENTS])
def test_gradients(name: str, place: str) -> None:
    given = inputs(name, place, requires_grad=True)
    assert torch.autograd.gradcheck(operator(name), given)
    assert torch.autograd.gradgradcheck(operator(name), given)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gelu", {"approximate": "tanh"}),
        ("softmax", {"axis": 0}),
        ("sum", {"axis": [1]}),
        ("sum", {"axis": [0, -1], "keepdims": True}),
        ("max", {"axis": [0]}),
        ("max", {"keepdims": True}),
        ("layer_norm", {"eps": 0.1}),
        ("rms_norm", {"eps": 0.1}),
    ],
)
def test_gradients_with_options(name: str, options: dict[str, Any], place: str) -> None:
    given = inputs(name, place, requires_grad=True)
    call = lambda *args: operator(name)(*args, **options)  # noqa: E731
    assert torch.autograd.gradcheck(call, given)
    assert torch.autograd.gradgradcheck(call, given)


@pytest.mark.parametrize(
    ("a", "b"), [((5,), (5, 3)), ((2, 4, 5), (5, 3)), ((4, 5), (5,)), ((5,), (5,))]
)
def test_gradients_of_matmul_with_vectors_and_batches(a: Any, b: Any) -> None:
    given = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in (a, b)]
    assert torch.autograd.gradcheck(OPS.matmul, given)


def test_clip_with_one_limit_that_is_a_tensor_or_a_number() -> None:
    x = torch.linspace(-2, 2, 5)
    for low, high in ((-1.0, None), (None, 1.0), (-1.0, 1.0), (x.flip(0), None), (None, x * 0)):
        torch.testing.assert_close(torch.ops.xtarget.clip(x, low, high), x.clamp(low, high))


def test_gradients_of_what_was_broadcast() -> None:
    a = torch.randn(4, 1, 3, dtype=torch.float64, requires_grad=True)
    b = torch.randn(5, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(OPS.mul, (a, b))
    assert torch.autograd.gradcheck(lambda x: OPS.div(2.0, OPS.add(x, 5.0)), (a,))


def test_equal_greatest_elements_share_the_gradient() -> None:
    x = torch.tensor([1.0, 3.0, 3.0], requires_grad=True)
    OPS.max(x).backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5]


def test_layer_norm_without_weight() -> None:
    x = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(OPS.layer_norm, (x,))
    assert torch.autograd.gradcheck(OPS.rms_norm, (x,))


def test_numbers_take_the_dtype_of_the_tensor() -> None:
    x = torch.ones(4, dtype=torch.float16)
    assert OPS.add(x, 2.5).dtype is torch.float16
    assert OPS.sub(1, x).tolist() == [0.0] * 4
    assert OPS.where(x > 0, x, 0).dtype is torch.float16


# ------------------------------------------------------------------------------------- torch's ways


def program(a: Any, b: Any) -> Any:
    hidden = OPS.gelu(OPS.matmul(a, b))
    return OPS.softmax(hidden + OPS.sum(a, axis=[1], keepdims=True), axis=-1)


def test_a_compiled_program_serves_all_sizes_without_a_break() -> None:
    compiles = []

    def backend(graph: Any, _: Any) -> Any:
        compiles.append(graph)
        return graph.forward

    torch.compiler.reset()
    compiled = torch.compile(program, fullgraph=True, dynamic=True, backend=backend)
    for size in (5, 17, 700, 3000):  # beyond every threshold of a tile
        a, b = torch.randn(size, 8), torch.randn(8, 6)
        torch.testing.assert_close(compiled(a, b), program(a, b))
    assert len(compiles) == 1


def test_a_compiled_program_has_gradients() -> None:
    torch.compiler.reset()
    a = torch.randn(9, 8, requires_grad=True)
    b = torch.randn(8, 6, requires_grad=True)
    program(a, b).square().sum().backward()
    expected = a.grad.clone(), b.grad.clone()
    a.grad = b.grad = None
    torch.compile(program, fullgraph=True, backend="aot_eager")(a, b).square().sum().backward()
    same((a.grad, b.grad), expected)


@pytest.mark.skipif(not LONG, reason="inductor compiles C++ for a minute (XTARGET_TEST_LONG=1)")
def test_inductor() -> None:
    torch.compiler.reset()
    a, b = torch.randn(9, 8), torch.randn(8, 6)
    torch.testing.assert_close(torch.compile(program, fullgraph=True)(a, b), program(a, b))


def test_an_exported_program() -> None:
    class Model(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return program(a, b)

    rows = torch.export.Dim("rows", min=2)
    a, b = torch.randn(9, 8), torch.randn(8, 6)
    exported = torch.export.export(Model(), (a, b), dynamic_shapes=({0: rows}, None))
    a = torch.randn(2500, 8)
    torch.testing.assert_close(exported.module()(a, b), program(a, b))


def test_vmap_of_elementwise_operators() -> None:
    a, b = torch.randn(7, 4), torch.randn(4)
    torch.testing.assert_close(torch.vmap(OPS.add, in_dims=(0, None))(a, b), a + b)
    two = torch.full((3, 1), 2.0)
    torch.testing.assert_close(torch.vmap(OPS.mul, (1, None))(a, two), two * a.T[:, None])


def test_vmap_of_a_users_kernel_that_broadcasts_nothing() -> None:
    from torch_operator_kernels import scaled_sum_of_torch

    operator = xtarget.torch.register(scaled_sum_of_torch)
    a, b, many = torch.randn(7, 4), torch.randn(4), torch.randn(4, 7)
    torch.testing.assert_close(torch.vmap(operator, (0, None))(a, b), 2 * a + b)
    torch.testing.assert_close(torch.vmap(operator, (None, 1))(b, many), 2 * b + many.T)
    three = torch.vmap(lambda x: operator(x, b, 3.0))(a)
    torch.testing.assert_close(three, 3 * a + b)


def test_no_operator_has_two_overloads_of_one_signature() -> None:
    """torch ends the process when it forgets such operators."""
    from torch_operator_kernels import scaled_sum_of_torch

    xtarget.torch.register(scaled_sum_of_torch)
    for name in (*xtarget.catalog(), "scaled_sum_of_torch"):
        operator = getattr(OPS, name, None)
        if operator is not None:
            overloads = [getattr(operator, one)._schema for one in operator.overloads()]
            signatures = {tuple(str(a.type) for a in one.arguments) for one in overloads}
            assert len(signatures) == len(overloads), name


def test_a_training_step() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4)
    target = torch.randn(16, 4)
    x = torch.randn(16, 8)
    losses = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(20):
        difference = OPS.sub(OPS.layer_norm(model(x)), target)
        loss = OPS.sum(OPS.mul(difference, difference)) / target.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


# --------------------------------------------------------------------------------------- bad input


def test_parameters_may_be_passed_where_nobody_asks_for_a_gradient(axpy: Any) -> None:
    call = xt.register(axpy)
    x = torch.ones(4, requires_grad=True)
    result = call(x, torch.ones(4), 2.0)
    assert result.tolist() == [3.0] * 4
    with pytest.raises(NotImplementedError, match="axpy_of_torch of xtarget has no gradient"):
        result.sum().backward()
    with torch.no_grad():
        assert not call(x, torch.ones(4), 2.0).requires_grad


def test_wrong_arguments_are_told_while_tracing_as_without() -> None:
    a = torch.ones(3, 4)
    wanted = r"matmul: .*\(3, 4\)"
    with pytest.raises(ArgumentError, match=wanted):
        OPS.matmul(a, a)
    fakes = torch._subclasses.FakeTensorMode()
    fake = fakes.from_tensor(a)
    with fakes, pytest.raises(ArgumentError, match=wanted):
        OPS.matmul(fake, fake)
    with fakes, pytest.raises(ArgumentError, match="axis 5 is out of range"):
        OPS.softmax(fake, axis=5)


def test_an_operator_of_one_name_is_one_kernel(axpy: Any) -> None:
    assert xt.register(axpy) is xt.register("axpy_of_torch")


def test_an_option_that_torch_cannot_write() -> None:
    spec = KernelSpec("odd_option", ("x",), pytest.fail, options={"table": {"a": 1}})

    with pytest.raises(ArgumentError, match="no type for the option table="):
        list(schemas(spec, 1))


@pytest.fixture(scope="module")
def axpy() -> Any:
    from torch_operator_kernels import axpy_of_torch

    return axpy_of_torch


def test_numpy_gets_the_same(axpy: Any) -> None:
    x = np.ones(4, np.float32)
    assert xtarget.get(axpy)(x, x, 2.0).tolist() == [3.0] * 4
