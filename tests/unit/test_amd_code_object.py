"""Reading code objects and laying out arguments, on hand-made files: no Triton, no GPU."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loading import load_file

from xtarget._values.errors import LoadError
from xtarget._values.types import Parameter, Resources
from xtarget.targets.amd import kernarg
from xtarget.targets.amd.code_object import CodeObject, check_agreement

_PATH = Path(__file__).parents[1] / "hip_standin" / "hsaco.py"
hsaco = load_file(_PATH, name="hip_standin_hsaco")

C_TYPES = {
    "*fp32": ctypes.c_void_p,
    "i1": ctypes.c_uint8,
    "u1": ctypes.c_uint8,
    "i8": ctypes.c_int8,
    "u8": ctypes.c_uint8,
    "i16": ctypes.c_int16,
    "u16": ctypes.c_uint16,
    "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32,
    "i64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
    "fp16": ctypes.c_uint16,
    "bf16": ctypes.c_uint16,
    "fp32": ctypes.c_float,
    "fp64": ctypes.c_double,
}


@given(st.lists(st.sampled_from(sorted(C_TYPES)), max_size=20))
def test_the_layout_is_that_of_a_c_struct(types):
    parameters = [Parameter(f"p{i}", t) for i, t in enumerate([*types, "*fp32"])]

    class Mirror(ctypes.Structure):
        _fields_ = tuple((p.name, C_TYPES[p.type]) for p in parameters)

    fields = kernarg.layout(parameters)
    for parameter, field in zip(parameters, fields, strict=True):
        mirror = getattr(Mirror, parameter.name)
        assert (field.offset, field.size) == (mirror.offset, mirror.size)
    assert kernarg.segment_bytes(fields) == ctypes.sizeof(Mirror)
    assert kernarg.packer(parameters, "6Q").size == 48 + ctypes.sizeof(Mirror)


def test_what_is_read():
    artifact = hsaco.artifact()
    code = CodeObject.parse(artifact.binary)
    assert (code.arch, code.xnack, code.sramecc) == ("gfx942", "any", "any")
    kernel = check_agreement(artifact, code)
    assert kernel.name == "add"
    assert [(a.offset, a.size, a.kind) for a in kernel.arguments] == [
        (0, 8, "global_buffer"),
        (8, 8, "global_buffer"),
        (16, 8, "global_buffer"),
        (24, 4, "by_value"),
        (32, 8, "global_buffer"),
        (40, 8, "global_buffer"),
    ]
    assert (kernel.kernarg_bytes, kernel.max_threads, kernel.wavefront_size) == (48, 256, 64)
    assert kernel.resources == Resources(
        registers=9,
        scalar_registers=18,
        accumulator_registers=2,
        spilled_registers=7,
        local_bytes=12,
        static_shared_bytes=0,
    )


@pytest.mark.parametrize(
    ("flags", "xnack", "sramecc"),
    [
        (0x4C, "unsupported", "unsupported"),
        (0x74C, "on", "any"),
        (0x64C, "off", "any"),
        (0xD4C, "any", "on"),
        (0x94C, "any", "off"),
    ],
)
def test_demands_on_the_device(flags, xnack, sramecc):
    code = CodeObject.parse(hsaco.artifact(flags=flags).binary)
    assert (code.xnack, code.sramecc) == (xnack, sramecc)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": 3}, r"\.name of a kernel is 3 instead of text"),
        ({"args": 3}, r"\.args of a kernel is 3 instead of a list"),
        ({"args": [3]}, r"an argument is 3 instead of a map"),
        ({"args": [{}]}, r"\.offset of an argument is None instead of a size"),
        ({"vgpr_count": "many"}, r"\.vgpr_count of a kernel is 'many' instead of a size"),
    ],
)
def test_metadata_of_wrong_types(changes, sentence):
    with pytest.raises(LoadError, match=sentence):
        CodeObject.parse(hsaco.artifact(**changes).binary)


def test_other_machines_and_missing_metadata():
    cubin = hsaco.elf([], flags=0, machine=190)
    with pytest.raises(LoadError, match=r"machine 190.*224 \(AMD GPU\)"):
        CodeObject.parse(cubin)
    bare = hsaco.elf([], flags=0x54C).replace(b"AMDGPU\0\0", b"AMDXPU\0\0")
    with pytest.raises(LoadError, match="no AMDGPU metadata note"):
        CodeObject.parse(bare)
    artifact = hsaco.artifact()
    with pytest.raises(LoadError, match="a kernel should be add, and the binary says none"):
        check_agreement(artifact, CodeObject.parse(hsaco.elf([], flags=0x54C)))


@given(st.data())
def test_damaged_files_are_refused_or_read(data):
    binary = bytearray(hsaco.artifact().binary)
    for _ in range(data.draw(st.integers(1, 4))):
        binary[data.draw(st.integers(0, len(binary) - 1))] = data.draw(st.integers(0, 255))
    message = ""
    try:
        CodeObject.parse(bytes(binary[: data.draw(st.integers(len(binary) // 2, len(binary)))]))
    except LoadError as error:
        message = str(error)
    assert message == "" or message.endswith((".", "…"))
