"""For a run time that has no functions of halves, and takes vectors up to a width: PoCL."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import llvmlite.binding as llvm
import spirv_kernels
import triton
import triton.language as tl
from spirv_cases import Case, empty, normal
from spirv_passes import passed
from spirv_requests import request
from spirv_run import CPU, check

from xtarget._values.errors import CompileError
from xtarget.targets import cpu
from xtarget.targets._spirv.llvm.narrow import narrow

_VECTOR = re.compile(r"<(\d+) x (half|float|double|i\d+)>")
_BYTES = {"half": 2, "float": 4, "double": 8}
_CASTS = ("fpext", "fptrunc", "sitofp", "uitofp", "fptosi", "fptoui", "sext", "zext", "trunc")
WIDTHS = (16, 32, 64)


def refused(text: str, most: int) -> list[str]:
    """The lines that such a run time has nothing for."""
    found = []
    for line in text.splitlines():
        operation = line.partition(" = ")[2].removeprefix("tail ").partition(" ")[0]
        if operation not in ("call", *_CASTS):
            continue
        given = line.partition("(")[2] if operation == "call" else line.partition(" to ")[0]
        sizes = [
            int(count) * (_BYTES.get(element) or int(element[1:]) // 8)
            for count, element in _VECTOR.findall(given)
            if element != "i1"
        ]
        if operation == "call":
            halves = bool(re.search(r"\bhalf\b", line))
        else:
            halves = bool(re.search(r"<\d+ x half>", line))
            sizes = [] if "x i1>" in line else sizes
        if halves or any(size > most for size in sizes):
            found.append(line)
    return found


MODULE = """
declare half @llvm.fabs.f16(half)
declare <16 x half> @llvm.fma.v16f16(<16 x half>, <16 x half>, <16 x half>)
declare <16 x i32> @llvm.ctlz.v16i32(<16 x i32>, i1 immarg)
declare spir_func <16 x i64> @_Z3maxDv16_lS_(<16 x i64>, <16 x i64>) nounwind
declare spir_func <16 x half> @_Z4tanhDv16_Dh(<16 x half>) nounwind
declare spir_func i32 @_Z5isnanDh(half) nounwind
declare spir_func float @_Z4tanhf(float) nounwind
define void @k(ptr addrspace(1) %p, <16 x half> %h, <16 x i64> %l, <16 x i32> %i, half %s) {
  %1 = fpext <16 x half> %h to <16 x float>
  %2 = call <16 x half> @llvm.fma.v16f16(<16 x half> %h, <16 x half> %h, <16 x half> %h)
  %3 = call spir_func <16 x i64> @_Z3maxDv16_lS_(<16 x i64> %l, <16 x i64> zeroinitializer)
  %4 = tail call nnan half @llvm.fabs.f16(half %s)
  %5 = trunc <16 x i64> %3 to <16 x i32>
  %6 = call spir_func <16 x half> @_Z4tanhDv16_Dh(<16 x half> %2)
  %7 = call <16 x i32> @llvm.ctlz.v16i32(<16 x i32> %i, i1 false)
  %8 = call spir_func i32 @_Z5isnanDh(half %4)
  %9 = call spir_func float @_Z4tanhf(float 1.0)
  %10 = icmp eq <16 x i32> %5, %7
  %11 = zext <16 x i1> %10 to <16 x i64>
  %12 = fadd <16 x half> %6, %6
  %13 = sitofp <16 x i32> %7 to <16 x half>
  store <16 x half> %12, ptr addrspace(1) %p, align 2
  ret void
}
"""


@pytest.mark.parametrize("most", WIDTHS)
def test_what_is_left_is_within_the_width(most: int) -> None:
    assert len(refused(MODULE, most)) >= 7
    text = passed(MODULE, narrow, half_math=False, function_bytes=most)
    llvm.parse_assembly(text).verify()
    assert refused(text, most) == []
    assert "zext <16 x i1>" in text, "a selection of constants, which no function is needed for"
    assert "fadd <16 x half>" in text
    assert f"@_Z3maxDv{most // 8}_lS_(" in text
    assert "@_Z4tanhf(" in text


def test_a_fused_product_of_halves_is_rounded_once() -> None:
    """In double: its sum of three halves, as a float, would be rounded before it becomes a half."""
    text = passed(MODULE, narrow, half_math=False, function_bytes=64)
    assert "@llvm.fma.v8f64(" in text


def test_everything_stays_where_there_is_all() -> None:
    text = passed(MODULE, narrow, half_math=True, function_bytes=0)
    assert sorted(text.split("\n")) == sorted(MODULE.split("\n"))


def test_a_width_that_is_none_is_refused() -> None:
    case = spirv_kernels.CASES["add_fp32"]
    with pytest.raises(CompileError, match="function_bytes is 8; it must be 0, or 16 at least"):
        cpu.create_compiler().compile(request(case, function_bytes=8), CPU)


@triton.jit
def half_functions(x, y, i, o, d, n, B: tl.constexpr):
    k = tl.arange(0, B)
    a, b, c = tl.load(x + k), tl.load(y + k), tl.load(i + k)
    tl.store(o + k, tl.maximum(tl.abs(a), b) + tl.floor(a.to(tl.float32)).to(tl.float16))
    tl.store(d + k, tl.exp(a.to(tl.float64)) + tl.maximum(c, -c).to(tl.float64))
    tl.store(n + k, tl.maximum(c, c // 3) + b.to(tl.int64))


def _half_functions(x: Any, y: Any, i: Any, *_: Any) -> list[tuple[int, Any]]:
    first = np.maximum(np.abs(x), y) + np.floor(x)
    second = np.exp(x.astype(np.float64)) + np.abs(i)
    thirds = np.trunc(i / 3).astype(np.int64)
    return [(3, first), (4, second), (5, np.maximum(i, thirds) + y.astype(np.int64))]


OWN = Case(
    half_functions,
    {"x": "*fp16", "y": "*fp16", "i": "*i64", "o": "*fp16", "d": "*fp64", "n": "*i64"},
    {"B": 64},
    lambda: [
        normal(64, dtype=np.float16),
        3 * normal(64, dtype=np.float16),
        (1000 * normal(64)).astype(np.int64),
        empty(64, dtype=np.float16),
        empty(64, dtype=np.float64),
        empty(64, dtype=np.int64),
    ],
    _half_functions,
)


@pytest.mark.sample(3, each=("most", "lanes"))
@pytest.mark.parametrize("lanes", ["vectors", "threads"])
@pytest.mark.parametrize("most", WIDTHS)
def test_results_are_right_and_nothing_else_is_called(most: int, lanes: str) -> None:
    for case in (OWN, spirv_kernels.CASES["casts"]):
        case = replace(case, num_warps=1, warp_size=16)
        what = request(case, half_math=False, function_bytes=most, lanes=lanes)
        artifact = cpu.create_compiler().compile(what, CPU, keep_stages=True)
        assert artifact.warp_size == (1 if lanes == "vectors" else 16)
        assert refused(artifact.texts["llir"], most) == []
        check(case, artifact, f"{case.fn.fn.__name__} {most} {lanes}")
