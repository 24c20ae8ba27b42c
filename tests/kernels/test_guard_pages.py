"""No kernel touches a byte outside of its arrays: on the CPU, where a forbidden page can prove it.

`guarded.py` does the work in a process of its own, which a fault ends.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from processes import run_python

pytest.importorskip("pyopencl", reason="pyopencl is not installed, and it runs the CPU")

from guarded import cases

import xtarget

SCRIPT = Path(__file__).with_name("guarded.py")
#: One of each family, and of each size of element.
SHORT = (
    "add:float32",
    "mul:int8",
    "where:float16",
    "gelu:float32",
    "sum:float32",
    "max:int8",
    "softmax:float16",
    "layer_norm:float32",
    "matmul:float32",
    "take:int8",
    "gather_nd:float32",
    "scatter_add:float32",
)
#: A kernel with a fault of one element, in a process like that of the real ones.
FAULTY = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
import triton, triton.language as tl
import guarded, xtarget

@xtarget.kernel(inputs=("x",), outputs={{"out": "x"}}, grid=lambda c: (1,),
                sizes={{"n": lambda c: c.x.size}}, constants={{"BLOCK": 64}}, name="test.faulty")
@triton.jit
def guard_pages_faulty(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i + {shift_out}, tl.load(x + i + {shift_in}, mask=i < n), mask=i < n)

x = guarded.guarded(np.ones(50, np.float32), {at_end})
print("before", flush=True)
out = guarded.guarded(np.zeros(50, np.float32), {at_end})
xtarget.run("test.faulty", x, out=out, device="cpu:0")
print("after", flush=True)
"""


@pytest.fixture(autouse=True)
def _a_cpu_that_uses_host_memory() -> None:
    (report,) = (report for report in xtarget.probe() if report.vendor == "cpu")
    if not report.devices:
        pytest.skip(str(report.reason))
    if not report.devices[0].host_memory:
        pytest.skip("the OpenCL run time does not use the host's memory in place")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return run_python(*command, seconds=3000)


def _check(wanted: list[str]) -> None:
    done = _run(str(SCRIPT), *wanted)
    lines = done.stdout.splitlines()
    last = lines[-1] if lines else "nothing"
    assert done.returncode == 0, f"status {done.returncode} at: {last}\n{done.stderr[-2000:]}"
    assert last == f"all {len(wanted)} cases"


def test_one_kernel_of_each_family_stays_in_its_arrays() -> None:
    _check(list(SHORT))


@pytest.mark.long
def test_every_kernel_and_dtype_stays_in_its_arrays() -> None:
    _check(cases())


@pytest.mark.parametrize(
    ("shift_in", "shift_out", "at_end", "dies"),
    [
        (0, 0, True, False),
        (0, 0, False, False),
        (1, 0, True, True),
        (0, 1, True, True),
        (-1, 0, False, True),
        (0, -1, False, True),
    ],
    ids=["none", "none, start", "read after", "write after", "read before", "write before"],
)
def test_a_fault_of_one_element_is_noticed(
    tmp_path: Path, shift_in: int, shift_out: int, at_end: bool, dies: bool
) -> None:
    script = tmp_path / "faulty.py"  # Triton reads a kernel's source from its file
    code = FAULTY.format(
        folder=str(SCRIPT.parent), shift_in=shift_in, shift_out=shift_out, at_end=at_end
    )
    script.write_text(code)
    done = _run(str(script))
    assert "before" in done.stdout, done.stderr
    assert ("after" not in done.stdout) == dies, done.stderr
