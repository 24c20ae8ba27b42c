"""Plain `@triton.jit` code on dpnp's arrays, in a process whose only SYCL device is the CPU."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from processes import run_python

pytest.importorskip("triton", reason="Triton is not installed here")
if (
    importlib.util.find_spec("dpnp") is None
):  # importing it here would choose this process's devices
    pytest.skip("dpnp is not installed here", allow_module_level=True)

HERE = Path(__file__).parent
PATHS = [HERE.parent / "triton_door", HERE.parents[1] / "src", HERE]
#: The device is opened before dpnp loads SYCL: that is when the run time for CPUs is made known.
START = """
import xtarget
device = xtarget.device("intel:0")
import dpnp, numpy as np
import triton_backend_kernels as kernels
queue = device.default_stream.handle

def array(values, dtype=np.float32):
    return dpnp.asarray(np.asarray(values, dtype), sycl_queue=queue)
"""


def run(code: str, folder: Path) -> None:
    done = run_python(
        "-c",
        START + code,
        path=os.pathsep.join(map(str, PATHS)),
        TRITON_DEFAULT_BACKEND="spirv",
        TRITON_CACHE_DIR=str(folder / "triton"),
        XTARGET_CACHE_DIR=str(folder / "xtarget"),
        XTARGET_INTEL_DEVICES="opencl:cpu",
    )
    if "NoDeviceError" in done.stderr:
        pytest.skip(f"no SYCL device here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


def test_arrays_are_used_in_place_and_in_the_order_of_their_queue(tmp_path: Path) -> None:
    code = """
x, y = array(range(300)), array(np.ones(300))
out = dpnp.zeros_like(x)
for _ in range(20):
    x = x + 1  # dpnp's own work on the queue, before and after the launch
    kernels.add[(3,)](x, y, out, 300, BLOCK=128)
    out = out - 1
np.testing.assert_array_equal(dpnp.asnumpy(out), np.arange(300) + 20)
"""
    run(code, tmp_path)


def test_autotuning_resets_and_restores(tmp_path: Path) -> None:
    code = """
x, total = array(range(100), np.int32), array([0], np.int32)
kernels.tuned_count[lambda given: (-(-100 // given["BLOCK"]),)](x, total, 100)
assert len(kernels.tuned_count.configs_timings) == 2
np.testing.assert_array_equal(dpnp.asnumpy(x), np.arange(1, 101))
assert int(total[0]) == 5050
"""
    run(code, tmp_path)


def test_arrays_of_dpnp_and_numpy_in_one_launch_are_refused(tmp_path: Path) -> None:
    code = """
x, host = array(range(16)), np.zeros(16, np.float32)
try:
    kernels.add[(1,)](x, x, host, 16, BLOCK=16)
except xtarget.ArgumentError as error:
    assert "arrays on intel:0 and the host" in str(error), error
else:
    raise AssertionError("it was launched")
"""
    run(code, tmp_path)
