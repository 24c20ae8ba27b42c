"""Tensors of bits: kernels of every kind give NumPy's bits, however the optimiser packs them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")

sys.path.insert(0, str(Path(__file__).parent))
from spirv_bools import CASES
from spirv_passes import passed
from spirv_run import check, compiled, device

from xtarget.targets._spirv.llvm.odd_vectors import widen_odd_vectors

#: Threads, or the block's one warp as vectors.
WAYS = {
    "1x16": (1, 16, "threads"),
    "1x32": (1, 32, "threads"),
    "4x16": (4, 16, "threads"),
    "8x32": (8, 32, "threads"),
    "vectors": (1, 16, "vectors"),
}
#: Did not compile, each in its own way, before there was `odd_vectors`.
SHORT = {
    ("transposed_0_16x16", "vectors"),
    ("compared_0_16x16", "1x16"),
    ("largest_0_64x32", "vectors"),
    ("gathered_0_16x16", "1x32"),
}


@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(name, way, marks=() if (name, way) in SHORT else pytest.mark.long)
        for name in CASES
        for way in WAYS
    ],
)
def test_bits(name: str, way: str, mark_ran_on: Any) -> None:
    num_warps, warp_size, lanes = WAYS[way]
    case = replace(CASES[name], num_warps=num_warps, warp_size=warp_size)
    artifact = compiled(case, lanes=lanes)
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    check(case, artifact, name)


def rewritten(*lines: str) -> list[str]:
    text = "\n".join(["define void @k() {", *(f"  {line}" for line in lines), "}"])
    return [line.strip() for line in passed(text, widen_odd_vectors).split("\n")[1:-1]]


def test_bits_in_memory_are_bytes() -> None:
    assert rewritten(
        "%v = load <128 x i1>, ptr addrspace(3) %p, align 16",
        "%a = extractelement <128 x i1> %v, i64 0",
        "%b = extractelement <128 x i1> %v, i64 42",
    ) == [
        "%v = load <16 x i8>, ptr addrspace(3) %p, align 16",
        "%xt.odd.1 = extractelement <16 x i8> %v, i64 0",
        "%a = trunc i8 %xt.odd.1 to i1",
        "%xt.odd.2 = extractelement <16 x i8> %v, i64 5",
        "%xt.odd.2.low = lshr i8 %xt.odd.2, 2",
        "%b = trunc i8 %xt.odd.2.low to i1",
    ]


def test_too_many_bytes_are_wider_elements() -> None:
    assert rewritten(
        "%v = bitcast <8 x i32> %w to <32 x i8>",
        "%a = extractelement <32 x i8> %v, i64 3",
    ) == [
        "%v = bitcast <8 x i32> %w to <16 x i16>",
        "%xt.odd.1 = extractelement <16 x i16> %v, i64 1",
        "%xt.odd.1.low = lshr i16 %xt.odd.1, 8",
        "%a = trunc i16 %xt.odd.1.low to i8",
    ]


def test_a_byte_of_bits_is_no_vector() -> None:
    assert rewritten(
        "%v = bitcast i8 %b to <8 x i1>", "%a = extractelement <8 x i1> %v, i64 7"
    ) == ["%v = bitcast i8 %b to i8", "%xt.odd.1.low = lshr i8 %v, 7",
          "%a = trunc i8 %xt.odd.1.low to i1"]  # fmt: skip


def test_operations_between_follow() -> None:
    assert rewritten(
        "%u = phi <64 x i1> [ %v, %bb ], [ zeroinitializer, %bb1 ]",
        "%v = load <64 x i1>, ptr addrspace(1) %p, align 8",
        "%w = xor <64 x i1> %u, splat (i1 true)",
        "%x = select i1 %c, <64 x i1> %w, <64 x i1> %v",
        "store <64 x i1> %x, ptr addrspace(1) %q, align 8",
    ) == [
        "%u = phi <8 x i8> [ %v, %bb ], [ zeroinitializer, %bb1 ]",
        "%v = load <8 x i8>, ptr addrspace(1) %p, align 8",
        "%w = xor <8 x i8> %u, splat (i8 -1)",
        "%x = select i1 %c, <8 x i8> %w, <8 x i8> %v",
        "store <8 x i8> %x, ptr addrspace(1) %q, align 8",
    ]


def test_vectors_of_comparisons_stay() -> None:
    lines = [
        "%m = icmp slt <16 x i32> %a, %b",
        "%n = and <16 x i1> %m, %k",
        "%c = extractelement <16 x i1> %n, i64 3",
    ]
    assert rewritten(*lines) == lines


def test_what_looks_at_elements_is_left_alone() -> None:
    lines = ["%v = load <32 x i8>, ptr addrspace(1) %p, align 8", "%w = add <32 x i8> %v, %v"]
    assert rewritten(*lines) == lines
