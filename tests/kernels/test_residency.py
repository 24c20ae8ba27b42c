"""How many kernels stay loaded."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threads import in_threads

import xtarget
from xtarget._compile import functions, residency
from xtarget._launch import known, lookup
from xtarget._launch import run as _run


def test_kernels_beyond_the_limit_are_unloaded_and_loaded_again(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.ones(77, np.float32)
    monkeypatch.setenv("XTARGET_MODULES", "2")
    functions._functions.clear()
    _run.forget_calls()
    first = xtarget.run("exp", x, device=device)
    ((_, function),) = functions._functions.items()
    module = weakref.ref(function._module)
    del function
    for name in ("relu", "gelu", "softmax"):
        xtarget.run(name, x, device=device)
    assert len(functions._functions) == 2
    gc.collect()
    assert module() is None
    for _ in range(3):
        np.testing.assert_array_equal(xtarget.run("exp", x, device=device), first)
    assert len(functions._functions) == 2


def loaded() -> list[str]:
    return [request.source.name for _, request in functions._functions]


def test_kernels_beyond_a_size_are_unloaded(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(77, np.float32)
    monkeypatch.setenv("XTARGET_MODULES", "100,4M")
    monkeypatch.setattr(
        residency, "_size", lambda key: 3 << 20 if "exp" in key[1].source.name else 1
    )
    functions._functions.clear()
    _run.forget_calls()
    for name in ("relu", "exp", "gelu"):
        xtarget.run(name, x, device=device)
    assert len(loaded()) == 3
    xtarget.run("exp2", x, device=device)  # six; an eighth stays free
    assert loaded() == ["gelu", "exp2"]
    monkeypatch.setenv("XTARGET_MODULES", "100,7M")
    xtarget.run("exp", x, device=device)
    np.testing.assert_array_equal(xtarget.run("relu", x, device=device), x)
    assert loaded() == ["gelu", "exp2", "exp", "relu"]


def test_where_memory_ends_kernels_are_unloaded_and_it_is_tried_again(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.ones(77, np.float32)
    opened = xtarget.device(device)
    load, left = type(opened).load, [0]

    def short_of_memory(self: Any, *args: Any, **named: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise xtarget.OutOfMemoryError(f"loading on {device}: no memory.")
        return load(self, *args, **named)

    monkeypatch.setattr(type(opened), "load", short_of_memory)
    functions._functions.clear()
    _run.forget_calls()
    for name in ("exp", "gelu"):
        xtarget.run(name, x, device=device)
    left[0] = 1
    np.testing.assert_array_equal(xtarget.run("relu", x, device=device), x)
    assert loaded() == ["relu"]
    np.testing.assert_allclose(xtarget.run("exp", x, device=device), np.e, rtol=1e-6)
    left[0] = 2
    words = r"no memory\. Of \d+ bytes on .*, arrays .* have \d+, 0 loaded kernels 0; the other"
    with pytest.raises(xtarget.OutOfMemoryError, match=words):
        xtarget.run("gelu", x, device=device)
    xtarget.run("gelu", x, device=device)

    def allocate() -> Any:
        if loaded():
            raise xtarget.OutOfMemoryError("no memory for an array.")
        return opened.alloc(64)

    opened._counted(allocate).close()
    assert not loaded()


def test_kernels_are_right_whatever_is_unloaded_meanwhile(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where threads need them at the same time."""
    monkeypatch.setenv("XTARGET_MODULES", "2")
    names = {"relu": 3, "maximum": 3, "add": 6, "mul": 9, "sub": 0}
    two = {"maximum", "add", "mul", "sub"}

    def work(number: int) -> None:
        x = np.full(100 + number, 3, np.float32)
        for turn in range(6):
            for name, expected in names.items():
                args = (x[turn:], x[turn:]) if name in two else (x[turn:],)
                if not (xtarget.run(name, *args, device=device) == expected).all():
                    wrong.append(name)

    wrong: list[str] = []
    work(0)
    in_threads(work, range(4))
    assert not wrong
    assert len(functions._functions) <= 2


def test_calls_are_remembered_whatever_is_imported_and_registered_meanwhile(
    device: str, tmp_path: Path
) -> None:
    """Binding a call anew takes milliseconds, so only calls that can be served otherwise go."""
    pytest.importorskip("triton")
    kernel = """
import triton
import triton.language as tl
@triton.jit
def scale(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * {factor})
"""
    catalog = """
from xtarget.spec import *
def kernel(file):
    def plan(call):
        out = call.output(call.array(0).shape, call.array(0).dtype)
        args = {"x": Input(0), "out": Output(0)}
        launch = Launch(file + ":scale", args, {"BLOCK": 16}, (1, 1, 1))
        return Plan((out,), (launch,))
    return KernelSpec("residency." + file, ("x",), plan, complete=True)
KERNELS = [kernel("one"), kernel("two")]
"""
    (tmp_path / "catalog.py").write_text(catalog)
    for number, name in enumerate(("one", "two")):
        (tmp_path / f"{name}.py").write_text(kernel.format(factor=number + 2))
    x = np.ones(16, np.float32)

    def remembered() -> dict[str, object]:
        return {str(key[0]): call for key, call in _run._calls.items()}  # type: ignore[index]

    _run.forget_calls()
    for _ in range(2):  # what came once is not kept
        xtarget.run("exp", x, device=device)
    before = remembered()["exp"]
    xtarget.load_library(tmp_path)
    for name, factor in (("residency.one", 2), ("residency.two", 3), ("residency.one", 2)):
        np.testing.assert_array_equal(xtarget.run(name, x, device=device), x * factor)
        assert remembered()["exp"] is before
    xtarget.load_library(tmp_path)
    assert "residency.one" not in remembered()
    assert remembered()["exp"] is before


def test_the_oldest_calls_are_forgotten_first(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "_MOST_CALLS", 4)
    _run.forget_calls()
    x = np.ones(4, np.float32)
    for kernel in ("relu", "exp", "abs", "neg", "sqrt"):
        for _ in range(2):  # what came once is not kept
            xtarget.run(kernel, x, device=device)
    last = list(_run._calls.values())
    assert len(last) == 3  # half of four, and the new one
    xtarget.run("abs", x, device=device)
    assert list(_run._calls.values()) == last


def test_kernels_that_stay_for_a_graph_leave_half_of_the_places(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Staying:
        stays = True

        def __init__(self, function: Any) -> None:
            self.artifact, self.name = function.artifact, function.name
            self.prepare, self.launch = function.prepare, function.launch

    monkeypatch.setenv("XTARGET_MODULES", "5")
    x = np.ones(77, np.float32)
    _run.forget_calls()
    functions._functions.clear()
    xtarget.run("exp", x, device=device)
    ((_, request), function) = next(iter(functions._functions.items()))
    for number in range(2):
        key = device, replace(request, num_stages=10 + number)
        functions._functions[key] = Staying(function)
    order = ("relu", "gelu", "softmax", "sum", "max")

    def loose() -> list[str]:
        kept = [r for (_, r), f in functions._functions.items() if not isinstance(f, Staying)]
        assert len(functions._functions) - len(kept) == staying
        return [wanted.source.name for wanted in kept]

    staying = 2
    for name in order[:3]:
        xtarget.run(name, x, device=device)
    assert loose() == ["relu", "gelu", "softmax"]  # five in all
    for number in range(2, 7):
        key = device, replace(request, num_stages=10 + number)
        functions._functions[key] = Staying(function)
    staying = 7
    for name in order[3:]:
        xtarget.run(name, x, device=device)
    assert loose() == ["softmax", "sum", "max"]  # half of five
    functions._functions.clear()


def test_what_somebody_holds_runs_when_its_kernel_is_forgotten(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remembered call, and a bound one alone. Their streams could be captured, and are not."""
    monkeypatch.setenv("XTARGET_MODULES", "1")
    opened = xtarget.device(device)
    stream, run = opened.stream(), partial(xtarget.run, device=device)
    _run.forget_calls()
    functions._functions.clear()
    x = xtarget.asarray(np.full(64, -2, np.float32), device=device)
    out = xtarget.asarray(np.ones(64, np.float32), device=device)
    run("relu", x, out=out)

    def forget() -> None:
        for name in ("exp", "gelu"):
            run(name, x, out=out)
        assert [request.source.name for _, request in functions._functions] == ["gelu"]
        gc.collect()
        opened.synchronize()
        assert (out.numpy() != 0).all()

    forget()
    run("relu", x, out=out, stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(out.numpy(), 0)
    call = lookup.find("relu", (x,), out, device, {}).call
    module = weakref.ref(next(iter(functions._functions.values()))._module)
    assert call in _run._calls.values()
    _run.forget_calls()
    forget()
    call.run([x], [x.address, out.address], out, stream)
    stream.synchronize()
    np.testing.assert_array_equal(out.numpy(), 0)
    assert module() is not None
    del call
    gc.collect()
    assert module() is None


def test_unloading_gives_memory_back_on_emulated_gpus(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = getattr(getattr(xtarget.device(device), "hip", None), "_images", None)
    if loaded is None:
        pytest.skip(f"{device} does not tell what is loaded")
    monkeypatch.setenv("XTARGET_MODULES", "2")
    x = np.ones(77, np.float32)
    _run.forget_calls()
    functions._functions.clear()
    gc.collect()
    before = len(loaded)
    for name in ("relu", "gelu", "softmax", "sum", "max"):
        xtarget.run(name, x, device=device)
        _run.forget_calls()
    gc.collect()
    assert len(loaded) <= before + 2
