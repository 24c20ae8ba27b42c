"""Every kernel compiles for every vendor's targets, without their hardware."""

from __future__ import annotations

import re
from typing import Any

import pytest
from operators import layouts, own, sampled, takes
from oracle import DTYPES

import xtarget
from xtarget.spec import ArrayType, contiguous_strides

pytest.importorskip("triton", reason="Triton is not installed")

TARGETS = ("nvidia:sm_90", "amd:gfx942", "amd:gfx1100", "intel:spirv64")
#: Shared memory that a block may have, bytes. Sources: CUDA C programming guide, "compute
#: capabilities" (sm_86: 99 KiB); AMD ISA guides (LDS: 64 KiB); OpenCL 3.0, 4.2 (at least 32 KiB).
SHARED = {"nvidia": 99 * 1024, "nvidia:sm_90": 227 * 1024, "amd": 64 * 1024, "intel": 32 * 1024}
BOTH_PATHS = {
    "softmax": 40_000,
    "layer_norm": 40_000,
    "rms_norm": 40_000,
    "sum": 2**24,
    "max": 2**24,
}
SHORT = {"float32", "float64", "bfloat16", "int8"}


def array(dtype: str, *shape: int) -> ArrayType:
    return ArrayType(dtype, shape, contiguous_strides(shape))


def arguments(name: str, dtype: str, length: int = 1000) -> list[ArrayType]:
    if name == "matmul":
        return [array(dtype, 1000, 500), array(dtype, 500, 700)]
    spec = xtarget.catalog()[name]
    if spec.elementwise:
        return layouts(spec, dtype, (length,))
    return layouts(spec, dtype, (1 if length >= 2**20 else 8, length))


def cases() -> list[Any]:
    """Names, dtypes, targets. In the short tier float32 for two of the targets in turn: that each
    serves all of them is seen by `ci/compile_all.py`."""
    result = []
    for number, (name, spec) in enumerate(own().items()):
        short = TARGETS[number % 2 :: 2]
        for dtype in spec.dtypes:
            if takes(spec, dtype):
                for target in TARGETS:
                    also = dtype != "float32" or target not in short
                    result.append(sampled(name, name, dtype, target, also=also))
    return result


def _check(artifact: Any, vendor: str) -> None:
    assert artifact.shared_bytes <= SHARED.get(str(artifact.target), SHARED[vendor])
    if vendor == "intel":
        assert artifact.format == "spirv"
        assert artifact.binary[:4] == b"\x03\x02\x23\x07"
    else:
        assert artifact.binary[:4] == b"\x7fELF"
        machine = int.from_bytes(artifact.binary[18:20], "little")
        assert machine == {"nvidia": 190, "amd": 224}[vendor]  # EM_CUDA, EM_AMDGPU


@pytest.mark.sample(3, each=("name", "target"))
@pytest.mark.parametrize(("name", "dtype", "target"), cases())
def test_compiles(name: str, dtype: str, target: str) -> None:
    calls = [arguments(name, dtype)]
    if name in BOTH_PATHS:
        calls.append(arguments(name, dtype, BOTH_PATHS[name]))
    for args in calls:
        artifacts = xtarget.compile(name, *args, target=target)
        for artifact in artifacts:
            _check(artifact, target.partition(":")[0])
        # a profiler shows the kernel under its own name, or that of the function that it shares
        c = own()[name].c
        if c is not None:
            named = {variant.source.rpartition(":")[2].rstrip(")") for variant in c.variants}
            assert artifacts[0].entry in named


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", sorted(SHORT - {"float32"}))
def test_one_of_each_family_compiles(dtype: str) -> None:
    """The short form of `test_compiles` for further dtypes."""
    for target in ("nvidia:sm_90", "amd:gfx942"):
        for name in ("add", "sum", "matmul", *(() if dtype == "int8" else ("softmax",))):
            for artifact in xtarget.compile(name, *arguments(name, dtype), target=target):
                _check(artifact, target.partition(":")[0])


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "name", [sampled(n, n) for n, spec in sorted(own().items()) if takes(spec, "float64")]
)
def test_nothing_in_a_float64_kernel_is_float32(name: str) -> None:
    calls = [{"approximate": a} for a in ("none", "tanh")] if name == "gelu" else [{}]
    for options in calls:
        for artifact in xtarget.compile(
            name, *arguments(name, "float64"), target="nvidia:sm_90", keep_stages=True, **options
        ):
            assert not re.search(r"\bf32\b", artifact.texts["ttir"])


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("add", [array("float32", 4096)] * 2),
        ("add", [array("float32", 64, 4096), array("float32", 4096)]),
        ("add", [ArrayType("float32", (64, 4096), (8192, 1)), array("float32", 64, 4096)]),
        ("mul", [array("bfloat16", 4096)] * 2),
        ("sum", [array("float32", 64, 4096)]),
        ("softmax", [array("float32", 4096)]),
        ("softmax", [array("float32", 64, 4096)]),
        ("layer_norm", [array("float32", 64, 4096), array("float32", 4096)]),
    ],
)
def test_neighbours_are_loaded_together(name: str, args: Any) -> None:
    """16 bytes by each thread: what a GPU needs to reach its memory's speed."""
    options = {"axis": 1} if name == "sum" else {}
    (artifact,) = xtarget.compile(name, *args, target="nvidia:sm_90", keep_stages=True, **options)
    loads = re.findall(r"ld\.global\S*", artifact.texts["ptx"])
    assert loads
    assert all(".v4.b32" in load for load in loads), loads


def test_a_column_sum_reads_along_memory() -> None:
    (artifact,) = xtarget.compile(
        "sum", array("float32", 64, 4096), axis=0, target="nvidia:sm_90", keep_stages=True
    )
    assert ".v4.b32" in artifact.texts["ptx"]


def test_indices_are_64_bits_wide_only_for_large_arrays() -> None:
    for size, type_ in ((2**20, "i32"), (2**33, "i64")):
        (artifact,) = xtarget.compile("add", *[array("int8", size)] * 2, target="nvidia:sm_90")
        assert {p.name: p.type for p in artifact.parameters}["n"] == type_


def test_float32_division_is_correctly_rounded_everywhere() -> None:
    args = [array("float32", 1000)] * 2
    (nvidia,) = xtarget.compile("div", *args, target="nvidia:sm_90", keep_stages=True)
    assert "div.rn.f32" in nvidia.texts["ptx"]
    for target in TARGETS:
        (artifact,) = xtarget.compile("div", *args, target=target, keep_stages=True)
        assert "tt.precise_divf" in artifact.texts["ttir"]


def test_a_sum_of_everything_reads_16_bytes_by_each_thread() -> None:
    artifacts = xtarget.compile(
        "sum", array("float32", 2**24), target="nvidia:sm_90", keep_stages=True
    )
    assert len(artifacts) == 2
    assert ".v4.b32" in artifacts[0].texts["ptx"]


def test_a_matmul_copies_ahead_of_its_products() -> None:
    """In flight while the matrix units work: without it they idle six sevenths of the time."""
    for copies, *args in (
        ("cp.async.bulk.tensor", *[array("bfloat16", 4096, 4096)] * 2),
        ("cp.async.cg.shared.global", *[array("bfloat16", 8, 1024, 1024)] * 2),
        (
            "cp.async.bulk.tensor",
            ArrayType("bfloat16", (4096, 4096), (1, 4096)),
            array("bfloat16", 4096, 4096),
        ),
    ):
        (nvidia,) = xtarget.compile("matmul", *args, target="nvidia:sm_90", keep_stages=True)
        assert copies in nvidia.texts["ptx"]
        assert "cp.async.ca.shared.global" not in nvidia.texts["ptx"]
        assert "wgmma.wait_group.sync.aligned 1" in nvidia.texts["ptx"]


def test_matrix_units_are_used() -> None:
    for dtype in ("float16", "bfloat16"):
        args = [array(dtype, 4096, 4096)] * 2
        (nvidia,) = xtarget.compile("matmul", *args, target="nvidia:sm_90", keep_stages=True)
        assert "wgmma" in nvidia.texts["ptx"]
        assert not nvidia.resources.spilled_registers
        (amd,) = xtarget.compile("matmul", *args, target="amd:gfx942", keep_stages=True)
        assert "v_mfma" in amd.texts["amdgcn"]
        (amd,) = xtarget.compile("matmul", *args, target="amd:gfx1100", keep_stages=True)
        assert "v_wmma" in amd.texts["amdgcn"]


def test_every_dtype_is_tried() -> None:
    assert {p.values[1] for p in cases()} == {*DTYPES, "float8_e4m3fn", "float8_e5m2"}


def test_a_matmul_for_intel_has_warps_that_do_not_spill() -> None:
    sizes = {
        name: xtarget.compile(name, *arguments(name, "float32"), target="intel:spirv64")[0]
        for name in ("add", "matmul")
    }
    assert {name: made.warp_size for name, made in sizes.items()} == {"add": 32, "matmul": 16}
