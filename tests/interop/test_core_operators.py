"""The compiled core as what torch calls for an operator: `Operator` of `_core/operator.c`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import xtarget

pytest.importorskip("torch", reason="torch is not installed")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import xtarget.torch  # makes the operators
from xtarget._arrays.torch_in_c import transforms
from xtarget._values.errors import ArgumentError

OPS = torch.ops.xtarget


def served(core: Any, call: Callable[[], Any]) -> int:
    """Make a call until the core knows it; how many of the next two it has made."""
    for _ in range(4):
        call()
    before = core.statistics()[0]
    for _ in range(2):
        call()
    return int(core.statistics()[0] - before)


@pytest.fixture
def through_python(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the operators whose calls come to Python."""
    came: list[str] = []
    from xtarget.torch import gradients

    real = gradients._is_plain

    def noted(args: Any) -> bool:
        came.append("call")
        return real(args)

    monkeypatch.setattr(gradients, "_is_plain", noted)
    return came


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: OPS.add(x, x), lambda x: x + x),
        (lambda x: OPS.mul(x, 2.5), lambda x: x * 2.5),
        (lambda x: OPS.softmax(x, axis=0), lambda x: x.softmax(0)),
        (lambda x: OPS.sum(x, axis=[1]), lambda x: x.sum(1)),
        (lambda x: OPS.sum(x, axis=1, keepdims=True), lambda x: x.sum(1, keepdim=True)),
        (lambda x: OPS.sum(x, axis=[0, 1]), lambda x: x.sum()),
        (lambda x: OPS.permute(x, axes=[1, 0]), lambda x: x.T),
        (lambda x: OPS.tile(x, reps=[2]), lambda x: x.tile(2)),
        (lambda x: OPS.cast(x, dtype=torch.int32), lambda x: x.int()),
        (lambda x: OPS.layer_norm(x), lambda x: torch.nn.functional.layer_norm(x, (6,))),
        (lambda x: OPS.gelu(x[:, ::2]), lambda x: torch.nn.functional.gelu(x[:, ::2])),
    ],
)
def test_a_known_call_does_not_come_to_python(
    core: Any, place: str, through_python: list[str], call: Any, expected: Any
) -> None:
    x = torch.rand(4, 6, device=place)
    for _ in range(4):
        call(x)
    through_python.clear()
    torch.testing.assert_close(call(x), expected(x))
    assert not through_python
    assert served(core, lambda: call(x)) == 2
    other = torch.rand(4, 6, device=place)
    torch.testing.assert_close(call(other), expected(other))


def test_gradients_are_recorded_for_calls_that_are_known(core: Any, place: str) -> None:
    x = torch.rand(5, device=place)
    assert served(core, lambda: OPS.mul(x, x)) == 2
    graded = x.clone().requires_grad_()
    OPS.mul(graded, x).sum().backward()
    torch.testing.assert_close(graded.grad, x)
    with torch.no_grad():
        assert not OPS.mul(graded, x).requires_grad
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(lambda y: OPS.mul(y, x), (x,), (x,))


def test_transforms_and_modes_see_calls_that_are_known(core: Any, place: str) -> None:
    x = torch.rand(3, 5, device=place)
    assert served(core, lambda: OPS.mul(x, x)) == 2
    torch.testing.assert_close(torch.vmap(lambda y: OPS.mul(y, x))(x), torch.vmap(x.mul)(x))
    # x is a plain tensor at the inner level, and what comes out belongs to the outer one
    found = torch.func.grad(lambda y: torch.vmap(lambda z: OPS.mul(x, x) * z)(y).sum())(x)
    torch.testing.assert_close(found, (x * x)[None].expand(3, 3, 5).sum(1) * 0 + (x * x).sum(0))

    class Noting(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.came: list[Any] = []

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            self.came.append(function)
            return function(*args, **(kwargs or {}))

    with Noting() as noting:
        torch.testing.assert_close(OPS.mul(x, x), x * x)
    assert OPS.mul.default in noting.came
    if told := transforms(torch):  # each of torch's keys is asked for, not one alone
        key = torch._C.DispatchKey.FuncTorchDynamicLayerBackMode
        assert int(key) in told[1]
    functional = torch._to_functional_tensor(x)
    assert torch._is_functional_tensor(OPS.mul(functional, x))
    with torch._subclasses.FakeTensorMode() as fakes:
        fake = fakes.from_tensor(x)
        assert isinstance(OPS.mul(fake, fake), type(fake))
    traced = torch.fx.experimental.proxy_tensor.make_fx(lambda y: OPS.mul(y, y))(x)
    assert "xtarget.mul.default" in traced.code
    with torch.autocast(x.device.type, torch.bfloat16):
        assert OPS.mul(x, x).dtype == torch.float32
    with torch.inference_mode():
        assert OPS.mul(x, x).is_inference()


def test_who_looks_on_sees_calls_that_are_known(core: Any, place: str) -> None:
    x = torch.rand(7, device=place)
    assert served(core, lambda: OPS.add(x, x)) == 2
    with xtarget.profile() as seen:
        OPS.add(x, x)
    assert "add" in str(seen)


def test_wrong_calls_say_what_is_wrong_as_those_of_run(core: Any, place: str) -> None:
    x = torch.rand(4, 6, device=place)
    assert served(core, lambda: OPS.softmax(x)) == 2
    with pytest.raises(ArgumentError, match="axis 7 is out of range"):
        OPS.softmax(x, axis=7)
    with pytest.raises(ArgumentError, match="lazily negated"):
        xtarget.run("softmax", torch._neg_view(x))
    # below gradients torch makes a negative of it, and a kernel gets that
    torch.testing.assert_close(OPS.softmax(torch._neg_view(x)), (-x).softmax(-1))


class Keeps:
    """The function of an operator, which keeps the operator: a cycle."""

    operator: Any = None

    def __call__(self, *args: Any) -> Any:
        return args


def test_an_operator_in_a_cycle_is_collected(core: Any) -> None:
    keeps = Keeps()
    keeps.operator = core.Operator(core, "add", keeps, *transforms(torch), {}, frozenset())
    assert keeps.operator("keys", 1) == ("keys", 1)  # no tensor: Python's to answer
    gone = weakref.ref(keeps)
    del keeps
    gc.collect()
    assert gone() is None


def test_an_operator_is_made_of_what_it_needs(core: Any) -> None:
    with pytest.raises(TypeError):
        core.Operator(core, "add", print, *transforms(torch), [], frozenset())
    with pytest.raises(ValueError, match="too many"):
        core.Operator(core, "add", print, 0, tuple(range(99)), {}, frozenset())
    with pytest.raises(TypeError):
        core.Operator(core, name="add")
