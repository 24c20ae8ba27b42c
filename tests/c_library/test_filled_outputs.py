"""Outputs that begin as something, of kernels whose `out` may be an argument else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_bundles import built_of

from libxtarget import Device, Failed, Kernel, Library, needs_compiler_and_opencl
from xtarget.spec import Example

pytestmark = needs_compiler_and_opencl

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def evens(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n), (i < n) & (i % 2 == 0))
"""
CATALOG = """
from xtarget.spec import Input, KernelSpec, Launch, Output, Plan, cdiv


def make(name, *init):
    def plan(call):
        x = call.array(0)
        args = {"x": Input(0), "out": Output(), "n": x.size}
        launch = Launch("kernels:evens", args, {"BLOCK": 256}, (cdiv(x.size, 256), 1, 1))
        return Plan((call.output(x.shape, x.dtype),), (launch,), init=init)

    return KernelSpec(name, ("x",), plan, elementwise=True)


KERNELS = (make("evens_of_3", 3), make("evens_alone"))
"""


def test_what_is_filled_first_is_no_argument(library: Library, tmp_path: Path) -> None:
    examples = {name: [Example(((1000,),))] for name in ("evens_of_3", "evens_alone")}
    built_of(tmp_path, KERNELS, CATALOG, examples)
    device, bundle = Device(library), library.open(tmp_path / "a.xtb")
    x = np.arange(1000, dtype="float32")
    try:
        filled = Kernel(device, bundle, "evens_of_3", "float32")
        np.testing.assert_array_equal(filled(x), np.where(x % 2 == 0, x, 3))
        with pytest.raises(Failed, match=r"Give an output of its own\."):
            filled.launch([x], [x])
        filled.release()
        alone = Kernel(device, bundle, "evens_alone", "float32")
        alone.launch([x], [x])
        alone.release()
        device.synchronize()
        np.testing.assert_array_equal(x, np.arange(1000))
    finally:
        library.close(bundle)
        device.close()
