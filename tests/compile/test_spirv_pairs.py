"""Products of pairs of bfloat16: one instruction of a CPU that has it, and the same elsewhere."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget._system.processor import flags
from xtarget.targets._binaries.spirv import read_entry_points
from xtarget.targets._spirv.library.pairs import VECTOR

#: A product of random numbers in bfloat16, whose k is odd, against float64.
PROGRAM = """
import numpy as np, xtarget, ml_dtypes
rng = np.random.default_rng(0)
a, b = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((40, 131), (131, 50)))
want = a.astype(np.float64) @ b.astype(np.float64)
got = xtarget.run("matmul", a, b, device="cpu:0").astype(np.float64)
print(float(np.abs(got - want).max()) < 0.15)
"""


def product() -> bytes:
    """SPIR-V of a product by panels."""
    dtypes = pytest.importorskip("ml_dtypes")
    arrays = [np.zeros((64, 64), dtypes.bfloat16)] * 2
    return xtarget.compile("matmul", *arrays, target="cpu:spirv64")[-1].binary


def test_calls_become_the_instruction_and_the_function_goes() -> None:
    from xtarget.targets.cpu.pairs import with_instruction

    before = product()
    assert VECTOR.encode() in before
    after = with_instruction(before)
    assert VECTOR.encode() not in after
    assert b"vdpbf16ps" in after
    assert b"SPV_INTEL_inline_assembly" in after
    assert read_entry_points(after) == read_entry_points(before)


def test_a_module_without_calls_stays_as_it_is() -> None:
    from xtarget.targets.cpu.pairs import with_instruction

    (other,) = xtarget.compile("add", *[np.zeros(64, np.float32)] * 2, target="cpu:spirv64")
    assert with_instruction(other.binary) is other.binary


@pytest.mark.parametrize(
    ("vendor", "arch", "has"),
    [("Intel(R) Corporation", "core-avx2", False), ("The pocl project", "auto", False)],
)
def test_other_run_times_and_other_code_take_the_function(
    monkeypatch: pytest.MonkeyPatch, vendor: str, arch: str, has: bool
) -> None:
    from xtarget.targets.cpu.pairs import has_instruction

    monkeypatch.setenv("CL_CONFIG_CPU_TARGET_ARCH", arch)
    assert has_instruction(vendor) is has


@pytest.mark.usefixtures("a_cpu")
def test_assembly_that_the_run_time_does_not_know_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Intel's run time builds a kernel that does nothing then, and says so in its log."""
    import pyopencl as cl

    from xtarget.targets.cpu import pairs, program
    from xtarget.targets.cpu.discover import discover

    device: Any = discover().devices[0][0]
    if "intel" not in device.platform.vendor.lower():
        pytest.skip("not Intel's run time")
    if "avx512f" not in flags():
        pytest.skip("the assembly's operands are registers that this processor does not have")
    monkeypatch.setattr(program, "has_instruction", lambda vendor: True)
    monkeypatch.setattr(pairs, "_INSTRUCTION", "no_such_instruction $3, $2, $0")
    with pytest.raises(xtarget.LoadError, match="inline asm"):
        program.build_native(cl.Context([device]), device, product(), "", "building it failed")


@pytest.mark.usefixtures("a_cpu")
@pytest.mark.parametrize("arch", ["auto", pytest.param("skx", marks=pytest.mark.long)])
def test_products_with_and_without_the_instruction(
    monkeypatch: pytest.MonkeyPatch, arch: str
) -> None:
    pytest.importorskip("ml_dtypes")
    if arch == "skx" and "avx512f" not in flags():
        pytest.skip("this processor cannot run code for that one")
    monkeypatch.setenv("CL_CONFIG_CPU_TARGET_ARCH", arch)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip() == "True", done.stderr
