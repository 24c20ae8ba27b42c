"""How loads and addresses are written for CPUs: which accesses are of neighbours has to be seen."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent))
from spirv_bools import CASES
from spirv_cases import Case, rng
from spirv_passes import passed
from spirv_requests import request
from spirv_run import check, compiled, device

from xtarget._values.types import Target
from xtarget.targets import intel
from xtarget.targets._spirv.frontend.backend import SpirvBackend
from xtarget.targets._spirv.frontend.cpu_options import CPU_OPTIONS
from xtarget.targets._spirv.llvm.lanes import Lanes
from xtarget.targets._spirv.llvm.reader import read
from xtarget.targets._spirv.llvm.wide_indices import widen_indices
from xtarget.targets._spirv.llvm.word_accesses import access_words

LANE = "%lane = tail call spir_func range(i32 0, 16) i32 @_Z22get_sub_group_local_idv()"


def in_function(*lines: str) -> str:
    return "\n".join(["define void @k(i32 %n) {", *(f"  {line}" for line in lines), "}"])


def body(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n")[1:-1]]


def test_sums_that_cannot_overflow_are_widened_first() -> None:
    text = in_function(
        "%row = shl nuw nsw i32 %n, 4",
        "%place = add nuw nsw i32 %row, %lane",
        "%next = add nuw i32 %place, 16",
        "%wide = zext nneg i32 %next to i64",
    )
    assert body(passed(text, widen_indices)) == [
        "%row = shl nuw nsw i32 %n, 4",
        "%xt.wide.1 = zext i32 %n to i64",
        "%xt.zext.row = shl nsw i64 %xt.wide.1, 4",
        "%place = add nuw nsw i32 %row, %lane",
        "%xt.wide.2 = zext i32 %lane to i64",
        "%xt.zext.place = add nsw i64 %xt.zext.row, %xt.wide.2",
        "%next = add nuw i32 %place, 16",
        "%xt.zext.next = add nsw i64 %xt.zext.place, 16",
        "%wide = add nsw i64 %xt.zext.place, 16",
    ]


@pytest.mark.parametrize(
    ("sum_", "widened", "number"),
    [
        ("add nsw i32 %a, -8", "sext i32", -8),
        ("add nsw i32 %a, 8", "zext nneg i32", 8),
        ("add nuw i32 %a, -8", "zext i32", 4294967288),
    ],
)
def test_what_is_known_not_to_overflow_is_added_wide(sum_: str, widened: str, number: int) -> None:
    text = in_function(f"%s = {sum_}", f"%w = {widened} %s to i64")
    assert body(passed(text, widen_indices))[-1] == f"%w = add nsw i64 %xt.wide.2, {number}"


@pytest.mark.parametrize(
    ("sum_", "widened"),
    [
        ("add i32 %a, 8", "zext i32"),
        ("add nuw i32 %a, 8", "sext i32"),
        ("shl nuw i32 %a, %b", "zext i32"),
        ("and i32 %a, 8", "zext i32"),
    ],
)
def test_what_may_overflow_stays(sum_: str, widened: str) -> None:
    text = in_function(f"%s = {sum_}", f"%w = {widened} %s to i64")
    assert body(passed(text, widen_indices))[-1] == f"%w = {widened} %s to i64"


def lanes_of(lines: list[str]) -> Lanes:
    return Lanes(read("\n".join(["define void @k() {", *lines, "}"])).functions[0])


@pytest.mark.parametrize(
    ("index", "step"),
    [
        ("zext i32 %lane to i64", 1),
        ("mul i64 %lane, 12", 12),
        ("xor i64 %lane, 3", None),
        ("add i64 %n, 7", 0),
        ("and i64 %lane, 7", None),
        ("lshr i64 %lane, 4", 0),
        ("select i1 %c, i64 %lane, i64 %n", None),
    ],
)
def test_steps_between_lanes(index: str, step: int | None) -> None:
    lines = [f"  {LANE}", f"  %i = {index}",
             "  %p = getelementptr i8, ptr addrspace(1) %base, i64 %i"]  # fmt: skip
    assert lanes_of(lines).step("%p") == step


def test_a_loop_that_moves_a_pointer_keeps_its_step() -> None:
    lines = [
        f"  {LANE}",
        "  %first = getelementptr half, ptr addrspace(1) %base, i32 %lane",
        "  %p = phi ptr addrspace(1) [ %first, %bb ], [ %next, %loop ]",
        "  %next = getelementptr i8, ptr addrspace(1) %p, i64 32",
    ]
    assert lanes_of(lines).step("%next") == 2


def test_neighbours_are_not_gathered() -> None:
    lines = [LANE, "%p = getelementptr half, ptr addrspace(1) %a, i32 %lane",
             "%v = load half, ptr addrspace(1) %p, align 2"]  # fmt: skip
    assert passed(in_function(*lines), access_words) == in_function(*lines)


def test_bytes_far_apart_are_cut_out_of_words() -> None:
    text = passed(
        in_function(
            LANE,
            "%i = shl i32 %lane, 7",
            "%p = getelementptr i8, ptr addrspace(3) %a, i32 %i",
            "%v = load i8, ptr addrspace(3) %p, align 1",
        ),
        access_words,
    )
    assert "load i8" not in text
    assert "load i32, ptr addrspace(3)" in text
    assert "%v = bitcast i8 " in text


def test_vectors_of_small_elements_are_words() -> None:
    text = passed(
        in_function(
            "%v = load <8 x i8>, ptr addrspace(3) %p, align 8",
            "store <2 x half> %w, ptr addrspace(1) %q, align 4",
            "store <2 x i8> %x, ptr addrspace(1) %q, align 2",
        ),
        access_words,
    )
    assert body(text) == [
        "%xt.word.0.at0 = getelementptr i8, ptr addrspace(3) %p, i64 0",
        "%xt.word.0.0 = load i32, ptr addrspace(3) %xt.word.0.at0, align 4",
        "%xt.word.0.to0 = insertelement <2 x i32> poison, i32 %xt.word.0.0, i64 0",
        "%xt.word.0.at1 = getelementptr i8, ptr addrspace(3) %p, i64 4",
        "%xt.word.0.1 = load i32, ptr addrspace(3) %xt.word.0.at1, align 4",
        "%xt.word.0.to1 = insertelement <2 x i32> %xt.word.0.to0, i32 %xt.word.0.1, i64 1",
        "%v = bitcast <2 x i32> %xt.word.0.to1 to <8 x i8>",
        "%xt.word.1 = bitcast <2 x half> %w to i32",
        "%xt.word.1.at0 = getelementptr i8, ptr addrspace(1) %q, i64 0",
        "store i32 %xt.word.1, ptr addrspace(1) %xt.word.1.at0, align 4",
        "store <2 x i8> %x, ptr addrspace(1) %q, align 2",
    ]


@triton.jit
def columns(a, o, rows, M: tl.constexpr, N: tl.constexpr, S: tl.constexpr):
    """Reads columns, the last element of the array among them, and some not at all."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(a + m + n * S, m < rows, other=1)
    tl.store(o + m * N + n, x)


@pytest.mark.sample(3, each=("kind", "num_warps"))
@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("kind", ["i8", "fp16", "i1", "bf16"])
def test_columns_of_small_elements(kind: str, num_warps: int, mark_ran_on: Any) -> None:
    import ml_dtypes

    dtype = {"i8": np.int8, "fp16": np.float16, "i1": np.bool_, "bf16": ml_dtypes.bfloat16}[kind]
    stride, m, n = 37, 16, 32

    def expect(a: Any, o: Any, rows: int) -> Any:
        index = np.arange(m)[:, None] + np.arange(n)[None] * stride
        inside = np.arange(m)[:, None] < rows
        return [(1, np.where(inside, a[np.where(inside, index, 0)], np.ones((), dtype)))]

    case = Case(
        columns,
        {"a": "*" + kind, "o": "*" + kind, "rows": "i32"},
        {"M": m, "N": n, "S": stride},
        lambda: [
            rng.integers(0, 2, (n - 1) * stride + 13).astype(dtype),
            np.zeros((m, n), dtype),
            13,
        ],
        expect,
        num_warps=num_warps,
    )
    artifact = compiled(case, cpu_accesses=True)
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    check(case, artifact, "columns")


def test_without_branches_for_lanes_a_transpose_is_small(mark_ran_on: Any) -> None:
    case = replace(CASES["transposed_0_64x32"], num_warps=4)
    opened = device()
    mark_ran_on("cpu", opened.info.runs_on, opened.info.product)
    sizes = []
    for chosen in (True, False):
        module = opened.load(compiled(case, cpu_accesses=chosen))
        code = module.native()
        assert code is not None
        sizes.append(len(code))
        module.close()
    # 0.7 where the CPU has AVX2 only, 0.4 with AVX-512
    assert sizes[0] < 0.85 * sizes[1]


def test_only_code_for_cpus_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the back end of an installed xtarget, Triton's own launching is made for, says."""
    case = replace(CASES["transposed_0_16x16"], num_warps=4)
    plain = intel.create_compiler().compile(request(case), Target("intel", "spirv64"))
    monkeypatch.setattr(SpirvBackend, "defaults", CPU_OPTIONS)
    again = intel.create_compiler().compile(request(case), Target("intel", "spirv64"))
    assert again.binary == plain.binary != compiled(case).binary
