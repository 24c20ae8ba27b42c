"""torch.func, autocast and tracing through the operators of `torch.ops.xtarget`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch
import torch_operator_kernels as kernels

import xtarget.torch

OPS = torch.ops.xtarget
func = torch.func


def ours(x: Any) -> Any:
    return OPS.softmax(x).square().sum()


def theirs(x: Any) -> Any:
    return torch.softmax(x, -1).square().sum()


def twice(f: Callable[..., Any]) -> Callable[..., Any]:
    return func.grad(lambda x: func.grad(f)(x).square().sum())


@pytest.mark.parametrize(
    "transform",
    [
        func.grad,
        twice,
        lambda f: func.jacrev(func.jacrev(f)),
        lambda f: func.vmap(func.grad(f)),
        lambda f: lambda x: func.vjp(f, x)[1](torch.ones((), dtype=x.dtype))[0],
        lambda f: torch.compile(func.grad(f), fullgraph=True, backend="aot_eager"),
    ],
    ids=["grad", "twice", "jacrev", "per-sample", "vjp", "compiled"],
)
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_derivatives(transform: Callable[..., Any]) -> None:
    x = torch.rand(3, 5, dtype=torch.float64)
    torch.testing.assert_close(transform(ours)(x), transform(theirs)(x))


def test_a_transform_within_plain_autograd() -> None:
    x = torch.rand(3, 5, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(func.grad(ours)(x).square().sum(), x)
    torch.testing.assert_close(found, twice(theirs)(x.detach()))


def test_no_grad_within_a_transform_is_kept() -> None:
    def product(x: Any) -> Any:
        with torch.no_grad():
            y = OPS.exp(x)
        return (x * y).sum()

    x = torch.rand(4)
    torch.testing.assert_close(func.grad(product)(x), x.exp())


@pytest.mark.parametrize(
    "call",
    [
        lambda x: func.jvp(OPS.exp, (x,), (x,)),
        lambda x: func.jacfwd(OPS.softmax)(x),
        lambda x: func.hessian(ours)(x),  # forward over reverse
        lambda x: func.vmap(lambda y: func.jvp(OPS.exp, (y,), (y,)))(x),
        lambda x: func.jvp(func.vmap(OPS.exp), (x,), (x,)),
    ],
    ids=["jvp", "jacfwd", "hessian", "vmap of jvp", "jvp of vmap"],
)
def test_tangents_are_refused_and_not_lost(call: Callable[..., Any]) -> None:
    with pytest.raises(NotImplementedError, match=r"no forward-mode derivative .* jacrev"):
        call(torch.rand(3, 5))


def test_no_gradient_is_said_within_a_transform() -> None:
    with pytest.raises(NotImplementedError, match="sort of xtarget has no gradient"):
        func.grad(lambda x: OPS.sort(x).sum())(torch.rand(4))


def test_per_sample_gradients_of_a_module() -> None:
    model = torch.nn.Linear(6, 3)
    given = {name: p.detach() for name, p in model.named_parameters()}

    def loss(gelu: Callable[..., Any]) -> Callable[..., Any]:
        return lambda p, x: gelu(func.functional_call(model, p, (x,))).sum()

    x = torch.rand(4, 6)
    found = func.vmap(func.grad(loss(OPS.gelu)), (None, 0))(given, x)
    wanted = func.vmap(func.grad(loss(torch.nn.functional.gelu)), (None, 0))(given, x)
    torch.testing.assert_close(found, wanted)


def test_autocast() -> None:
    """Operators compute in what they get; beside a bfloat16 product that is both."""
    model, weight = torch.nn.Linear(6, 6), torch.ones(6, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model(torch.rand(4, 6))
        normal = OPS.rms_norm(hidden, weight.to(hidden.dtype))
    assert hidden.dtype is torch.bfloat16
    assert normal.dtype is torch.bfloat16
    normal.float().square().sum().backward()
    assert weight.grad is not None
    assert model.weight.grad is not None


def test_an_operator_follows_autocast_where_that_is_asked() -> None:
    """As torch's custom operators do: by `torch.library.register_autocast`, and not by itself."""
    x, library = torch.rand(4, 4), torch.library.Library("xtarget", "FRAGMENT")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert OPS.matmul(x, x).dtype is torch.float32
    torch.library.register_autocast("xtarget::matmul", "cpu", torch.bfloat16, lib=library)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found, wanted = OPS.matmul(x, x), x @ x
        assert OPS.matmul(x, x).dtype is torch.float32
    finally:
        library._destroy()
    assert found.dtype is wanted.dtype is torch.bfloat16
    torch.testing.assert_close(found, wanted)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert OPS.matmul(x, x).dtype is torch.float32


@pytest.mark.long  # Inductor compiles C++ for a minute
def test_aot_inductor() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return OPS.softmax(OPS.gelu(x) + OPS.sum(x, axis=[1], keepdims=True))

    with torch.no_grad():
        rows = ({0: torch.export.Dim("rows", min=2)},)
        exported = torch.export.export(Model(), (torch.randn(9, 8),), dynamic_shapes=rows)
        package = torch._inductor.aoti_compile_and_package(exported)
        loaded = torch._inductor.aoti_load_package(package)
        for count in (9, 3000):
            x = torch.randn(count, 8)
            torch.testing.assert_close(loaded(x), Model()(x))


def test_operators_without_tensors_know_dtype_and_device() -> None:
    made = OPS.full(shape=[2, 3], value=2.5, dtype=torch.bfloat16)
    assert (made.dtype, made.shape) == (torch.bfloat16, (2, 3))
    assert (made == 2.5).all()
    assert OPS.arange(start=0.5, stop=3, dtype=torch.float32).tolist() == [0.5, 1.5, 2.5]
    assert OPS.zeros(shape=[2], device="meta").is_meta


def test_lengths_that_are_counted_are_traced() -> None:
    exported = torch.export.export(Chosen(), (torch.rand(6), torch.ones(6, dtype=torch.bool)))
    x, condition = torch.arange(5.0), torch.tensor([True, False, True, True, False])
    x, condition = torch.cat([x, x[:1]]), torch.cat([condition, condition[:1]])
    assert exported.module()(x, condition).tolist() == [0.0, 4.0, 6.0, 0.0]


class Chosen(torch.nn.Module):
    def forward(self, x: Any, condition: Any) -> Any:
        return OPS.masked_select(x, condition) * 2


X = torch.rand(4, 6)
Q = torch.rand(1, 2, 8, 16)


@pytest.mark.parametrize(
    ("name", "given", "options"),
    [
        ("argmax", (X,), {"axis": 1}),
        ("attention", (Q, Q, Q), {"scale": 0.1, "softcap": 2, "window": [3, 0]}),
        ("expand_dims", (X,), {"axis": [0, 3]}),
        ("full_like", (X,), {"value": 2.5}),
        ("gemm", (X, X.T.contiguous()), {"alpha": 0.5}),
        ("interpolate", (Q,), {"scale": [1, 1.5]}),
        ("interpolate", (Q,), {"size": 9}),
        ("max_pool2d", (Q,), {"kernel": (2, 1), "stride": 2}),
        ("nan_to_num", (X.log(),), {"posinf": 1.5}),
        ("permute", (X,), {"axes": [1, 0]}),
        ("quantile", (X,), {"q": [0.25, 0.5]}),
        ("quantile", (X,), {"q": 0.25, "axis": 1}),
        ("roll", (X,), {"shift": [1, 2], "axis": [0, 1]}),
        ("sum", (X,), {"initial": 2.5}),
        ("tile", (X,), {"reps": (2, 1)}),
        ("var", (X,), {"correction": 1}),
    ],
)
def test_options_of_several_kinds(name: str, given: Any, options: dict[str, Any]) -> None:
    kept = {n: tuple(v) if isinstance(v, list) else v for n, v in options.items()}
    found = getattr(OPS, name)(*given, **options)
    torch.testing.assert_close(found, xtarget.run(name, *given, **kept), equal_nan=True)


def test_an_elementwise_input_that_may_be_left_out() -> None:
    x = torch.arange(4.0)
    assert OPS.clip(x, 1.0).tolist() == [1.0, 1.0, 2.0, 3.0]
    assert OPS.clip(x, None, torch.tensor(2.0)).tolist() == [0.0, 1.0, 2.0, 2.0]
    assert torch.vmap(lambda row: OPS.clip(row, None, 2.0))(x).tolist() == [0.0, 1.0, 2.0, 2.0]


def test_declared_kernels_are_operators_with_all_their_results() -> None:
    """Sizes are symbolic in the last of torch's checks."""
    split = xtarget.torch.register(kernels.split_rows_of_torch)
    scale = xtarget.torch.register(kernels.scale_of_torch)
    x = torch.rand(3, 5)
    torch.testing.assert_close(split(x), (x.amin(1), x.amax(1)))
    for operator, given in ((split, (x,)), (scale, (x[0].clone(), x[1]))):
        results = torch.library.opcheck(operator.default, given)
        assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize(
    "differentiated",
    [
        lambda call, y: func.grad(lambda y: call(y * 1).sum())(y),
        lambda call, y: func.jvp(call, (y,), (y,)),
        lambda call, y: call(y.requires_grad_()),
    ],
    ids=["grad", "jvp", "autograd"],
)
def test_an_operator_that_writes_refuses_to_lose_a_gradient(differentiated: Any) -> None:
    scale = xtarget.torch.register(kernels.scale_of_torch)

    def call(y: Any) -> Any:
        x = torch.ones(3)
        scale(x, y)
        return x

    with pytest.raises(
        NotImplementedError, match=r"scale_of_torch of xtarget .*derivative|gradient"
    ):
        differentiated(call, torch.ones(3))
    assert call(torch.full((3,), 2.0)).tolist() == [2.0] * 3


W = torch.tensor([[True, False, True, True, False, True]])


@pytest.mark.sample(3, each=("name",))
@pytest.mark.parametrize(
    ("name", "dims", "given", "options"),
    [
        ("sum", (0, None), (X, W[0]), {"axis": -1}),
        ("sum", (None, 1), (X, W), {"axis": (0, 1), "keepdims": True}),
        ("mean", (2,), (X[None].repeat(2, 1, 1),), {"axis": 0, "keepdims": True}),
        ("argmax", (2,), (X[None].repeat(2, 1, 1),), {"keepdims": True}),
        ("quantile", (1,), (X,), {"q": [0.2, 0.7], "axis": 0}),
        ("aminmax", (0,), (X,), {}),
        ("logsumexp", (0,), (X[0],), {}),
        ("softmax", (1,), (X,), {}),
        ("topk", (0,), (X[None],), {"k": 2, "axis": 0}),
        ("layer_norm", (1, None), (X.T.contiguous(), X[0]), {}),
        ("matmul", (None, 0), (X[0], X[:, :, None]), {}),
        ("matmul", (1, 0), (X.T.contiguous(), X), {}),
    ],
)
def test_vmap_is_one_call_with_a_dimension_more(
    name: str, dims: Any, given: Any, options: dict[str, Any], recwarn: pytest.WarningsRecorder
) -> None:
    """Wherever the batch lies; torch warns of operators that it calls for each sample."""
    operator = getattr(OPS, name)
    found = torch.vmap(lambda *args: operator(*args, **options), dims)(*given)
    size = next(x.shape[dim] for x, dim in zip(given, dims, strict=True) if dim is not None)
    samples = [
        operator(
            *(x if dim is None else x.select(dim, i) for x, dim in zip(given, dims, strict=True)),
            **options,
        )
        for i in range(size)
    ]
    several = isinstance(found, tuple)
    right = tuple(map(torch.stack, zip(*samples, strict=True))) if several else torch.stack(samples)
    torch.testing.assert_close(found, right)
    assert not [one for one in recwarn if "performance drop" in str(one.message)]


def test_vmap_refuses_an_axis_of_the_batch() -> None:
    with pytest.raises(xtarget.ArgumentError, match="axis"):
        torch.vmap(lambda row: OPS.softmax(row, axis=-2))(X)


def test_vmap_of_no_samples() -> None:
    empty = torch.zeros(0, 3)
    for call in (OPS.sum, lambda row: OPS.softmax(row, axis=0), lambda row: OPS.matmul(row, row)):
        assert torch.vmap(call)(empty).shape[0] == 0
    assert torch.vmap(OPS.sum)(torch.zeros(2, 0)).tolist() == [0, 0]
    with pytest.raises(xtarget.ArgumentError, match=r"for each sample here, and the batch .* none"):
        torch.vmap(OPS.sum)(torch.zeros(0))
