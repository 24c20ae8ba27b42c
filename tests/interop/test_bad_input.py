"""Mistakes of a user of SPIR-V devices, through the public face: each is an error that says it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl

import xtarget
from xtarget._devices import registry
from xtarget._launch import run as launching
from xtarget.spec import cdiv


@triton.jit
def bad_input_twice(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) * 2, mask=m)


@triton.jit
def bad_input_cubed(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    value = tl.load(x + i, mask=m).to(tl.float64)
    tl.store(out + i, (value * value * value).to(tl.float32), mask=m)


def _register(function: Any, name: str, **settings: Any) -> str:
    name = f"test.bad_input.{name}"
    xtarget.kernel(
        inputs=("x",),
        outputs={"out": "x"},
        sizes={"n": lambda c: c.x.size},
        constants={"BLOCK": 256},
        grid=lambda c: (cdiv(c.n, c.BLOCK),),
        name=name,
        **settings,
    )(function)
    return name


@pytest.fixture
def cpu() -> str:
    report = registry.probe("cpu")
    if not report.devices:
        pytest.skip(str(report.reason))
    return report.devices[0].name


X = np.ones(100, np.float32)


def test_a_block_larger_than_the_devices(cpu: str) -> None:
    name = _register(bad_input_twice, "block", num_warps=1024)
    limit = xtarget.device(cpu).info.max_threads_per_block
    with pytest.raises(
        xtarget.OutOfResourcesError,
        match=rf"needs 16384 threads a block .* takes {limit} .* smaller num_warps",
    ):
        xtarget.run(name, X, device=cpu)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"options": {"warp_size": 7}}, r"warp_size is 7; .* one of 8, 16, 32"),
        ({"options": {"pointers": "fat"}}, r"pointers is 'fat'; .*'real', 'integer'"),
    ],
)
def test_an_option_out_of_range(cpu: str, settings: dict[str, Any], says: str) -> None:
    name = _register(bad_input_twice, str(sorted(settings.items())), **settings)
    with pytest.raises(xtarget.CompileError, match=rf"bad_input_twice.*{says}"):
        xtarget.run(name, X, device=cpu)


def test_the_wrong_number_and_kinds_of_arguments(cpu: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match="add"):
        xtarget.run("add", X, device=cpu)
    with pytest.raises(xtarget.ArgumentError, match="add"):
        xtarget.run("add", X, X, X, device=cpu)
    with pytest.raises(xtarget.ArgumentError, match=r"str is not an array"):
        xtarget.run("add", X, "two", device=cpu)


def test_float64_on_a_device_without_it(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the arrays, and inside of a kernel whose arrays are float32."""
    device = xtarget.device(cpu)
    launching.forget_calls()  # as if it had been such a device from the start
    monkeypatch.setattr(device, "info", replace(device.info, fp64=False))
    with pytest.raises(xtarget.ArgumentError, match=r"float64.*float32"):
        xtarget.run("mul", np.ones(77), np.ones(77), device=cpu)
    name = _register(bad_input_cubed, "cubed")
    with pytest.raises(xtarget.LoadError, match=r"bad_input_cubed .*computes in float64.*float32"):
        xtarget.run(name, X, device=cpu)


def test_a_compiler_that_takes_too_long_is_said(
    cpu: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """And the same call works when there is time."""
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    name = _register(bad_input_twice, "late", num_warps=2)
    monkeypatch.setenv("XTARGET_JIT_SECONDS", "0.001")
    with pytest.raises(
        xtarget.LoadError, match=r"did not finish within 0.001 s.*XTARGET_JIT_SECONDS"
    ):
        xtarget.run(name, X, device=cpu)
    monkeypatch.delenv("XTARGET_JIT_SECONDS")
    assert (xtarget.run(name, X, device=cpu) == 2).all()


def test_a_variable_of_the_environment_is_not_called_the_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XTARGET_CACHE", "/some/folder")
    with pytest.raises(xtarget.ArgumentError, match=r"^XTARGET_CACHE=/some/folder means nothing"):
        xtarget.compile("add", np.ones((2, 3)), np.ones((2, 3)), target="nvidia:sm_90")
