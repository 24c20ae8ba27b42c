"""OpenCL C that clang and llvm-spirv make SPIR-V of, without any run time of OpenCL."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from c_route_programs import CHECKED
from operators import request_of
from processes import run_python

from xtarget._system.tools import find_tool
from xtarget._values.errors import CompileError, NoCompilerError
from xtarget._values.types import Target
from xtarget.targets._c import offline, route
from xtarget.targets._c.dialects import OPENCL, OPENCL_GPU

CPU, INTEL = Target("cpu", "spirv64"), Target("intel", "spirv64")
needs_clang = pytest.mark.skipif(
    offline.find() is None, reason=f"clang and llvm-spirv are not here: {offline.INSTALL}"
)
ROWS = "erf-float64 divmod-int8 softmax-float16 cumsum-int32 add-bfloat16 logical_xor-bool"
#: The kernels of Intel's GPUs, whose blocks have several threads, on the CPU.
SEVERAL = """
import xtarget.targets.cpu
from xtarget.targets._c.dialects import OPENCL_GPU
from xtarget.targets._c.offline import ClangRoute

xtarget.targets.cpu.create_routes = lambda: (ClangRoute(OPENCL_GPU, 16),)
"""


@needs_clang
@pytest.mark.parametrize("threads", ["one", "several"])
def test_rows_are_right(threads: str, device: str, tmp_path: Path) -> None:
    if device.partition(":")[0] != "cpu":
        pytest.skip("the CPU runs what is made for Intel's GPUs too")
    script = CHECKED if threads == "one" else SEVERAL + CHECKED
    places = {"XTARGET_CACHE_DIR": str(tmp_path), "XTARGET_ROUTES": "strict,clang"}
    done = run_python("-W", "ignore", "-c", script, device, *ROWS.split(), **places)
    assert done.returncode == 0, done.stderr
    made = [path.read_bytes()[:4] for path in tmp_path.rglob("*") if path.is_file()]
    assert made.count(b"\x03\x02\x23\x07") >= len(ROWS.split()), "SPIR-V, of each row"


@needs_clang
@pytest.mark.parametrize("name", ["add", "sum", "cumsum"])
def test_a_row_becomes_spirv_that_is_valid(name: str, tmp_path: Path) -> None:
    made_by = offline.ClangRoute(OPENCL_GPU, 32)
    wanted = request_of(name, "float32", target=INTEL)
    made = made_by.compile(wanted, INTEL, keep_stages=True)
    assert made.format == "spirv"
    assert made.num_warps == wanted.num_warps
    assert made_by.compile(wanted, INTEL).binary == made.binary
    assert b"/tmp" not in made.binary, "no path of this machine"
    tool = find_tool("spirv-val")
    if tool is not None:
        (tmp_path / "made.spv").write_bytes(made.binary)
        command = [tool, "--target-env", "spv1.2", tmp_path / "made.spv"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_clang
def test_an_error_has_the_compilers_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPENCL.__class__, "file", lambda *a, **k: "int x;\nint y = z;\n")
    route._of.cache_clear()
    try:
        with pytest.raises(CompileError, match=r"xt_add\.cl:2:9: error: use of undeclared"):
            offline.ClangRoute(OPENCL, 16).compile(request_of("add", "float32", target=CPU), CPU)
    finally:
        route._of.cache_clear()


def test_without_the_programs_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offline, "find_tool", lambda name: None)
    made_by = offline.ClangRoute(OPENCL, 16)
    assert made_by.fingerprint == ""
    with pytest.raises(NoCompilerError, match=r"apt install clang-14 llvm-spirv-14"):
        made_by.compile(request_of("add", "float32", target=CPU), CPU)


def test_a_pair_is_of_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"clang-15", "clang-14", "llvm-spirv-14"}
    monkeypatch.setattr(offline, "find_tool", lambda name: name if name in there else None)
    assert offline.find() == ("clang-14", "llvm-spirv-14")
    there.remove("llvm-spirv-14")
    assert offline.find() is None
    there.add("llvm-spirv")
    monkeypatch.setattr(offline, "_major", lambda program: 15)
    assert offline.find() == ("clang-15", "llvm-spirv")


def test_what_is_not_translated_is_refused_in_a_sentence() -> None:
    made_by = offline.ClangRoute(OPENCL_GPU, 32)
    refused = made_by.refusal(request_of("matmul", "float32", target=INTEL), INTEL)
    assert re.fullmatch(r"it cannot be written in OpenCL C for GPUs: .*\.", refused)
