"""Blocks of one warp as one thread of vectors: right results, and the same as of many threads."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xtarget._values.types import Artifact, Target
from xtarget.targets import cpu, intel
from xtarget.targets._binaries.spirv import read_entry_points

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")

sys.path.insert(0, str(Path(__file__).parent))
import spirv_kernels
import spirv_run
import test_spirv
import vector_kernels
import vector_torture
from spirv_cases import Case
from spirv_requests import request
from spirv_run import compiled
from spirv_words import loads_vectors, stores_past_the_caches

import xtarget

CPU, INTEL = Target("cpu", "spirv64"), Target("intel", "spirv64")
#: Those of Triton's language, at one warp of 16.
LANGUAGE = {
    name: replace(case, num_warps=1, warp_size=16)
    for name, case in spirv_kernels.CASES.items()
    if case.expect and case.warp_size == 16
}
#: What every run looks at; the others of the language are long tests.
QUICK = ("add_fp32", "rounded_right", "denormal_product")


def run(case: Any, artifact: Artifact) -> list[Any]:
    arguments = case.given()
    spirv_run.launch(artifact, arguments, case.grid)
    return arguments


@pytest.mark.parametrize("name", vector_kernels.CASES)
def test_lanes_that_part_or_lie_apart(name: str) -> None:
    case = replace(vector_kernels.CASES[name], num_warps=1)
    artifact = compiled(case, lanes="vectors")
    assert artifact.warp_size == 1, "it stayed a block of many threads"
    test_spirv.check_result(case, artifact, name)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in LANGUAGE],
)
def test_the_language_as_vectors(name: str) -> None:
    artifact = compiled(LANGUAGE[name], lanes="vectors")
    test_spirv.check_result(LANGUAGE[name], artifact, name)


@pytest.mark.parametrize("name", vector_torture.CASES)
def test_the_same_as_with_threads(name: str) -> None:
    case = replace(vector_torture.CASES[name], num_warps=1, warp_size=16)
    arguments = case.given()
    found = []
    for lanes in ("threads", "vectors"):
        artifact = compiled(case, lanes=lanes)
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        spirv_run.launch(artifact, given, case.grid)
        found.append(given)
        for index, expected in case.expect(*arguments) if case.expect else ():
            spirv_run.assert_close(given[index], expected, case.tolerance, f"{name} {lanes}")
    for index, (threads, vectors) in enumerate(zip(*found, strict=True)):
        assert same_bits(threads, vectors), f"{name}, argument {index}"


@pytest.mark.parametrize(
    ("first", "block", "aligned"), [(0, 64, 16), (8, 64, 16), (2, 64, 8), (0, 2, 4), (1, 64, 4)]
)
def test_stores_past_the_caches_say_how_they_are_aligned(
    first: int, block: int, aligned: int
) -> None:
    case = Case(
        vector_kernels.past_the_caches_at,
        {"x": "*fp32", "o": "*fp32", "n": "i32"},
        {"FIRST": first, "B": block},
        num_warps=1,
    )
    plain = replace(request(case, lanes="vectors"), aligned=("x", "o"))
    artifact = cpu.create_compiler().compile(plain, CPU, keep_stages=True)
    found = re.findall(r"store <16 x .*align (\d+), !nontemporal", artifact.texts["llir"])
    assert {int(number) for number in found} == ({aligned} if block >= 16 else set())
    assert stores_past_the_caches(artifact.binary) == bool(found)
    unaligned = replace(plain, aligned=())
    texts = cpu.create_compiler().compile(unaligned, CPU, keep_stages=True).texts
    assert re.findall(r"align (\d+), !nontemporal", texts["llir"]) == ["4"] * len(found)


def test_stores_of_single_elements_stay_in_the_caches() -> None:
    case = replace(vector_kernels.CASES["every_second_past_the_caches"], num_warps=1)
    artifact = cpu.create_compiler().compile(request(case, lanes="vectors"), CPU, keep_stages=True)
    assert "nontemporal" not in artifact.texts["llir"]


def same_bits(a: Any, b: Any) -> bool:
    return bool(np.asarray(a).tobytes() == np.asarray(b).tobytes())


def test_a_block_is_one_thread_for_the_cpu_alone() -> None:
    case = replace(vector_kernels.CASES["row_sums"], num_warps=1)
    plain = replace(request(case), options=())
    artifact = cpu.create_compiler().compile(plain, CPU)
    (entry,) = read_entry_points(artifact.binary, (1, 4))
    assert entry.local_size == artifact.block == (1, 1, 1)
    assert entry.subgroup_size is None
    assert intel.create_compiler().compile(plain, INTEL).block == (32, 1, 1)


def test_a_warp_size_that_is_asked_for_is_kept() -> None:
    case = replace(vector_kernels.CASES["row_sums"], num_warps=1)
    assert compiled(case).block == (16, 1, 1)


def test_more_than_one_warp_stays_threads() -> None:
    case = replace(vector_kernels.CASES["row_sums"], num_warps=2)
    artifact = compiled(case, lanes="vectors")
    assert artifact.block == (32, 1, 1)
    test_spirv.check_result(case, artifact, "row_sums")


def test_a_matmul_has_the_same_bits_with_and_without_panels() -> None:
    test_spirv.device()
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in ((70, 93), (93, 75)))
    whole = xtarget.run("matmul", a, b, device="cpu:0")
    for rows in (2, 3, 5, 9):
        assert np.array_equal(whole[:rows], xtarget.run("matmul", a[:rows], b, device="cpu:0"))
    few_columns = xtarget.run("matmul", a, np.ascontiguousarray(b[:, :11]), device="cpu:0")
    assert np.array_equal(whole[:, :11], few_columns)


#: Calls of the library: arguments' shapes and options.
CALLS: dict[str, tuple[str, list[tuple[int, ...]], dict[str, Any]]] = {
    "add": ("add", [(4096,)] * 2, {}),
    "sum of all": ("sum", [(1 << 20,)], {}),
    "sums of rows": ("sum", [(64, 5000)], {"axis": 1}),
    "sums of columns": ("sum", [(5000, 64)], {"axis": 0}),
    "largest of columns": ("max", [(5000, 64)], {"axis": 0}),
    "softmax of short rows": ("softmax", [(64, 77)], {}),
    "softmax of long rows": ("softmax", [(64, 5000)], {}),
    "softmax of columns": ("softmax", [(5000, 64)], {"axis": 0}),
    "layer_norm": ("layer_norm", [(64, 5000), (5000,), (5000,)], {}),
    "matrix times matrix": ("matmul", [(200, 100), (100, 200)], {}),
    "three rows times matrix": ("matmul", [(3, 100), (100, 300)], {}),
    "matrix times vector": ("matmul", [(200, 100), (100,)], {}),
    "vector times matrix": ("matmul", [(100,), (100, 200)], {}),
}


@pytest.mark.parametrize("call", CALLS)
def test_the_library_loads_neighbours_at_once(call: str) -> None:
    """With every Triton: a kernel that stays one of many lanes, or loads lane by lane, takes ten
    times as long and gives no wrong number.
    """
    name, shapes, options = CALLS[call]
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    for artifact in xtarget.compile(name, *arrays, target="cpu:spirv64", **options):
        assert artifact.warp_size == 1, f"{artifact.entry} stayed one of many lanes"
        assert loads_vectors(artifact.binary), f"{artifact.entry} loads lane by lane"
