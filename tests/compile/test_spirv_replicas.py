"""What several threads of a block hold alike: a scalar, and a tensor smaller than the block."""

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
from spirv_kernels import Case
from spirv_run import check, compiled

from xtarget.targets._spirv.replicas import order_stores


@triton.jit
def count_up(x, total, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i) + 1
    tl.store(x + i, v)
    tl.store(total, tl.sum(v))


@triton.jit
def count_up_rows(x, o, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    for _ in range(3):
        v = tl.load(x + m) + 1
        tl.store(x + m, v)
        tl.store(o + m[:, None] * N + n[None, :], v[:, None] + n[None, :])


@triton.jit
def take_a_ticket(counter, o, B: tl.constexpr):
    mine = tl.load(counter)
    tl.store(counter, mine + 1)
    tl.store(o + tl.arange(0, B), mine + tl.zeros((B,), tl.int32))
    again = tl.load(counter)
    tl.store(o + B + tl.arange(0, B), again + tl.zeros((B,), tl.int32))


def ints(n: int) -> Any:
    return np.arange(n, dtype=np.int32)


SMALL = Case(
    count_up,
    {"x": "*i32", "total": "*i32"},
    {"B": 32},
    lambda: [ints(32), np.zeros(1, np.int32)],
    lambda x, total: [(0, x + 1), (1, [(x + 1).sum()])],
)
ROWS = Case(
    count_up_rows,
    {"x": "*i32", "o": "*i32"},
    {"M": 8, "N": 16},
    lambda: [ints(8), np.zeros((8, 16), np.int32)],
    lambda x, o: [(0, x + 3), (1, (x + 3)[:, None] + np.arange(16))],
)
SCALAR = Case(
    take_a_ticket,
    {"counter": "*i32", "o": "*i32"},
    {"B": 128},
    lambda: [np.full(1, 7, np.int32), np.zeros(256, np.int32)],
    lambda counter, o: [(0, [8]), (1, np.repeat([7, 8], 128))],
)


@pytest.mark.parametrize("num_warps", [1, 2, 4, 8])
@pytest.mark.parametrize("case", [SMALL, ROWS, SCALAR], ids=lambda case: case.fn.fn.__name__)
def test_all_have_loaded_before_one_stores(case: Case, num_warps: int) -> None:
    asked = replace(case, num_warps=num_warps)
    check(asked, compiled(asked), f"with {num_warps} warps")


HEAD = """\
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], \
order = [0]}>
#blocked1 = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], \
order = [1, 0]}>
#tall = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [16, 1], warpsPerCTA = [4, 1], \
order = [1, 0]}>
#linear = #ttg.linear<{register = [], lane = [[1], [2]], warp = [[4], [8]], block = []}>
"""


@pytest.mark.parametrize(
    ("operation", "ordered"),
    [
        ("tt.store %p, %v : tensor<64x!tt.ptr<f32>, #blocked> loc(#loc)", False),
        ("tt.store %p, %v, %m : tensor<32x!tt.ptr<f32>, #blocked>", True),
        ("tt.store %p, %v : !tt.ptr<f32> loc(#loc)", True),
        ("tt.store %p, %v : tensor<4x64x!tt.ptr<f32>, #blocked1>", False),
        ("tt.store %p, %v : tensor<2x64x!tt.ptr<f32>, #blocked1>", True),
        (
            "tt.store %p, %v : tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 0, parent = #blocked1}>>",
            True,
        ),
        (
            "tt.store %p, %v : tensor<4x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #blocked1}>>",
            True,
        ),
        (
            "tt.store %p, %v : tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #tall}>>",
            False,
        ),
        ("tt.store %p, %v : tensor<16x!tt.ptr<f32>, #linear>", True),  # not looked into
        (
            "%r = tt.atomic_rmw add, acq_rel, gpu, %p, %v, %m : (tensor<64x!tt.ptr<i32>, "
            "#blocked>, tensor<64xi32, #blocked>, tensor<64xi1, #blocked>) -> "
            "tensor<64xi32, #blocked>",
            False,
        ),
        ("%r = tt.atomic_cas acq_rel, gpu, %p, %c, %v : (!tt.ptr<i32>, i32, i32) -> i32", True),
        ("%r = tt.load %p : !tt.ptr<f32>", False),
    ],
)
def test_only_what_several_threads_hold_is_ordered(operation: str, ordered: bool) -> None:
    text = f"{HEAD}  {operation}\n"
    expected = f"{HEAD}  meet\n  {operation}\n  meet\n" if ordered else text
    assert order_stores(text, "meet") == expected
