"""The SPIR-V reader: what it reads, and that no bytes get past it or crash it."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xtarget import LaunchError, LoadError, OutOfResourcesError
from xtarget._values.types import Artifact, DeviceInfo, Parameter, Target
from xtarget.targets._binaries.spirv import (
    EntryPoint,
    check_local_size,
    check_spirv,
    read_entry_points,
)
from xtarget.targets._objects.module import check_block

TARGET = Target("cpu", "spirv64")


def _op(opcode: int, *operands: int) -> bytes:
    return struct.pack(f"<{1 + len(operands)}I", (1 + len(operands)) << 16 | opcode, *operands)


def _text(text: str) -> tuple[int, ...]:
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


def _module(version: int = 0x00010400, name: str = "add") -> bytes:
    """A kernel (float pointer, i32, half) of 64 threads in sub-groups of 16; ids 1 to 9."""
    return b"".join(
        (
            struct.pack("<5I", 0x07230203, version, 0, 10, 0),
            _op(15, 6, 9, *_text(name)),  # OpEntryPoint Kernel
            _op(16, 9, 17, 64, 1, 1),  # OpExecutionMode LocalSize
            _op(16, 9, 35, 16),  # OpExecutionMode SubgroupSize
            _op(19, 1),  # OpTypeVoid
            _op(21, 2, 32, 0),  # OpTypeInt
            _op(22, 3, 32),  # OpTypeFloat
            _op(22, 4, 16),
            _op(32, 5, 5, 3),  # OpTypePointer CrossWorkgroup
            _op(33, 6, 1, 5, 2, 4),  # OpTypeFunction
            _op(54, 1, 9, 0, 6),  # OpFunction
            _op(56),  # OpFunctionEnd
        )
    )


MODULE = _module()
ENTRY = EntryPoint("add", ("pointer", "int32", "float16"), (64, 1, 1), 16)
ARTIFACT = Artifact(
    target=TARGET,
    format="spirv",
    entry="add",
    binary=MODULE,
    num_warps=4,
    warp_size=16,
    shared_bytes=0,
    parameters=(Parameter("x", "*fp32"), Parameter("n", "i32"), Parameter("h", "fp16")),
)


def test_reads_the_entry() -> None:
    assert read_entry_points(MODULE) == (ENTRY,)
    assert check_spirv(ARTIFACT, TARGET, "cpu:0", (1, 4), fp64=True) == ENTRY


@pytest.mark.parametrize("name", ["a", "abc", "abcd", "with.dots_and_1234567890", "ä"])
def test_names_of_every_length(name: str) -> None:
    assert read_entry_points(_module(name=name))[0].name == name


def test_pointer_may_travel_as_an_integer() -> None:
    module = MODULE.replace(_op(32, 5, 5, 3), _op(21, 5, 64, 0))
    entry = check_spirv(replace(ARTIFACT, binary=module), TARGET, "cpu:0", (1, 4), fp64=True)
    assert entry.parameters[0] == "int64"


@pytest.mark.parametrize(
    ("binary", "says"),
    [
        (b"", "0 bytes"),
        (MODULE[:16], "16 bytes"),
        (MODULE + b"\0", "multiple of 4"),
        (bytes(400), "00000000"),
        (MODULE[::-1], "magic"),
        (_module(version=0x00010500), r"1\.5.*up to 1\.4"),
        (_module(version=0x01010400), "SPIR-V"),
        (MODULE[:20], "cut off"),
        (MODULE[:-4], "cut off"),
        (MODULE[:40], "past the end"),
        (MODULE + bytes(4), "no length"),
        (MODULE[:12] + bytes(4) + MODULE[16:], "no ids"),
        (MODULE.replace(_op(21, 2, 32, 0), _op(21, 2) + _op(0) * 2), "too short"),
    ],
)
def test_damaged_modules(binary: bytes, says: str) -> None:
    with pytest.raises(LoadError, match=says):
        read_entry_points(binary, (1, 4))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tail: bytes) -> None:
    for binary in (tail, MODULE[:20] + tail, MODULE + tail):
        try:
            entries = read_entry_points(binary)
        except LoadError:
            continue
        assert all(isinstance(entry, EntryPoint) for entry in entries)


@given(st.integers(0, len(MODULE) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_read_or_refused(at: int, change: int) -> None:
    binary = bytearray(MODULE)
    binary[at] ^= change
    try:
        check_spirv(replace(ARTIFACT, binary=bytes(binary)), TARGET, "cpu:0", (1, 4), fp64=True)
    except LoadError:
        return


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "cubin"}, "cubin"),
        ({"target": Target("nvidia", "sm_90")}, "nvidia:sm_90"),
        ({"entry": "sub"}, r"no such entry.*add"),
        ({"parameters": ARTIFACT.parameters[:2]}, r"\*fp32, i32.*pointer, int32, float16"),
        (
            {"parameters": (*ARTIFACT.parameters[:2], Parameter("h", "fp32"))},
            r"fp32.*float16",
        ),
        ({"parameters": ARTIFACT.parameters[::-1]}, "parameters"),
    ],
)
def test_artifact_and_module_must_agree(change: dict[str, object], says: str) -> None:
    with pytest.raises(LoadError, match=says):
        check_spirv(replace(ARTIFACT, **change), TARGET, "cpu:0", (1, 4), fp64=True)  # type: ignore[arg-type]


def test_float64_where_there_is_none() -> None:
    module = MODULE[:20] + _op(17, 6) + _op(17, 10) + MODULE[20:]  # OpCapability Kernel, Float64
    artifact = replace(ARTIFACT, binary=module)
    assert check_spirv(artifact, TARGET, "cpu:0", (1, 4), fp64=True).fp64
    with pytest.raises(LoadError, match=r"add cannot be loaded on cpu:0: .*float64.*float32"):
        check_spirv(artifact, TARGET, "cpu:0", (1, 4), fp64=False)
    assert check_spirv(ARTIFACT, TARGET, "cpu:0", (1, 4), fp64=False) == ENTRY


INFO = DeviceInfo("cpu:0", TARGET, "A CPU", 1 << 30, 4, "1", 16, 1024, 32768)


def test_block_that_fits() -> None:
    check_block(ARTIFACT, INFO)
    check_block(ARTIFACT, INFO, most_threads=64, static_shared=32768 - ARTIFACT.shared_bytes)
    check_local_size(ARTIFACT, ENTRY)
    check_local_size(ARTIFACT, replace(ENTRY, local_size=None))


@pytest.mark.parametrize(
    ("change", "kernel_threads", "kind", "says"),
    [
        ({"num_warps": 128}, 0, OutOfResourcesError, "2048.*1024.*num_warps"),
        ({}, 32, OutOfResourcesError, "64.*32.*num_warps"),
        ({"shared_bytes": 32769}, 0, OutOfResourcesError, "32769.*32768.*BLOCK"),
        ({"num_warps": 2}, 0, LaunchError, r"\(32, 1, 1\).*\(64, 1, 1\)"),
    ],
)
def test_block_that_does_not(
    change: dict[str, int], kernel_threads: int, kind: type[Exception], says: str
) -> None:
    changed = replace(ARTIFACT, **change)  # type: ignore[arg-type]

    def check() -> None:
        check_block(changed, INFO, most_threads=kernel_threads)
        check_local_size(changed, ENTRY)

    with pytest.raises(kind, match=says):
        check()
