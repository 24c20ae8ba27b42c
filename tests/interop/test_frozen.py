"""`XTARGET_COMPILE=error`: nothing is compiled, by nobody, on no path."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import loaded_kernels
import numpy as np
import pytest

import xtarget
from xtarget import FrozenError
from xtarget._cache import default_cache

pytest.importorskip("triton", reason="Triton is not installed here")
pytest.importorskip("pyopencl", reason="pyopencl is not installed here")

import triton
import triton.language as tl

from xtarget.targets.cpu import module as cpu

pytestmark = pytest.mark.usefixtures("triton_on_cpu", "ran_on_cpu")


@triton.jit
def thrice(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 3, mask=i < n)


@triton.autotune(configs=[triton.Config({"BLOCK": n}) for n in (32, 64)], key=["n"])
@triton.jit
def tuned(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 5, mask=i < n)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    loaded_kernels.forget_all()


def forget(kernel: str, *, machine_code_only: bool) -> None:
    """Make a process of this one that has the cache alone, or only a part of it."""
    loaded_kernels.forget_all()
    cpu._machine_code.cache_clear()
    for changed in xtarget._kernels.libraries.on_change:
        changed(kernel)
    base = default_cache().root / "v1"
    removed = [
        path
        for path in base.rglob(f"{kernel}-*")
        if path.is_file() and (not machine_code_only or "-native-" in path.name)
    ]
    assert removed
    for path in removed:
        path.unlink()


def test_run_does_not_let_a_run_time_compile(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    x = np.arange(64, dtype=np.float32)
    xtarget.run("mul", x, 2.0, device="cpu:0")
    forget("mul", machine_code_only=True)
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    with pytest.raises(FrozenError, match="kernel mul is there as SPIR-V, and its machine"):
        xtarget.run("mul", x, 2.0, device="cpu:0")
    monkeypatch.setenv("XTARGET_COMPILE", "warn")
    with caplog.at_level(logging.WARNING):
        xtarget.run("mul", x, 2.0, device="cpu:0")
    assert "machine code" in caplog.text
    loaded_kernels.forget_all()
    monkeypatch.setenv("XTARGET_COMPILE", "error")  # now it is there
    np.testing.assert_array_equal(xtarget.run("mul", x, 2.0, device="cpu:0"), x * 2)


def test_nothing_serves_that_an_earlier_test_has_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(64, dtype=np.float32)
    monkeypatch.setenv("XTARGET_MODULES", "1")
    for name in ("mul", "add", "sub"):
        xtarget.run(name, x, 2.0, device="cpu:0")
    shutil.rmtree(default_cache().root)
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    xtarget.run("mul", x, 2.0, device="cpu:0")  # from memory
    loaded_kernels.forget_all()
    with pytest.raises(FrozenError, match="kernel mul for cpu:spirv64 is not in the cache"):
        xtarget.run("mul", x, 2.0, device="cpu:0")


def test_tritons_own_launching_is_frozen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    x, o = np.ones(100, np.float32), np.zeros(100, np.float32)
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    with pytest.raises(FrozenError, match="kernel thrice for spirv is not in Triton's cache"):
        thrice[(2,)](x, o, 100, BLOCK=64)
    monkeypatch.setenv("XTARGET_COMPILE", "allow")
    thrice[(2,)](x, o, 100, BLOCK=64)
    assert (o == 3).all()
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    o[:] = 0
    thrice[(2,)](x, o, 100, BLOCK=64)
    assert (o == 3).all()
    # a new process has the binary from Triton's cache; its machine code is gone
    thrice.device_caches.clear()
    forget("thrice", machine_code_only=True)
    with pytest.raises(FrozenError, match="kernel thrice is there as SPIR-V"):
        thrice[(2,)](x, o, 100, BLOCK=64)


def test_the_autotuner_takes_no_other_configuration_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, o = np.ones(100, np.float32), np.zeros(100, np.float32)
    tuned.fn[(4,)](x, o, 100, BLOCK=32)  # one of the two is there
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    with pytest.raises(FrozenError, match="kernel tuned"):
        tuned[lambda given: (triton.cdiv(100, given["BLOCK"]),)](x, o, 100)
    monkeypatch.setenv("XTARGET_COMPILE", "allow")
    o[:] = 0
    tuned[lambda given: (triton.cdiv(100, given["BLOCK"]),)](x, o, 100)
    assert (o == 5).all()


def test_the_command_line_is_frozen(tmp_path: Path) -> None:
    environment = {**os.environ, "XTARGET_COMPILE": "error"}
    bundle = ["bundle", "build", "-o", str(tmp_path / "b.xtb"), "--target", "nvidia:sm_90"]
    for command in (
        ["run", "relu", "--shape", "10", "--device", "cpu"],
        ["compile", "relu", "--target", "nvidia:sm_90", "-o", str(tmp_path / "relu")],
        ["show", "relu", "--target", "nvidia:sm_90", "--stage", "asm"],
        [*bundle, "--kernel", "relu", "--dtype", "float32"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "xtarget", *command],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert done.returncode == 1, (command, done.stdout, done.stderr)
        assert "XTARGET_COMPILE=error forbids" in done.stderr, (command, done.stderr)
        assert "Traceback" not in done.stderr


def test_ptx_is_compiled_by_the_driver_and_so_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.core", reason="cuda.core is not installed here")
    from xtarget.targets.nvidia import device

    monkeypatch.setenv("XTARGET_COMPILE", "error")
    leaving = SimpleNamespace(collect=lambda: None)
    info = SimpleNamespace(name="nvidia:0")
    opened: Any = SimpleNamespace(
        live=lambda: None, info=info, leaving=leaving, _entries=lambda artifact: ("add",)
    )
    made: Any = SimpleNamespace(format="ptx", entry="add", binary=b"")
    with pytest.raises(FrozenError, match=r"kernel add is there as PTX, .* for nvidia:0"):
        device.CudaDevice.load(opened, made)
