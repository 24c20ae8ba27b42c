"""Blocks on a CPU get more warps than asked for where a thread would have many elements."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import triton
import triton.language as tl
from spirv_cases import Case, empty, normal
from spirv_run import check, compiled, device
from triton._C.libtriton import amd

from xtarget.targets._spirv.frontend.blocks import Work, num_warps, work_of
from xtarget.targets._triton.reason import read_module


@triton.jit
def softmax_of_sums(a, b, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(a + at) + tl.trans(tl.load(b + tl.arange(0, N)[:, None] * M + tl.arange(0, M)))
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(out + at, e / tl.sum(e, axis=1)[:, None])


def _softmax(a: Any, b: Any) -> Any:
    e = np.exp((a + b.T).astype(np.float64))
    return e / e.sum(1, keepdims=True)


TILE = Case(
    softmax_of_sums,
    {"a": "*fp32", "b": "*fp32", "out": "*fp32"},
    {"M": 64, "N": 32},
    lambda: [normal(64, 32), normal(32, 64), empty(64, 32)],
    lambda a, b, out: [(2, _softmax(a, b))],
    1e-5,
    num_warps=1,
)


@triton.jit
def doubled(a, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(a + at) * 2)


@triton.jit
def counted(a, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_add(out + tl.load(a + at) % 8, 1)


COUNTS = Case(
    counted,
    {"a": "*i32", "out": "*i32"},
    {"N": 2048},
    lambda: [np.arange(2048, dtype=np.int32) ** 2 % 91, np.zeros(8, np.int32)],
    lambda a, out: [(1, np.bincount(a % 8, minlength=8))],
    num_warps=1,
)
ROW = Case(doubled, {"a": "*fp32", "out": "*fp32"}, {"N": 2048}, num_warps=1)


def test_a_large_tile_is_less_code_and_right(mark_ran_on: Any) -> None:
    asked, enlarged = (compiled(TILE, thread_elements=most) for most in (0, 32))
    assert (asked.num_warps, enlarged.num_warps) == (1, 4)
    assert enlarged.block[0] == 4 * enlarged.warp_size
    assert len(enlarged.binary) < 0.5 * len(asked.binary)
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    check(TILE, enlarged, "softmax_of_sums")


def test_a_block_of_one_warp_that_becomes_one_thread_stays_that() -> None:
    assert compiled(ROW, lanes="vectors").block == (1, 1, 1)
    assert compiled(ROW, lanes="threads").block == (64, 1, 1)


def test_a_block_of_one_warp_that_cannot_become_one_thread_gets_warps(mark_ran_on: Any) -> None:
    """Its atomics are of single lanes."""
    artifact = compiled(COUNTS, lanes="vectors", thread_elements=32)
    assert artifact.num_warps == 4
    assert artifact.block == (64, 1, 1)
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    check(COUNTS, artifact, "counted")


ROWS = (1, (64, 64))
SUM = (64, 64)
MANY, SOME = 64 * 128, 64 * 64


@pytest.mark.parametrize(
    ("work", "wanted", "expected"),
    [
        pytest.param(Work(), 4, 4, id="no_tensor"),
        pytest.param(Work(128), 4, 4, id="few_elements"),
        pytest.param(Work(MANY), 4, 16, id="many_elements"),
        pytest.param(Work(SOME), 4, 4, id="some_elements"),
        pytest.param(Work(SOME, sums=[SUM]), 4, 8, id="some_elements_and_a_dot"),
        pytest.param(Work(1 << 20), 4, 32, id="no_end_of_warps"),
        pytest.param(Work(1 << 20), 64, 64, id="never_fewer_than_asked_for"),
        pytest.param(Work(SOME, [ROWS]), 4, 4, id="one_reduction"),
        pytest.param(Work(SOME, [ROWS] * 3), 4, 16, id="reductions"),
        pytest.param(Work(128, [(1, (64, 2))] * 3), 1, 1, id="reductions_of_few"),
        pytest.param(Work(512, [(3, (2,) * 9)] * 45), 1, 8, id="a_sort"),
        pytest.param(Work(SOME, [ROWS], [SUM]), 8, 8, id="a_reduction_and_a_dot"),
        pytest.param(Work(SOME, [ROWS] * 3, [SUM]), 8, 32, id="reductions_and_a_dot"),
        pytest.param(
            Work(2048 * 16, sums=[(16, 16)]), 1, 16, id="no_more_threads_than_a_dot_has_sums"
        ),
        pytest.param(
            Work(8 * 16 * 512, sums=[(8, 16, 8)]), 1, 8, id="sums_of_one_matrix_of_a_batch"
        ),
    ],
)
def test_warps_of_a_block(work: Work, wanted: int, expected: int) -> None:
    assert num_warps(work, wanted, warp_size=16, thread_elements=32) == expected
    assert num_warps(work, wanted, warp_size=16, thread_elements=0) == wanted


def test_the_work_of_a_module() -> None:
    text = """module {
  tt.func public @f(%p: tensor<64x32x!tt.ptr<f32>>, %x: tensor<16x8xi32>) {
    %0 = tt.load %p : tensor<64x32x!tt.ptr<f32>>
    %1 = "tt.reduce"(%0) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tt.reduce.return %s : f32
    }) : (tensor<64x32xf32>) -> tensor<64xf32>
    %2 = "tt.scan"(%0) <{axis = 0 : i32, reverse = false}> ({
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tt.scan.return %s : f32
    }) : (tensor<64x32xf32>) -> tensor<64x32xf32>
    %3 = tt.trans %0 {order = array<i32: 1, 0>} : tensor<64x32xf32> -> tensor<32x64xf32>
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %4 = tt.dot %0, %3, %zero : tensor<64x32xf32> * tensor<32x64xf32> -> tensor<64x64xf32>
    tt.return
  }
}
"""
    work = work_of(read_module(text, amd.load_dialects))
    shape = (64, 32)
    assert work == Work(64 * 64, [(1, shape), (0, shape)], [(64, 64)], False)
