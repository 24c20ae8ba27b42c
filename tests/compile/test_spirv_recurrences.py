"""Loops that hand a value from one variable to another, which ends Intel's CPU compiler."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
import llvmlite.binding as llvm
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent))
from spirv_cases import Case, empty, normal
from spirv_passes import passed
from spirv_run import check, compiled, device

from xtarget.targets._spirv.frontend.cpu_options import CPU_OPTIONS
from xtarget.targets._spirv.llvm.recurrences import separate_recurrences


def loop(type_: str, barrier: str = "  call void @_Z7barrierj(i32 3)\n") -> str:
    return f"""
define {type_} @k({type_} %a, {type_} %b, i32 %n) {{
entry:
  br label %loop

loop:                                             ; preds = %loop, %entry
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %p = phi {type_} [ %a, %entry ], [ %q, %loop ]
  %q = phi {type_} [ %b, %entry ], [ %p, %loop ]
{barrier}  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end

end:                                              ; preds = %loop
  ret {type_} %p
}}

declare void @_Z7barrierj(i32)"""


@pytest.mark.parametrize("type_", ["float", "double", "half", "i1", "i8", "i32", "i64"])
def test_a_loop_takes_no_phi_of_its_own(type_: str) -> None:
    text = passed(loop(type_), separate_recurrences)
    llvm.parse_assembly(text).verify()
    assert "[ %q, %loop ]" not in text
    assert "[ %p, %loop ]" not in text
    assert "[ %next, %loop ]" in text
    assert text.count("@_Z14get_num_groupsj") == 2  # one call, and the declaration


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(loop("float", barrier=""), id="no_barrier"),
        pytest.param(loop("<2 x float>"), id="vectors"),
        pytest.param(loop("float").replace("[ %q, %loop ]", "[ %a, %loop ]")
                     .replace("[ %p, %loop ]", "[ %b, %loop ]"), id="nothing_handed_on"),
    ],
)  # fmt: skip
def test_other_loops_stay_as_they_are(text: str) -> None:
    assert passed(text, separate_recurrences) == text


@triton.jit
def prefetched_dots(a, b, c, K, S: tl.constexpr):
    m = tl.arange(0, S)
    total = tl.zeros((S, S), tl.float32)
    x = tl.load(a + m[:, None] * K + m[None, :])
    y = tl.load(b + m[:, None] * S + m[None, :])
    for k in range(0, K, S):
        total = tl.dot(y, x, total, input_precision="ieee")
        more = (k + S) < K
        mask = more & (m[:, None] < S)
        y = tl.load(b + (k + S + m)[:, None] * S + m[None, :], mask=mask, other=0.0)
        x = tl.load(a + m[:, None] * K + (k + S + m)[None, :], mask=mask, other=0.0)
    for _ in range(0, K, S):
        total = tl.dot(x + y, y, total, input_precision="ieee")
        y, x = x + 1, y
    tl.store(c + m[:, None] * S + m[None, :], total)


def expected(a: Any, b: Any, c: Any, length: int) -> Any:
    size = len(a)
    a, b = a.astype(np.float64), b.astype(np.float64)
    total = sum(b[k : k + size] @ a[:, k : k + size] for k in range(0, length, size))
    x = y = np.zeros((size, size))
    for _ in range(0, length, size):
        total = total + (x + y) @ y
        y, x = x + 1, y
    return [(2, total)]


@pytest.mark.sample(3, each=("size", "num_warps"))
@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("size", [16, 32])
def test_dots_of_what_is_handed_on(size: int, num_warps: int, mark_ran_on: Any) -> None:
    case = Case(
        prefetched_dots,
        {"a": "*fp32", "b": "*fp32", "c": "*fp32", "K": "i32"},
        {"S": size},
        lambda: [normal(size, 3 * size), normal(3 * size, size), empty(size, size), 3 * size],
        expected,
        1e-4,
        num_warps=num_warps,
    )
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    check(case, compiled(case, **dict(CPU_OPTIONS)), "prefetched_dots")
