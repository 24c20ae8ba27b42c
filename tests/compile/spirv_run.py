"""Compile and run a kernel on the CPU device: what the tests of the SPIR-V compiler share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from spirv_kernels import Case
from spirv_requests import request

from xtarget._types import Artifact, LaunchConfig, Target
from xtarget.targets import cpu

CPU = Target("cpu", "spirv64")


def compiled(case: Case, **options: Any) -> Artifact:
    return cpu.create_compiler().compile(request(case, **options), CPU)


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


def run(case: Case, **options: Any) -> list[Any]:
    """Compile and run; the arguments after the launch."""
    artifact = compiled(case, **options)
    assert case.arguments is not None
    arguments = case.arguments()
    launch(artifact, arguments, case.grid)
    return arguments
