"""`xtarget.torch.override`: torch's operators run as kernels, and programs do not see it."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

import xtarget
from xtarget._values.errors import ArgumentError, UnknownKernelError

pytest.importorskip("torch", reason="torch is not installed")

import torch

import xtarget.torch as xt

LONG = bool(os.environ.get("XTARGET_TEST_LONG"))
ADD, SOFTMAX = "aten.add.Tensor", "aten._softmax.default"


def test_calls_inside_are_the_kernels_and_outside_are_not(place: str) -> None:
    x = torch.randn(5, 7, device=place)
    right = torch.softmax(x + 1, -1), torch.softmax(x, 0)
    with xt.override("softmax", "add") as replaced:
        found = torch.softmax(x + 1, -1), x.softmax(0)
        x.exp()
    torch.testing.assert_close(found, right)
    torch.softmax(x, -1)
    assert replaced.served == {SOFTMAX: 2, ADD: 1}
    assert not replaced.passed


def test_the_innermost_of_two_serves_and_both_end(place: str) -> None:
    x = torch.randn(3, 4, device=place)
    with xt.override("add") as outer:
        x + x
        with xt.override("add", "mul") as inner:
            x + x * x
        x + x
    x + x
    assert outer.served == {ADD: 2}
    assert inner.served == {ADD: 1, "aten.mul.Tensor": 1}


def test_it_ends_when_an_exception_leaves_the_block(place: str) -> None:
    x = torch.randn(3, device=place)
    replaced = xt.override("add")

    def block() -> None:
        with replaced:
            x + x
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    x + x
    assert replaced.served == {ADD: 1}
    with replaced:  # and may be entered again
        x + x
    assert replaced.served == {ADD: 2}


def test_other_threads_keep_torch_s_operators(place: str) -> None:
    x = torch.randn(3, device=place)
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        inside.wait()
        x + x
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with xt.override("add") as replaced:
        inside.set()
        assert done.wait(60)
    thread.join()
    assert not replaced.served


def test_gradients_are_torch_s_and_run_on_kernels_too(place: str) -> None:
    def loss(x: Any) -> Any:
        return (torch.softmax(x, -1) * x.sin()).sum()

    x = torch.randn(4, 6, device=place, dtype=torch.float64, requires_grad=True)
    (right,) = torch.autograd.grad(loss(x), x)
    with xt.override() as replaced:
        (found,) = torch.autograd.grad(loss(x), x)
        assert torch.autograd.gradcheck(loss, (x,))
    torch.testing.assert_close(found, right)
    assert replaced.served["aten._softmax_backward_data.default"]
    assert torch.is_grad_enabled()


def test_dtypes_and_orders_in_memory_are_torch_s(place: str) -> None:
    whole = torch.arange(12, device=place).reshape(3, 4)
    halves = torch.randn(3, 4, device=place, dtype=torch.bfloat16)
    calls: list[Any] = [
        lambda: whole.sin(),
        lambda: whole / 2,
        lambda: whole + 1.5,
        lambda: whole.sum(dtype=torch.int16),
        lambda: halves + torch.tensor(1.5, device=place),
        lambda: halves.T.exp(),
        lambda: halves.T + halves.T,
        lambda: halves.T + halves[:1].T,
        lambda: whole.T * whole[:, :1].T,
        lambda: torch.tensor(3.0, device=place).max(0),
        lambda: torch.add(halves, halves, alpha=3),
        lambda: halves.T.relu().T.view(-1),  # a view that only the input's order allows
        lambda: torch.tensor(3.0, device=place).sum(0),
        lambda: halves.float().max(1),
        lambda: torch.nn.functional.mse_loss(halves, halves + 1, reduction="none"),
        lambda: torch.nn.functional.huber_loss(halves, halves.T.T + 3, delta=2, reduction="none"),
        lambda: torch.nn.functional.pad(whole, (1, 0, 0, 2), value=7),
    ]
    for number, call in enumerate(calls):
        right = call()
        with xt.override() as replaced:
            found = call()
        assert replaced.served, number
        for one, other in zip(
            *(x if isinstance(x, tuple) else (x,) for x in (found, right)), strict=True
        ):
            torch.testing.assert_close(one, other)
            assert one.stride() == other.stride(), number


def test_what_no_kernel_serves_stays_torch_s_and_is_counted(place: str) -> None:
    x = torch.randn(3, device=place)
    with xt.override("add", "div", "sum", "floor_divide") as replaced:
        complex_sum = x.to(torch.complex64) + 1
        x += 1
        torch.add(x, x, out=torch.empty_like(x))
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            torch.ones(3, dtype=torch.int64) // 0
        with pytest.raises(RuntimeError, match="size of tensor"):
            x + torch.ones(4, device=place)
    assert complex_sum.is_complex()
    assert not replaced.served
    reasons = " ".join(replaced.passed)
    assert "aten.add.Tensor: torch.complex64" in reasons
    assert "an integer divided by zero" in reasons


def test_tensors_that_are_not_plain(place: str) -> None:
    """Subclasses and fake tensors are torch's; operators that they become are replaced."""
    from torch._subclasses import FakeTensorMode
    from torch.testing._internal.two_tensor import TwoTensor

    x = torch.randn(3, device=place)
    with xt.override("add") as replaced:
        pair = TwoTensor(x, x) + 1
        assert type(pair) is TwoTensor
        with FakeTensorMode() as fakes:
            assert (fakes.from_tensor(x) + 1).shape == (3,)
        assert (x.to("meta") + 1).device.type == "meta"
        sparse = x.to_sparse()
        twice = sparse + sparse
    torch.testing.assert_close(pair.a, x + 1)
    torch.testing.assert_close(twice.to_dense(), x + x)
    assert replaced.served == {ADD: 2}  # of the pair
    torch.testing.assert_close(torch._neg_view(x) + 1, 1 - x)
    with xt.override("add"):
        torch.testing.assert_close(torch._neg_view(x) + 1, 1 - x)


def test_a_kernel_of_one_s_own(place: str) -> None:
    x = torch.ones(4, device=place)
    with xt.override(gelu="silu") as replaced:
        found = torch.nn.functional.gelu(x)
        torch.nn.functional.gelu(x, approximate="tanh")
    torch.testing.assert_close(found, torch.nn.functional.silu(x))
    assert replaced.served == {"aten.gelu.default": 1}
    (reason,) = replaced.passed
    assert "silu" in reason  # which has no such option
    assert "approximate" in reason


def test_names_that_are_wrong() -> None:
    with pytest.raises(UnknownKernelError, match="softmax"):
        xt.override("softmaxx")
    with pytest.raises(ArgumentError, match="torch has no operator that rope stands for"):
        xt.override("rope")
    assert "aten._softmax.default" in xt.replaceable()["softmax"]
    assert xtarget.catalog().keys() >= xt.replaceable().keys()


# ------------------------------------------------------------------------- torch's own samples

#: Kernels of the short tier, and how many samples of each dtype it takes.
SHORT, FEW = ("add", "softmax", "sum", "layer_norm"), 2
DTYPES = (torch.float32, torch.bfloat16, torch.int64)


def infos(kernel: str) -> list[Any]:
    """torch's descriptions of the operators that a kernel stands for."""
    pytest.importorskip("expecttest", reason="torch's own test helpers need expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    names = {kernel}
    for operator in xt.replaceable()[kernel]:
        names.add(operator.split(".")[1].strip("_"))
    return [info for info in op_db if info.name.rpartition(".")[2] in names]


#: torch rounds the quotient to 16 bits before it truncates it: 17.97 is 18.
DIFFERENT = [("div", "trunc_rounding", torch.bfloat16)]


class Samples:
    """Calls of torch's operators with and without kernels, compared."""

    def __init__(self) -> None:
        self.all = self.served = 0
        self.wrong: list[str] = []

    def take(self, info: Any, dtype: Any, most: int | None) -> None:
        if dtype not in info.supported_dtypes("cpu"):
            return
        for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=False)):
            if number == most:
                return
            torch.manual_seed(0)
            right = info(sample.input, *sample.args, **sample.kwargs)
            torch.manual_seed(0)
            self.all += 1
            with xt.override() as replaced:
                found = info(sample.input, *sample.args, **sample.kwargs)
            self.served += bool(replaced.served)
            tight = {} if dtype is torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
            if (info.name, info.variant_test_name, dtype) in DIFFERENT:
                continue
            try:
                torch.testing.assert_close(found, right, equal_nan=True, **(tight or LOOSE))
            except AssertionError as error:
                self.wrong.append(f"{info.name}, {dtype}, sample {number}: {error}")


LOOSE = {"rtol": 2e-2, "atol": 2e-2}


@pytest.mark.parametrize(
    "kernel",
    [pytest.param(k, marks=[] if k in SHORT else [pytest.mark.long]) for k in xt.replaceable()],
)
def test_torch_s_own_samples(kernel: str, place: str) -> None:
    if place != "cpu":
        pytest.skip("torch's samples are compared on the CPU")
    samples = Samples()
    for info in infos(kernel):
        for dtype in DTYPES:
            samples.take(info, dtype, None if LONG else FEW)
    assert not samples.wrong
    if samples.all:
        assert samples.served
