"""Plans that never look at an array's lengths: C calls them with those of the examples only."""

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
def by_table(x, table, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * tl.load(table + i % 4), i < n)
"""
CATALOG = """
from xtarget import ArgumentError
from xtarget.spec import Input, KernelSpec, Launch, Output, Plan, cdiv


def make(name, is_right):
    def plan(call):
        x, table = call.array(0), call.array(1)
        if not is_right(x, table):
            raise ArgumentError(f"{name}: the table has other lengths.")
        args = {"x": Input(0), "table": Input(1), "out": Output(), "n": x.size}
        launch = Launch("kernels:by_table", args, {"BLOCK": 256}, (cdiv(x.size, 256), 1, 1))
        return Plan((call.output(x.shape, x.dtype),), (launch,))

    return KernelSpec(name, ("x", "table"), plan)


KERNELS = (
    make("unlooked", lambda x, table: True),
    make("looked", lambda x, table: table.size >= 4),
)
"""


def test_an_array_whose_lengths_a_plan_does_not_look_at(library: Library, tmp_path: Path) -> None:
    examples = {name: [Example(((1000,), (4,)))] for name in ("unlooked", "looked")}
    report = built_of(tmp_path, KERNELS, CATALOG, examples)
    (note,) = report.notes
    assert "unlooked of float32" in note
    assert "never looks at the lengths of table" in note

    device, bundle = Device(library), library.open(tmp_path / "a.xtb")
    try:
        for name in examples:
            kernel = Kernel(device, bundle, name, "float32")
            for length in (1000, 77):
                x, table = np.arange(length, dtype="float32"), np.array([1, 2, 3, 4], "float32")
                right = x * table[np.arange(length) % 4]
                np.testing.assert_array_equal(kernel(x, table), right)
            with pytest.raises(Failed):
                kernel(x, table[:2])
            if name == "looked":
                np.testing.assert_array_equal(kernel(x, np.tile(table, 2)), right)
            kernel.release()
    finally:
        library.close(bundle)
        device.close()
