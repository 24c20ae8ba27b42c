"""torch tensors that are more than memory, or less: gradients, tracing, transforms, subclasses.

Each is tried twice: before and after a plain tensor of the same layout has been taken.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError

pytest.importorskip("torch", reason="torch is not installed here")

import torch
import torch.autograd.forward_ad as forward_ad


def refused_before_and_after(strange: Callable[[], Any], plain: Any, match: str) -> None:
    """As an argument, beside a plain one, and as `out`; also where its layout is known."""
    for known in (False, True):
        if known:
            xtarget.run("relu", plain)
            xtarget.run("add", plain, plain)
            xtarget.run("relu", plain, out=plain.clone())
        with pytest.raises(ArgumentError, match=match):
            xtarget.run("relu", strange())
        with pytest.raises(ArgumentError, match=match):
            xtarget.run("add", plain, strange())
        with pytest.raises(ArgumentError, match=match):
            xtarget.run("relu", plain, out=strange())
        with pytest.raises(ArgumentError, match=match):
            xtarget.asarray(strange())


# ----------------------------------------------------------------------------------- gradients


def test_a_gradient_is_never_lost_in_silence(place: str) -> None:
    plain = torch.randn(31, device=place)
    weight = torch.nn.Parameter(plain.clone())
    for tensor in (plain.clone().requires_grad_(), weight, weight * 2, weight[:31]):
        refused_before_and_after(lambda t=tensor: t, plain, r"requires grad.*detach\(\).*no_grad")


def test_tensors_that_require_grad_are_taken_where_torch_records_nothing(place: str) -> None:
    weight = torch.nn.Parameter(torch.randn(33, device=place))
    expected = torch.relu(weight.detach())
    assert torch.equal(xtarget.run("relu", weight.detach()), expected)
    with torch.no_grad():
        assert torch.equal(xtarget.run("relu", weight), expected)
        out = torch.empty_like(weight).requires_grad_()
        assert torch.equal(xtarget.run("relu", weight, out=out), expected)
    with torch.inference_mode():
        result = xtarget.run("relu", weight)
        assert torch.equal(result, expected)
        assert xtarget.run("relu", result, out=torch.empty_like(result)) is not None
    with pytest.raises(ArgumentError, match="requires grad"):
        xtarget.run("relu", weight)


@pytest.mark.parametrize("form", ["tensor", "view", "xtarget", "subclass"])
def test_a_write_by_out_is_seen_by_a_later_backward(place: str, form: str) -> None:
    x = torch.randn(64, device=place, requires_grad=True)
    saved = torch.randn(64, device=place)
    loss = (x * saved).sum()
    out: Any = saved
    if form == "view":
        out = saved[:]
    elif form == "xtarget":
        if place == "cpu":
            pytest.skip("xtarget's arrays are copies of the host's")
        out = xtarget.asarray(saved)
    elif form == "subclass":
        out = saved.as_subclass(Plain)
    given = xtarget.asarray(torch.ones(64, device=place)) if form == "xtarget" else None
    ones = torch.ones(64, device=place) if given is None else given
    assert xtarget.run("relu", ones, out=out) is out
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_forward_mode_tangents_are_refused(place: str) -> None:
    plain = torch.randn(35, device=place)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(plain, torch.ones_like(plain))
        refused_before_and_after(lambda: dual, plain.clone(), "tangent.*unpack_dual")
        assert torch.equal(xtarget.run("relu", plain), torch.relu(plain))


# ------------------------------------------------------------------------- lazily changed values


def test_a_lazy_sign_is_never_lost(place: str) -> None:
    def negated() -> Any:
        return torch.randn(37, dtype=torch.complex64, device=place).conj().imag

    plain = torch.randn(37, dtype=torch.complex64, device=place).imag
    refused_before_and_after(negated, plain, "resolve_neg")
    one = torch.randn(1, dtype=torch.complex64, device=place)
    refused_before_and_after(lambda: one.conj().imag, torch.randn(1, device=place), "resolve_neg")
    fine = negated().resolve_neg()
    assert torch.equal(xtarget.run("relu", fine), torch.relu(fine))


# -------------------------------------------------------------------------- tensors without memory


class Plain(torch.Tensor):
    """A subclass that adds nothing to memory."""


class Lying(torch.Tensor):
    """A subclass whose functions answer for something else."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return 0


def _freed(place: str) -> Any:
    tensor = torch.randn(41, device=place)
    tensor.untyped_storage().resize_(0)
    return tensor


def _fake(place: str) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(41, device=place)


def _fake_of(place: str) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode().from_tensor(torch.randn(41, device=place))


def _two(place: str) -> Any:
    two = pytest.importorskip("torch.testing._internal.two_tensor")
    return two.TwoTensor(torch.randn(41, device=place), torch.randn(41, device=place))


def _jagged(place: str) -> Any:
    parts = [torch.randn(2, device=place), torch.randn(3, device=place)]
    return torch.nested.nested_tensor(parts, layout=torch.jagged)


STRANGE: dict[str, Callable[[str], Any]] = {
    "fake": _fake,
    "fake of a real one": _fake_of,
    "meta": lambda place: torch.empty(41, device="meta"),
    "zero": lambda place: torch._efficientzerotensor(41, device=place),
    "freed": _freed,
    "two in one": _two,
    "without a shape": lambda place: torch.nn.UninitializedParameter(device=place),
    "sparse": lambda place: torch.eye(3, device=place).to_sparse(),
    "sparse rows": lambda place: torch.eye(3, device=place).to_sparse_csr(),
    "nested": lambda place: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": _jagged,
    "quantised": lambda place: torch.quantize_per_tensor(torch.randn(41), 0.1, 0, torch.quint8),
    "mkldnn": lambda place: torch.randn(41).to_mkldnn(),
    "complex": lambda place: torch.zeros(41, dtype=torch.complex64, device=place),
    "conjugated": lambda place: torch.zeros(41, dtype=torch.complex64, device=place).conj(),
    "eight bits": lambda place: torch.zeros(41, device=place).to(torch.float8_e5m2fnuz),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STRANGE)
def test_a_tensor_without_ordinary_memory_is_one_sentence(place: str, name: str) -> None:
    plain = torch.randn(41, device=place)
    with torch.no_grad():
        refused_before_and_after(lambda: STRANGE[name](place), plain, r"\. |: ")
    assert torch.equal(xtarget.run("relu", plain), torch.relu(plain))


@pytest.mark.filterwarnings("ignore")
def test_a_quantised_tensor_is_told_its_own_way_out() -> None:
    with pytest.raises(xtarget.ArgumentError, match=r"quantized tensor .* Call \.dequantize\(\)"):
        xtarget.run("relu", STRANGE["quantised"]("cpu"))


def test_a_subclass_is_the_tensor_in_it(place: str) -> None:
    values = torch.randn(43, device=place)
    for cls in (Plain, Lying):
        with torch._C.DisableTorchFunctionSubclass():
            tensor = values.as_subclass(cls)
        result = xtarget.run("relu", tensor)
        assert type(result) is torch.Tensor
        assert torch.equal(result, torch.relu(values))
    buffer = torch.nn.Buffer(values) if hasattr(torch.nn, "Buffer") else values
    assert torch.equal(xtarget.run("relu", buffer), torch.relu(values))


# ------------------------------------------------------------------------ transforms and tracing


def _functionalized(function: Callable[[Any], Any], x: Any) -> None:
    torch.func.functionalize(function)(x)


def _made(mode: str) -> Callable[[Callable[[Any], Any], Any], None]:
    def make(function: Callable[[Any], Any], x: Any) -> None:
        from torch.fx.experimental.proxy_tensor import make_fx

        make_fx(function, tracing_mode=mode)(x)

    return make


TRANSFORMS: dict[str, Callable[[Callable[[Any], Any], Any], None]] = {
    "vmap": lambda f, x: torch.vmap(f)(x),
    "grad": lambda f, x: torch.func.grad(lambda y: f(y).sum())(x),
    "vjp": lambda f, x: torch.func.vjp(f, x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "hessian": lambda f, x: torch.func.hessian(lambda y: f(y).sum())(x),
    "linearize": lambda f, x: torch.func.linearize(f, x),
    "functionalize": _functionalized,
    "make_fx real": _made("real"),
    "make_fx fake": _made("fake"),
    "make_fx symbolic": _made("symbolic"),
    "jit.trace": lambda f, x: torch.jit.trace(f, (x,)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["result", "out", "out of a fixed tensor"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_a_transform_does_not_see_is_refused(place: str, name: str, way: str) -> None:
    x = torch.randn(4, 8, device=place)
    fixed = torch.zeros(4, 8, device=place)
    xtarget.run("relu", x)  # the layouts are known
    xtarget.run("relu", x[0])
    xtarget.run("relu", x, out=torch.empty_like(x))

    def function(y: Any) -> Any:
        if way == "result":
            return xtarget.run("relu", y) * 2
        if way == "out":
            return xtarget.run("relu", y, out=torch.empty_like(y)) * 2
        return xtarget.run("relu", x, out=fixed) * y

    seen = name.startswith("make_fx") or name in ("jit.trace", "linearize")
    if way == "out of a fixed tensor" and not seen:
        TRANSFORMS[name](function, x)  # the fixed tensor is not part of the transform
        assert torch.equal(fixed, torch.relu(x))
        return
    with pytest.raises(ArgumentError, match=r"xtarget\.run|memory"):
        TRANSFORMS[name](function, x)
    if name != "linearize":  # which calls the function once before it traces it
        assert not fixed.any()


def test_what_torch_fx_traces_is_told_so(place: str) -> None:
    xtarget.run("relu", torch.ones(8, device=place))
    with pytest.raises(ArgumentError, match=r"torch\.fx is tracing"):
        torch.fx.symbolic_trace(lambda y: xtarget.run("relu", y))


def test_no_result_is_made_under_a_mode_of_fake_tensors(place: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = torch.randn(8, device=place)
    xtarget.run("relu", x)
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(ArgumentError):
        xtarget.run("relu", x)


def test_a_mode_that_only_looks_on_is_no_hindrance(place: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    x = torch.randn(8, device=place)
    with FlopCounterMode(display=False):
        assert torch.equal(xtarget.run("relu", x), torch.relu(x))


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_function_runs_the_kernel_between_its_graphs(place: str) -> None:
    x = torch.randn(4, 8, device=place)
    before = xtarget.run("relu", x)

    def function(y: Any) -> Any:
        return xtarget.run("relu", y * 2) + 1

    compiled = torch.compile(function, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(x), before * 2 + 1)
    torch._dynamo.reset()
    # where the compiled core makes the calls, torch says itself that it cannot see into it
    with pytest.raises(
        Exception, match=r"xtarget runs kernels that torch does not see|xtarget\.run"
    ):
        torch.compile(function, backend="eager", fullgraph=True)(x)


EXPORT = """
import sys
import torch
import xtarget

class Model(torch.nn.Module):
    def forward(self, y):
        return xtarget.run("relu", y * 2) + 1

x = torch.randn(4, 8)
xtarget.run("relu", x)
for strict in (True, False):
    try:
        torch.export.export(Model(), (x,), strict=strict)
    except Exception as error:
        print(type(error).__name__)
    else:
        sys.exit("exported without the kernel")
print("alive")
"""


def test_export_ends_in_an_error_and_not_the_process(device: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EXPORT], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "alive"


def test_numpy_views_of_tensors_are_memory_like_any_other(device: str) -> None:
    tensor = torch.randn(16)
    np.testing.assert_array_equal(xtarget.run("relu", tensor.numpy()), torch.relu(tensor).numpy())


def test_launches_on_torchs_default_stream_have_memory_of_torchs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch calls the default stream 0, the driver 1: it is one stream."""
    from types import SimpleNamespace

    from xtarget._arrays import torch as kind
    from xtarget._devices import streams

    default, other = SimpleNamespace(handle=1), SimpleNamespace(handle=7)
    info = SimpleNamespace(vendor="nvidia", ordinal=0, name="nvidia:of-this-test")
    device = SimpleNamespace(info=info, default_stream=default)
    monkeypatch.setattr(kind, "_raw_stream", lambda: lambda ordinal: 0)
    monkeypatch.setattr(
        kind, "_bytes_on", lambda ordinal: lambda n: torch.empty(n, dtype=torch.uint8)
    )
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert streams.borrow(device, 0) is default
    assert kind.KIND.memory(device, 64, default) is not None
    assert kind.KIND.memory(device, 64, other) is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts pages of Linux")
def test_results_take_the_memory_of_those_that_are_gone(a_cpu: None) -> None:
    x = torch.rand(1024, 1024)

    def pages() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1])

    def calls(count: int) -> None:
        for _ in range(count):
            xtarget.run("relu", x, device="cpu:0")

    calls(20)
    before = pages()
    calls(80)
    assert pages() - before < 20 * x.numel() * x.element_size() // os.sysconf("SC_PAGE_SIZE")
