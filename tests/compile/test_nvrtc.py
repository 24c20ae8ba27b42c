"""CUDA C++ from the kernels' Triton text, compiled by NVRTC on a machine without a GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import here
from operators import layouts, own

from xtarget._compile import functions
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.errors import CompileError, NoCompilerError, UnknownTargetError
from xtarget._values.types import Target
from xtarget.targets.nvidia import cubin, nvrtc

SM_90 = Target("nvidia", "sm_90")
needs_nvrtc = pytest.mark.skipif(not nvrtc.installed(), reason="NVRTC is not installed")


def request(name: str, dtype: str) -> Any:
    kernel = libraries.find(name)
    args = layouts(own()[name], dtype, (7, 129))
    (found,) = planning.compile_requests(kernel, args, {}, SM_90)
    return found


@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *[("add", "bfloat16"), ("erfinv", "float32"), ("divmod", "uint8"), ("j0", "float64")],
        *[("sum", "int8"), ("softmax", "float16"), ("argmax", "float32")],
    ],
)
def test_a_row_becomes_a_cubin(name: str, dtype: str) -> None:
    wanted = request(name, dtype)
    made = nvrtc.NvrtcRoute().compile(wanted, SM_90, keep_stages=True)
    assert cubin.arch_of(made.binary) == "sm_90"
    assert cubin.entries(made.binary) == (made.entry,) == (f"xt_{wanted.source.name}",)
    assert made.resources.registers
    assert "/" not in made.texts["cu"].partition("void")[2].replace(" / ", "")  # no path
    again = nvrtc.NvrtcRoute().compile(wanted, SM_90)
    assert again.binary == made.binary


@needs_nvrtc
def test_an_error_has_the_compilers_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc.CUDA.__class__, "file", lambda *a, **k: "int x;\nint y = z;\n")
    nvrtc.route._of.cache_clear()
    try:
        with pytest.raises(CompileError, match=r"xt_add\.cu\(2\): error: identifier"):
            nvrtc.NvrtcRoute().compile(request("add", "float32"), SM_90)
    finally:
        nvrtc.route._of.cache_clear()


def test_without_nvrtc_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_library", str)
    monkeypatch.setenv("XTARGET_ROUTES", "nvrtc")
    with pytest.raises(NoCompilerError, match="pip install nvidia-cuda-nvrtc"):
        functions.artifact(request("add", "float32"), SM_90)
    with pytest.raises(UnknownTargetError, match="sm_1"):
        nvrtc.NvrtcRoute().compile(request("add", "float32"), Target("nvidia", "sm_1"))


def test_the_table_of_routes(capsys: pytest.CaptureFixture[str]) -> None:
    _, done, _ = here(capsys, "kernels", "frexp", "--routes", "--json")
    rows = {row["kernel"]: row for row in json.loads(done)}
    assert rows
    for name, row in rows.items():
        assert row["cpu:spirv64"]["opencl"] == row["nvidia:sm_90"]["nvrtc"] == "", name
    _, table, _ = here(capsys, "kernels", "cumsum", "--routes")
    assert "nvidia:sm_90: 0 of 1 kernels can be compiled without Triton" in table
