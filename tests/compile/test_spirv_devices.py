"""A kernel is compiled for what the device has that it is to run on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from xtarget._compile import functions
from xtarget._values.errors import CompileError
from xtarget._values.types import LaunchConfig

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import test_spirv_refusals as refusals
from spirv_kernels import CASES
from spirv_requests import request
from spirv_run import device


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The CPU as a device that has no 64-bit floats."""
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    real = device()
    info = replace(
        real.info, name="small:0", fp64=False, compile_options={"fp64": False, "fp16": False}
    )
    return SimpleNamespace(
        info=info, native_key=None, load=real.load, real=real, default_stream=real.default_stream
    )


def test_what_it_has_not_is_refused_with_the_line(small: Any) -> None:
    wide = request(refusals.case(refusals.with_doubles))
    with pytest.raises(CompileError, match=r"64-bit floats \(.* in test_spirv_refusals\.py:\d+: "):
        functions.function(small, wide)
    functions.function(small.real, wide)


def test_the_request_goes_first(small: Any) -> None:
    halves = refusals.case(refusals.with_halves)
    with pytest.raises(CompileError, match="16-bit floats"):
        functions.function(small, request(halves))
    functions.function(small, request(halves, fp16=True))


def test_a_kernel_that_needs_little_runs(small: Any) -> None:
    case = CASES["add_fp32"]
    assert case.expect is not None
    given = case.given()
    function = functions.function(small, request(case))
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in given]
    stream = small.real.default_stream
    function.launch(LaunchConfig(case.grid), [*values, 0, 0], stream)
    stream.synchronize()
    for index, expected in case.expect(*given):
        assert np.array_equal(given[index], expected)


def test_tritons_own_launching_knows_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from xtarget._triton_backend import driver
    from xtarget._values.errors import NoDeviceError
    from xtarget.targets._spirv.frontend.backend import SpirvBackend

    def nobody() -> Any:
        raise NoDeviceError("there is none")

    def small_home() -> Any:
        return SimpleNamespace(info=SimpleNamespace(compile_options={"fp64": False}))

    target_of = driver.SpirvDriver.get_current_target
    monkeypatch.setattr(driver, "home", small_home)
    backend = SpirvBackend(target_of(None))  # type: ignore[arg-type]
    assert not backend.parse_options({}).fp64
    assert backend.parse_options({"fp64": True}).fp64
    assert backend.parse_options({}).hash() != backend.parse_options({"fp64": True}).hash()
    monkeypatch.setattr(driver, "home", nobody)
    assert SpirvBackend(target_of(None)).parse_options({}).fp64  # type: ignore[arg-type]
