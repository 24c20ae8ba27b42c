"""The compiled core launches by HIP's own entry, here that of the emulator's HIP library."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from processes import run_python

pytest.importorskip("hip", reason="hip-python is not installed")
pytest.importorskip("tinygrad", reason="the emulator's tables are not installed")
pytest.importorskip("triton")

PROGRAM = """
import numpy as np, xtarget

values = np.arange(1, 301, dtype=np.float32)

def launches_by_python(name):
    device = xtarget.device(name)
    calls, call = [], device.hip.hipModuleLaunchKernel
    device.hip.hipModuleLaunchKernel = lambda *given: calls.append(given) or call(*given)
    a, out = (xtarget.asarray(x, device=name) for x in (values, values))
    for n in (300, 300, 299, 50, 51, 301 - 128, 300):
        xtarget.run("mul", a[:n], 2.5, out=out[:n])
        assert (out.numpy()[:n] == values[:n] * np.float32(2.5)).all(), n
    one, other = (xtarget.asarray(np.full(70, 2, np.float16), device=name) for _ in range(2))
    for factor in (7.0, 0.1, 1 + 2**-11 + 2**-40, 3e-8):
        xtarget.run("mul", one, factor, out=other)
        assert (other.numpy() == np.float16(2) * np.float16(factor)).all(), factor
    launch = xtarget.get("add").prepare(a, a, out=out)
    for _ in range(3):
        launch()
    device.synchronize()
    assert (out.numpy() == 2 * values).all()
    del device.hip.hipModuleLaunchKernel
    return len(calls)

print(launches_by_python("emu:gfx1100"), launches_by_python("emu:gfx942"))
"""


def test_values_reach_the_kernel_in_hips_buffer(core: Any) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler for the emulator's HIP library")
    done = run_python("-c", PROGRAM, XTARGET_EMULATOR_HIP="library")
    assert done.returncode == 0, done.stderr[-2000:]
    current, another = map(int, done.stdout.split())
    assert current == 2, "the first call of each class"
    assert another == 14, "HIP's current device is another one, so Python switches"
