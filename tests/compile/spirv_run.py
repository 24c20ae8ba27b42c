"""Compile and run a kernel on the CPU device: what the tests of the SPIR-V compiler share."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from loading import load_file
from spirv_cases import Case
from spirv_requests import request

from xtarget._values.types import Artifact, LaunchConfig, Target
from xtarget.targets import cpu

CPU = Target("cpu", "spirv64")


@cache
def device_options() -> dict[str, Any]:
    """Options for the CPU's run time; none without one."""
    report = cpu.create_driver().probe()
    return dict(report.devices[0].compile_options) if report.devices else {}


def compiled(case: Case, **options: Any) -> Artifact:
    return cpu.create_compiler().compile(request(case, **device_options() | options), CPU)


@cache
def device() -> Any:
    report = cpu.create_driver().probe()
    if not report.devices:
        pytest.skip(f"no CPU device to run on: {report.reason}")
    return cpu.create_driver().open(0)


def launch(artifact: Artifact, arguments: list[Any], grid: tuple[int, int, int]) -> None:
    """Run in place on NumPy arrays, whose memory the CPU device shares."""
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    hidden = [0 for p in artifact.parameters if p.hidden]
    opened = device()
    module = opened.load(artifact)
    module.function().launch(LaunchConfig(grid), [*values, *hidden], opened.default_stream)
    opened.default_stream.synchronize()
    module.close()


def assert_close(got: Any, expected: Any, tolerance: float, what: str) -> None:
    """Equal, both NaN, or within the tolerance (relative; absolute below 1)."""
    a = np.asarray(got).astype(np.longdouble).reshape(-1)
    b = np.asarray(expected).astype(np.longdouble).reshape(-1)
    assert a.shape == b.shape, what
    with np.errstate(invalid="ignore"):
        error = np.abs(a - b) / np.maximum(np.abs(b), 1)
    fine = (a == b) | (np.isnan(a) & np.isnan(b)) | (error <= tolerance)
    wrong = np.flatnonzero(~fine)
    assert not wrong.size, f"{what}: {wrong.size} of {a.size} wrong, first at {wrong[:5]}: " + (
        f"{a[wrong[:5]]} instead of {b[wrong[:5]]}"
    )


def check(case: Case, artifact: Artifact, what: str) -> None:
    assert case.expect is not None
    arguments = case.given()
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    launch(artifact, arguments, case.grid)
    for index, expected in case.expect(*before):
        assert_close(arguments[index], expected, case.tolerance, f"{what}, argument {index}")


def run(case: Case, **options: Any) -> list[Any]:
    """Compile and run; the arguments after the launch."""
    artifact = compiled(case, **options)
    arguments = case.given()
    launch(artifact, arguments, case.grid)
    return arguments


def written(file: Path, parameters: str, *lines: str) -> Any:
    """The Triton function `kernel` of these lines, which Triton reads from a file."""
    head = ("import triton", "import triton.language as tl", "", "", "@triton.jit")
    body = [f"    {line}" for line in lines]
    return imported(file, "\n".join([*head, f"def kernel({parameters}):", *body, ""])).kernel


def imported(file: Path, text: str) -> ModuleType:
    """A module of this text: Triton reads a kernel's text from its file."""
    file.write_text(text + "\n", encoding="utf-8")
    return load_file(file)
