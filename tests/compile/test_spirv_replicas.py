"""Values that several threads of a block share: scalars, and tensors smaller than the block."""

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

import triton
import triton.language as tl
from triton._C.libtriton import amd

sys.path.insert(0, str(Path(__file__).parent))
from spirv_cases import Case
from spirv_run import check, compiled

from xtarget import CompileError
from xtarget.targets._spirv.frontend.replicas import (
    HARMLESS,
    WRITES,
    is_known,
    is_replicated,
    order_stores,
)
from xtarget.targets._spirv.frontend.structure import operations
from xtarget.targets._spirv.frontend.types import read_type
from xtarget.targets._triton.reason import read_module


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


@triton.jit
def take_a_ticket_atomically(counter, o, B: tl.constexpr):
    mine = tl.load(counter)
    tl.atomic_store(counter, mine + 1, sem="relaxed")
    tl.store(o + tl.arange(0, B), mine + tl.zeros((B,), tl.int32))
    again = tl.load(counter)
    tl.store(o + B + tl.arange(0, B), again + tl.zeros((B,), tl.int32))


@triton.jit
def count_atomically(counter, o, B: tl.constexpr):
    v = 0
    for _ in range(3):
        v = tl.atomic_load(counter, sem="relaxed")
        tl.atomic_store(counter, v + 1, sem="relaxed")
        tl.atomic_xchg(counter + 1, tl.load(counter + 1) + 1, sem="relaxed")
    i = tl.arange(0, B)
    tl.store(o + i, v + tl.zeros((B,), tl.int32))
    tl.atomic_store(o + B + i, tl.load(o + B + i) + 1, sem="relaxed")


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


CASES = [SMALL, ROWS, SCALAR]
if hasattr(tl, "atomic_store"):
    CASES.append(replace(SCALAR, fn=take_a_ticket_atomically))
    CASES.append(
        Case(
            count_atomically,
            {"counter": "*i32", "o": "*i32"},
            {"B": 32},
            lambda: [np.array([7, 20], np.int32), np.zeros(64, np.int32)],
            lambda counter, o: [(0, [10, 23]), (1, [9] * 32 + [1] * 32)],
        )
    )


@pytest.mark.sample(2, each=("case", "num_warps"))
@pytest.mark.parametrize("num_warps", [1, 2, 4, 8])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fn.fn.__name__)
def test_all_have_loaded_before_one_stores(case: Case, num_warps: int) -> None:
    asked = replace(case, num_warps=num_warps)
    check(asked, compiled(asked), f"with {num_warps} warps")


BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>"
)
WIDE = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], "
    "order = [1, 0]}>"
)
TALL = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [16, 1], warpsPerCTA = [4, 1], "
    "order = [1, 0]}>"
)
LINEAR = "#ttg.linear<{register = [], lane = [[1], [2]], warp = [[4], [8]], block = []}>"


@pytest.mark.parametrize(
    ("pointers", "replicated"),
    [
        (f"tensor<64x!tt.ptr<f32>, {BLOCKED}>", False),
        (f"tensor<32x!tt.ptr<f32>, {BLOCKED}>", True),
        ("!tt.ptr<f32>", True),
        (f"tensor<4x64x!tt.ptr<f32>, {WIDE}>", False),
        (f"tensor<2x64x!tt.ptr<f32>, {WIDE}>", True),
        (f"tensor<64x!tt.ptr<f32>, #ttg.slice<{{dim = 0, parent = {WIDE}}}>>", True),
        (f"tensor<4x!tt.ptr<f32>, #ttg.slice<{{dim = 1, parent = {WIDE}}}>>", True),
        (f"tensor<64x!tt.ptr<f32>, #ttg.slice<{{dim = 1, parent = {TALL}}}>>", False),
        (f"tensor<16x!tt.ptr<f32>, {LINEAR}>", True),  # not looked into
    ],
)
def test_elements_of_several_threads(pointers: str, replicated: bool) -> None:
    assert is_replicated(read_type(pointers)) is replicated


def ordered(operation: str) -> list[str]:
    """Names of the operations of a function with this operation, after `order_stores`."""
    text = f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, \
ttg.target = "hip:gfx1100", "ttg.threads-per-warp" = 16 : i32}} {{
  tt.func public @f(%p: !tt.ptr<i32>, %q: tensor<64x!tt.ptr<i32>, {BLOCKED}>,
      %v: i32, %w: tensor<64xi32, {BLOCKED}>, %m: tensor<64xi1, {BLOCKED}>, %true: i1,
      %l: !llvm.ptr) {{
    {operation} loc("/a/kernel.py":12:5)
    tt.return
  }}
}}
"""
    module = read_module(text, amd.load_dialects)
    order_stores(module)
    assert module.verify()
    return [each.name for each in operations(module)]


@pytest.mark.parametrize(
    ("operation", "has_barriers"),
    [
        ("tt.store %p, %v : !tt.ptr<i32>", True),
        (f"tt.store %q, %w : tensor<64x!tt.ptr<i32>, {BLOCKED}>", False),
        (
            f"%r = tt.atomic_rmw add, acq_rel, gpu, %q, %w, %m : (tensor<64x!tt.ptr<i32>, "
            f"{BLOCKED}>, tensor<64xi32, {BLOCKED}>, tensor<64xi1, {BLOCKED}>) -> "
            f"tensor<64xi32, {BLOCKED}>",
            False,
        ),
        ("%r = tt.atomic_cas acq_rel, gpu, %p, %v, %v : (!tt.ptr<i32>, i32, i32) -> i32", True),
        ("%r = tt.load %p : !tt.ptr<i32>", False),
        ("%r:2 = arith.mulsi_extended %v, %v : i32", False),
    ],
)
def test_only_what_several_threads_hold_is_ordered(operation: str, has_barriers: bool) -> None:
    name = re.findall(r"\w+\.\w+", operation)[0]
    names = ordered(operation)
    assert names[-3:] == ["tt.return", "tt.func", "builtin.module"]
    if has_barriers:
        before, what, behind = names[:-3]
        assert what == name
        assert before == behind
        assert before in ("ttg.barrier", "gpu.barrier")
    else:
        assert names[:-3] == [name]


@pytest.mark.parametrize(
    "operation",
    [
        "llvm.store %v, %l : i32, !llvm.ptr",
        "%r = ttg.async_commit_group",
    ],
)
def test_an_operation_of_unknown_effect_is_an_error(operation: str) -> None:
    (name,) = re.findall(r"(?<![!\w])[a-z]+\.\w+", operation)[:1]
    with pytest.raises(CompileError, match=rf"{re.escape(name)} in kernel\.py:12"):
        ordered(operation)


@pytest.mark.parametrize(
    "name",
    [
        *("tt.atomic_swap", "tt.new_store", "tt.descriptor_store", "amdg.buffer_store"),
        "ttg.async_copy_global_to_local",
    ],
)
def test_effects_that_are_not_known(name: str) -> None:
    assert not is_known(name)


#: What else begins with `tt.` in Triton: attributes, types, operations that are gone by then, and
#: (the last one) pieces of names that a compiler compares by words.
OTHERS = {
    *("constancy", "contiguity", "pointee_type", "divisibility", "pointer_range", "ptr", "latency"),
    *("tensordesc", "nv_tma_desc", "cache_policy", "desired_encoding", "flatten", "num_stages"),
    *("disallow_acc_multi_buffer", "loop_schedule", "loop_unroll_factor", "scheduled_max_stage"),
    *(
        "self_latency",
        "warp_specialize",
        "descriptor_gather",
        "descriptor_load",
        "descriptor_store",
    ),
    *("descriptor_reduce", "descriptor_scatter", "make_tensor_descriptor", "make_tensor_ptr"),
    *("grid_dependency_launch_dependents", "grid_dependency_wait"),
    *("descriptor_gase",),
}


def test_every_operation_of_this_triton_is_known() -> None:
    """Else one that a newer Triton has would be refused, and nobody would have decided that."""
    from triton._C import libtriton

    content = Path(libtriton.__file__).read_bytes()
    found = {name.decode() for name in re.findall(rb"(?<=\0)tt\.[a-z_]{2,40}(?=\0)", content)}
    assert {"tt.load", "tt.store", "tt.reduce", "tt.make_range"} <= found
    assert found - WRITES - HARMLESS - {f"tt.{name}" for name in OTHERS} == set()
