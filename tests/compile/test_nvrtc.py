"""CUDA C++ from the kernels' Triton text, compiled by NVRTC on a machine without a GPU."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from command_line import here
from operators import request_of

from xtarget._compile import functions
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.errors import CompileError, NoCompilerError, UnknownTargetError
from xtarget._values.types import Target, WrittenSource
from xtarget.targets.nvidia import cubin, nvrtc

SM_90 = Target("nvidia", "sm_90")
needs_nvrtc = pytest.mark.skipif(not nvrtc.installed(), reason="NVRTC is not installed")


request = partial(request_of, target=SM_90)


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


def scan_of(dtype: str, length: int) -> Any:
    row = np.ones((3, length), dtype)
    (made,) = planning.compile_requests(libraries.find("cumsum"), (row,), {"axis": 1}, SM_90)
    return made


def test_a_block_above_48_kib_is_asked_for_where_the_arch_has_it() -> None:
    route = nvrtc.NvrtcRoute()
    small, large = scan_of("int8", 700), scan_of("float64", 4000)
    for arch in ("sm_75", "sm_86", "sm_90"):
        assert not route.refusal(small, Target("nvidia", arch))
    assert not route.refusal(large, SM_90)
    target = Target("nvidia", "sm_86")
    refused = route.refusal(large, target)
    assert re.fullmatch(
        r"its blocks of 1\d{5} bytes are more than the 101376 that nvidia:sm_86 has\.", refused
    )
    if nvrtc.installed():
        with pytest.raises(CompileError, match=r"blocks of 1\d{5} bytes"):
            route.compile(large, target)


@needs_nvrtc
def test_a_launch_asks_for_what_its_blocks_share() -> None:
    route = nvrtc.NvrtcRoute()
    made = route.compile(scan_of("int8", 700), SM_90)
    assert 48 << 10 < made.shared_bytes <= 64 << 10
    assert made.resources.static_shared_bytes < 48 << 10
    assert not route.compile(scan_of("int8", 100), SM_90).shared_bytes


@needs_nvrtc
def test_an_error_has_the_compilers_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc.CUDA.__class__, "file", lambda *a, **k: "int x;\nint y = z;\n")
    nvrtc.route._of.cache_clear()
    try:
        with pytest.raises(CompileError, match=r"xt_add\.cu\(2\): error: identifier") as caught:
            nvrtc.NvrtcRoute().compile(request("add", "float32"), SM_90)
        assert "\0" not in str(caught.value)
    finally:
        nvrtc.route._of.cache_clear()


_BY_CUB = """#include <cub/block/block_reduce.cuh>
#include <cuda/std/limits>

KERNEL(THREADS) void add(const float* a, const float* b, float* out, int n) {
  using Sum = cub::BlockReduce<float, THREADS>;
  SHARED typename Sum::TempStorage kept;
  const float low = cuda::std::numeric_limits<float>::lowest();
  float x = threadIdx.x < n ? a[threadIdx.x] + b[threadIdx.x] : low;
  x = Sum(kept).Sum(x);
  if (!threadIdx.x) out[0] = x;
}
"""


def written(text: str) -> Any:
    wanted = request("add", "float32")
    source = WrittenSource("cu", text.encode(), "own.add.cu")
    return replace(
        wanted,
        source=replace(
            wanted.source, name="add", digest=hashlib.sha256(text.encode()).hexdigest(),
            written=(source,),
        ),
    )  # fmt: skip


@needs_nvrtc
@pytest.mark.skipif(not nvrtc._headers()[0], reason="nvidia-cuda-cccl is not installed")
def test_a_source_includes_cub() -> None:
    made = nvrtc.NvrtcRoute().compile(written(_BY_CUB), SM_90)
    assert cubin.entries(made.binary) == ("add",)
    assert made.resources.static_shared_bytes
    assert "nvidia-cuda-cccl 1" in nvrtc.NvrtcRoute().fingerprint
    wrong = "// mine\n#include <nv/target>\n\nKERNEL(THREADS) void add(const float* a) { z; }\n"
    with pytest.raises(CompileError, match=r"own\.add\.cu\(4\): error") as caught:
        nvrtc.NvrtcRoute().compile(written(wrong), SM_90)
    assert "never referenced" not in str(caught.value)  # of functions above the source


@needs_nvrtc
def test_without_the_headers_their_install_line_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_headers", lambda: ("", ""))
    route = nvrtc.NvrtcRoute()
    assert "cccl" not in route.fingerprint
    words = r'own\.add\.cu\(1\)(.|\n)*"cub/block(.|\n)*pip install nvidia-cuda-cccl$'
    with pytest.raises(CompileError, match=words):
        route.compile(written(_BY_CUB), SM_90)
    with pytest.raises(CompileError, match=r'"mine\.h"') as caught:
        route.compile(written('#include "mine.h"\n' + _BY_CUB), SM_90)
    assert "pip install" not in str(caught.value)


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
    _, table, _ = here(capsys, "kernels", "linear_int4", "--routes")
    assert "nvidia:sm_90: 0 of 1 kernels can be compiled without Triton" in table
