"""Large dots are loops: small code, with the results of the unrolled form."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import triton
import triton.language as tl
from spirv_cases import Case, empty, normal
from spirv_language import CASES
from spirv_products import dot3d_case
from spirv_run import check, compiled, device, launch
from triton._C.libtriton import amd

from xtarget.targets._spirv.frontend.carriers import carrier_of
from xtarget.targets._spirv.frontend.cpu_options import CPU_BYTES
from xtarget.targets._spirv.frontend.dots import Dot, Loops, Operand, tile_of
from xtarget.targets._spirv.frontend.structure import operations
from xtarget.targets._spirv.frontend.types import Type
from xtarget.targets._spirv.llvm.dot_operands import place_operands
from xtarget.targets._spirv.llvm.printer import printed
from xtarget.targets._spirv.llvm.reader import read
from xtarget.targets._spirv.llvm.text import ADDRESS, Layout
from xtarget.targets._triton.reason import read_module

#: Types of the operands, the sum and their NumPy types, and the tolerance.
KINDS: dict[str, Any] = {
    "fp32": ("fp32", "fp32", tl.float32, np.float32, np.float32, 5e-5),
    "fp16": ("fp16", "fp16", tl.float16, np.float16, np.float16, 2e-2),
    "bf16": ("bf16", "fp32", tl.float32, ml_dtypes.bfloat16, np.float32, 5e-5),
    "fp8": ("fp8e5", "fp32", tl.float32, ml_dtypes.float8_e5m2, np.float32, 5e-5),
    "i8": ("i8", "i32", tl.int32, np.int8, np.int32, 0.0),
    "fp64": ("fp64", "fp64", tl.float64, np.float64, np.float64, 1e-12),
}


@triton.jit
def dot(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, D: tl.constexpr):
    m = tl.arange(0, M)[:, None]
    n = tl.arange(0, N)[None, :]
    x = tl.load(a + m * K + tl.arange(0, K)[None, :])
    y = tl.load(b + tl.arange(0, K)[:, None] * N + n)
    tl.store(c + m * N + n, tl.dot(x, y, input_precision="ieee", out_dtype=D))


def case(kind: str, m: int, n: int, k: int, num_warps: int) -> Case:
    type_, out, total, dtype, odtype, tolerance = KINDS[kind]
    return Case(
        dot,
        {"a": "*" + type_, "b": "*" + type_, "c": "*" + out},
        {"M": m, "N": n, "K": k, "D": total},
        lambda: [np.abs(normal(m, k) * 5).astype(dtype), np.abs(normal(k, n) * 5).astype(dtype),
                 empty(m, n, dtype=odtype)],
        lambda a, b, c: [(2, a.astype(np.float64) @ b.astype(np.float64))],
        tolerance,
        num_warps=num_warps,
    )  # fmt: skip


@triton.jit
def dot_after_dot(a, b, c, M: tl.constexpr):
    i = tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :]
    x = tl.load(a + i)
    y = tl.load(b + i)
    total = tl.zeros((M, M), tl.float32)
    for k in range(2):
        total = tl.dot(x + k, tl.trans(y), total)
    tl.store(c + i, tl.dot(total, y))


@triton.jit
def dots_side_by_side(a, b, c, K, S: tl.constexpr):
    """Values that the loops load keep their names in Triton's IR, multiplied the other way."""
    m = tl.arange(0, S)
    total = tl.zeros((S, S), tl.float32)
    for k in range(0, K, S):
        x = tl.load(a + m[:, None] * K + (k + m)[None, :])
        y = tl.load(b + (k + m)[:, None] * S + m[None, :])
        total = tl.dot(x, y, total, input_precision="ieee")
    for k in range(0, K, S):
        x = tl.load(a + m[:, None] * K + (k + m)[None, :])
        y = tl.load(b + (k + m)[:, None] * S + m[None, :])
        total = tl.dot(y, x, total, input_precision="ieee")
    tl.store(c + m[:, None] * S + m[None, :], total)


def both_ways(a: Any, b: Any, c: Any) -> Any:
    a, b = a.astype(np.float64), b.astype(np.float64)
    size = len(a)
    pieces = [slice(k, k + size) for k in range(0, len(b), size)]
    return [(2, a @ b + sum(b[piece] @ a[:, piece] for piece in pieces))]


def side_by_side(type_: str, dtype: Any, num_warps: int) -> Case:
    return Case(
        dots_side_by_side,
        {"a": "*" + type_, "b": "*" + type_, "c": "*fp32", "K": "i32"},
        {"S": 32},
        lambda: [normal(32, 64).astype(dtype), normal(64, 32).astype(dtype), empty(32, 32), 64],
        lambda a, b, c, _: both_ways(a, b, c),
        5e-5,
        num_warps=num_warps,
    )


@triton.jit
def dots_in_turns(a, b, c, K, READ: tl.constexpr, S: tl.constexpr):
    """The first turn has no dot, the second K // S. READ: each step looks at the sum so far."""
    m = tl.arange(0, S)
    i = m[:, None] * S + m[None, :]
    for turn in range(2):
        total = tl.full((S, S), 1, tl.float32) + turn
        most = total
        for k in range(0, K * turn, S):
            x = tl.load(a + m[:, None] * K + (k + m)[None, :])
            y = tl.load(b + (k + m)[:, None] * S + m[None, :])
            total = tl.dot(x, y, total, input_precision="ieee")
            if READ:
                most = tl.maximum(most, total)
        tl.store(c + turn * S * S + i, most if READ else total)


def in_turns(read: bool) -> Case:
    def expected(a: Any, b: Any, _: Any, __: int) -> Any:
        sums = [np.full((32, 32), 2.0)]
        for k in (0, 32):
            sums.append(sums[-1] + a[:, k : k + 32].astype(np.float64) @ b[k : k + 32])
        last = np.maximum.reduce(sums) if read else sums[-1]
        return [(2, np.stack([np.ones((32, 32)), last]))]

    return Case(
        dots_in_turns,
        {"a": "*fp32", "b": "*fp32", "c": "*fp32", "K": "i32"},
        {"READ": read, "S": 32},
        lambda: [normal(32, 64), normal(64, 32), empty(2, 32, 32), 64],
        expected,
        5e-5,
        num_warps=4,
    )


@triton.jit
def dot_on_both_ways(a, b, c, way, S: tl.constexpr):
    """Behind the loops of its dot, each way does the same."""
    i = tl.arange(0, S)[:, None] * S + tl.arange(0, S)[None, :]
    x = tl.load(a + i)
    y = tl.load(b + i)
    if way > 0:
        total = tl.dot(x, y, input_precision="ieee")
    else:
        total = tl.dot(y, x, input_precision="ieee")
    tl.store(c + i, tl.dot(total, y, input_precision="ieee"))


def one_way(way: int) -> Case:
    return Case(
        dot_on_both_ways,
        {"a": "*fp32", "b": "*fp32", "c": "*fp32", "way": "i32"},
        {"S": 32},
        lambda: [normal(32, 32), normal(32, 32) + 1, empty(32, 32), way],
        lambda a, b, c, w: [(2, (a @ b if w else b @ a).astype(np.float64) @ b)],
        5e-4,
    )


LARGE = {
    **{kind: case(kind, 32, 64, 64, 4) for kind in KINDS},
    **{f"side_by_side_{warps}": side_by_side("fp32", np.float32, warps) for warps in (1, 4)},
    **{f"way_{way}_of_a_branch": one_way(way) for way in (0, 1)},
    "in_turns": in_turns(False),
    "in_turns_and_read": in_turns(True),
    "side_by_side_fp16": side_by_side("fp16", np.float16, 4),
    "tiles_both_ways": case("fp32", 64, 128, 32, 8),
    "one_row_of_tiles": case("fp32", 16, 128, 64, 2),
    "dot3d": dot3d_case(32),
    "dot_after_dot": Case(
        dot_after_dot,
        {"a": "*fp32", "b": "*fp32", "c": "*fp32"},
        {"M": 32},
        lambda: [np.abs(normal(32, 32)), np.abs(normal(32, 32)), empty(32, 32)],
        lambda a, b, c: [(2, (a @ b.T + (a + 1) @ b.T) @ b)],
        1e-4,
        num_warps=1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_result_of_a_large_dot(name: str, mark_ran_on: Any) -> None:
    artifact = compiled(LARGE[name], dot_bytes=CPU_BYTES)
    assert artifact.resources.static_shared_bytes
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    check(LARGE[name], artifact, name)


_CARRIED = """
module {
  tt.func public @kernel(%n: i32, %x: tensor<32x32xf32>) {
    %zero = arith.constant dense<0.0> : tensor<32x32xf32>
    %one = arith.constant 1 : i32
    %sums:2 = scf.for %i = %one to %n step %one iter_args(%m = %n, %sum = %zero)
        -> (i32, tensor<32x32xf32>) : i32 {
      %next = tt.dot %x, %x, %sum : tensor<32x32xf32> * tensor<32x32xf32> -> tensor<32x32xf32>
      MORE
      scf.yield %m, %next : i32, tensor<32x32xf32>
    }
    tt.return
  }
}
"""


@pytest.mark.parametrize(
    ("more", "carried"),
    [
        pytest.param("", True, id="nothing"),
        pytest.param("%a = arith.addf %sum, %x : tensor<32x32xf32>", False, id="before"),
        pytest.param("%a = arith.addf %next, %x : tensor<32x32xf32>", False, id="after"),
        pytest.param(
            "%a = tt.dot %x, %x, %x : tensor<32x32xf32> * tensor<32x32xf32> -> tensor<32x32xf32>",
            False,
            id="dot",
        ),
    ],
)
def test_a_sum_that_nothing_else_in_its_loop_reads_stays_in_shared_memory(
    more: str, carried: bool
) -> None:
    found = operations(read_module(_CARRIED.replace("MORE", more), amd.load_dialects))
    dot = next(one for one in found if one.name == "tt.dot")
    carrier = carrier_of(found, dot)
    assert (carrier is not None) == carried
    if carrier is not None:
        assert carrier.loop.name == "scf.for"
        assert carrier.begin.id() == next(o for o in found if o.results).results[0].id()


def test_a_loop_is_less_code() -> None:
    large = LARGE["fp32"]
    sizes = [len(compiled(large, dot_bytes=nbytes).binary) for nbytes in (CPU_BYTES, 0)]
    assert sizes[0] < 0.5 * sizes[1]


@pytest.mark.long
def test_a_loop_gives_the_bits_of_the_unrolled_dot() -> None:
    one = case("fp32", 16, 32, 64, 1)
    results = []
    given = one.given()
    for nbytes in (0, CPU_BYTES):
        arguments = [each.copy() for each in given]
        launch(compiled(one, dot_bytes=nbytes), arguments, (1, 1, 1))
        results.append(arguments[2])
    assert results[0].tobytes() == results[1].tobytes()


def test_a_small_dot_and_one_without_room_stay_unrolled() -> None:
    small = CASES["dot_fp8e5"]
    assert compiled(small, dot_bytes=CPU_BYTES).binary == compiled(small, dot_bytes=0).binary
    large = case("fp32", 32, 64, 64, 4)
    assert compiled(large, dot_bytes=32 * 64 * 4).binary == compiled(large, dot_bytes=0).binary


def test_a_sum_with_fewer_elements_than_threads_stays_unrolled() -> None:
    few, many = (Loops(warps, 16, 1 << 20) for warps in (1, 32))
    operand = Operand(None, Type("f32", (16, 16)))
    dot = Dot(0, operand, operand, operand, "f32", (), 16, 16, 4096)
    assert tile_of(dot, many) is None
    assert tile_of(dot, few) is not None


@pytest.mark.parametrize(("held", "tile"), [(16, (8, 32)), (4, (4, 16)), (1, (1, 16))])
def test_a_thread_holds_as_many_elements_of_a_sum_as_it_may(
    held: int, tile: tuple[int, int]
) -> None:
    operand = Operand(None, Type("f32", (64, 64)))
    dot = Dot(0, operand, operand, operand, "f32", (), 64, 64, 64)
    made = tile_of(dot, Loops(1, 16, 1 << 20, held))
    assert made is not None
    assert (made.m, made.n) == tile


def test_places_are_those_of_each_function() -> None:
    given = f"""
declare i64 @{ADDRESS}(i64)
define void @f(ptr addrspace(1) %p) {{
  %a = call i64 @{ADDRESS}(i64 32)
  %b = inttoptr i64 %a to ptr addrspace(1)
  %c = getelementptr float, ptr addrspace(1) %b, i32 1
  %d = getelementptr float, ptr addrspace(1) %p, i32 1
  store float 0.0, ptr addrspace(1) %c
  store float 0.0, ptr addrspace(1) %d
  ret void
}}
define void @g(ptr addrspace(1) %c) {{
  store float 0.0, ptr addrspace(1) %c
  ret void
}}"""
    module = read(given.lstrip(), "f", Layout(num_warps=1, warp_size=16, shared_bytes=64))
    place_operands(module)
    text = printed(module)
    assert "%b = getelementptr i8, ptr addrspace(3) @global_smem, i64 96" in text
    assert "%c = getelementptr float, ptr addrspace(3) %b, i32 1" in text
    assert text.count("store float 0.0, ptr addrspace(3) %c") == 1
    assert text.count("store float 0.0, ptr addrspace(1) %c") == 1
    assert "%d = getelementptr float, ptr addrspace(1) %p, i32 1" in text
    assert ADDRESS not in text
