"""Kernels to hsaco with the installed Triton, no ROCm and no GPU: is the file what we say it is?"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loading import load_file

from xtarget._devices import registry
from xtarget._values.errors import CompileError, LoadError, UnknownTargetError
from xtarget._values.types import CompileRequest, KernelSource, Target
from xtarget.targets.amd.code_object import MACHS, CodeObject, check_agreement

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")

KERNELS = Path(__file__).with_name("amd_kernels.py")
#: Numbers of LLVM's table "AMDGPU e_flags machine", typed in apart from the code's own table.
MACH = {
    "gfx90a": 0x3F,
    "gfx942": 0x4C,
    "gfx950": 0x4F,
    "gfx1100": 0x41,
    "gfx1101": 0x46,
    "gfx1201": 0x4E,
    "gfx1250": 0x49,
}
SCALARS = (
    ("o", "*fp64"),
    ("p1", "i1"),
    ("p8", "i8"),
    ("p16", "i16"),
    ("p32", "i32"),
    ("p64", "i64"),
    ("h", "fp16"),
    ("b", "bf16"),
    ("f", "fp32"),
    ("d", "fp64"),
    ("shape", ("i32", "i64")),
)
POINTER = "global_buffer"
VALUE = "by_value"


@cache
def library():
    return load_file(KERNELS, register=True)


def request(kernel, signature, constants=(), **how):
    source = KernelSource(kernel, "0" * 64, str(KERNELS), lambda: getattr(library(), kernel))
    pointers = tuple(n for n, t in signature if isinstance(t, str) and t.startswith("*"))
    return CompileRequest(source, signature, constants, pointers, **how)


def add(dtype="fp32", **how):
    signature = (*((n, f"*{dtype}") for n in "abo"), ("n", "i32"), ("block", "constexpr"))
    return request("add", signature, (("block", 256),), **how)


def product(dtype, size=32, kernel="product", **how):
    signature = (
        ("a", f"*{dtype}"),
        ("b", f"*{dtype}"),
        ("o", "*fp32"),
        ("n", "i32"),
        ("size", "constexpr"),
    )
    return request(kernel, signature, (("size", size),), **how)


def product_as_tf32():
    signature = (("a", "*fp32"), ("b", "*fp32"), ("o", "*fp32"), ("size", "constexpr"))
    return request("product_as_tf32", signature, (("size", 32),))


def softmax(**how):
    signature = (
        ("x", "*bf16"),
        ("o", "*bf16"),
        ("stride", "i32"),
        ("n", "i32"),
        ("block", "constexpr"),
    )
    return request("softmax", signature, (("block", 1024),), **how)


def build(wanted, arch="gfx942", **how):
    return registry.compiler("amd").compile(wanted, Target("amd", arch), **how)


REQUESTS = {
    "add": add(),
    "scalars": request("scalars", SCALARS),
    "softmax": softmax(num_warps=8),
    "product-fp16": product("fp16"),
    "product-fp32": product("fp32", num_warps=2, num_stages=1),
}


@pytest.mark.sample(3, each=("name", "arch"))
@pytest.mark.parametrize("arch", MACH)
@pytest.mark.parametrize("name", REQUESTS)
def test_an_hsaco_is_what_the_artifact_says(name, arch):
    wanted = REQUESTS[name]
    artifact = build(wanted, arch)
    machine, flags = struct.unpack_from("<H", artifact.binary, 18)[0], artifact.binary[48]
    assert artifact.binary[:4] == b"\x7fELF"
    assert machine == 224
    assert flags == MACH[arch]
    assert artifact.format == "hsaco"
    assert artifact.entry == wanted.source.name
    warp = 64 if arch.startswith("gfx9") else 32
    assert artifact.block == (wanted.num_warps * warp, 1, 1)
    code = CodeObject.parse(artifact.binary)
    kernel = check_agreement(artifact, code)
    assert (code.arch, kernel.wavefront_size) == (arch, warp)
    assert kernel.max_threads == wanted.num_warps * warp
    mine = [a for a in kernel.arguments if not a.hidden]
    assert len(mine) == len(artifact.parameters)
    assert (kernel.arguments != tuple(mine)) == (kernel.kernarg_bytes > mine[-1].offset + 8)
    assert [p.hidden for p in artifact.parameters[-2:]] == ["global_scratch", "profile_scratch"]
    assert artifact.resources == kernel.resources
    assert artifact.resources.registers > 0
    assert artifact.resources.static_shared_bytes == 0  # all of it is asked for at launch
    assert (artifact.shared_bytes > 0) == (name not in ("add", "scalars"))
    assert artifact.texts == {}


def test_every_scalar_has_its_place():
    artifact = build(REQUESTS["scalars"])
    (kernel,) = CodeObject.parse(artifact.binary).kernels.values()
    assert [(a.offset, a.size, a.kind) for a in kernel.arguments] == [
        (0, 8, POINTER),
        (8, 1, VALUE),
        (9, 1, VALUE),
        (10, 2, VALUE),
        (12, 4, VALUE),
        (16, 8, VALUE),
        (24, 2, VALUE),
        (26, 2, VALUE),
        (28, 4, VALUE),
        (32, 8, VALUE),
        (40, 4, VALUE),
        (48, 8, VALUE),
        (56, 8, POINTER),
        (64, 8, POINTER),
    ]
    assert kernel.kernarg_bytes == 72
    names = [p.name for p in artifact.parameters]
    assert names[-4:] == ["shape.0", "shape.1", "global_scratch", "profile_scratch"]


@pytest.mark.parametrize("arch", registry.compiler("amd").archs())
def test_every_listed_arch_compiles(arch):
    assert CodeObject.parse(build(add("fp16"), arch).binary).arch == arch
    assert arch in MACHS.values()


def test_resources_are_those_of_the_assembly():
    artifact = build(product("fp32", 64), keep_stages=True)
    assert sorted(artifact.texts) == ["amdgcn", "llir", "ttgir", "ttir"]

    def said(key):
        return int(
            re.search(rf"^ *(?:- )?\.{key}: +(\d+)", artifact.texts["amdgcn"], re.M).group(1)
        )

    assert artifact.resources.registers == said("vgpr_count") > 20
    assert artifact.resources.scalar_registers == said("sgpr_count")
    assert artifact.resources.accumulator_registers == said("agpr_count")
    spilled = said("vgpr_spill_count") + said("sgpr_spill_count")
    assert artifact.resources.spilled_registers == spilled
    assert artifact.resources.local_bytes == said("private_segment_fixed_size")


def test_a_pipelined_kernel_has_no_arguments_that_it_does_not_read():
    """LLVM took gfx950's asynchronous copies for calls, and the kernel had a host-call service."""
    artifact = build(product("fp16", 64, num_stages=2), "gfx950")
    kernel = CodeObject.parse(artifact.binary).kernels["product"]
    assert not [argument.kind for argument in kernel.arguments if argument.hidden]
    assert kernel.kernarg_bytes == 48


def test_a_pipelined_kernel_that_prints_has_what_printing_needs():
    artifact = build(product("fp16", 64, "product_that_prints", num_stages=2), "gfx950")
    kernel = CodeObject.parse(artifact.binary).kernels["product_that_prints"]
    assert "hidden_hostcall_buffer" in {argument.kind for argument in kernel.arguments}


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1201"])
def test_fp32_products_are_fp32_everywhere(arch):
    """Triton's own default is tf32 on gfx942 alone."""
    text = build(product("fp32"), arch, keep_stages=True).texts["ttir"]
    assert "tt.dot" in text
    assert "tf32" not in text


def test_a_kernel_may_still_ask_for_tf32():
    texts = build(product_as_tf32(), keep_stages=True).texts
    assert "tf32" in texts["ttir"]
    assert "v_mfma_f32_32x32x4_xf32" in texts["amdgcn"]
    with pytest.raises(CompileError, match=r"input_precision must be one of .*Got tf32"):
        build(product_as_tf32(), "gfx90a")


def test_the_environment_may_make_tf32_the_default(monkeypatch):
    monkeypatch.setenv("TRITON_F32_DEFAULT", "tf32")
    assert "tf32" in build(product("fp32"), keep_stages=True).texts["ttir"]
    monkeypatch.delenv("TRITON_F32_DEFAULT")
    assert "tf32" not in build(product("fp32"), keep_stages=True).texts["ttir"]


def in_a_fresh_process(code, **how):
    """The output of `code`, which finds this file as `test_amd`."""
    tests, source = Path(__file__).parent, Path(__file__).parents[2] / "src"
    paths = [str(source), str(tests), str(tests.parent), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", "import sys, test_amd\n" + code],
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(paths)},
        **how,
    )
    return done.stdout


def test_bytes_are_reproducible_and_know_no_path(tmp_path):
    first = build(add()).binary
    assert build(add()).binary == first
    copy = tmp_path / "elsewhere" / KERNELS.name
    copy.parent.mkdir()
    copy.write_text(KERNELS.read_text())
    code = (
        f"test_amd.KERNELS = test_amd.Path({str(copy)!r})\n"
        "sys.stdout.buffer.write(test_amd.build(test_amd.add()).binary)"
    )
    assert in_a_fresh_process(code, cwd=tmp_path) == first
    for path in (KERNELS.parent, Path.home(), tmp_path):
        assert str(path).encode() not in first


@pytest.mark.parametrize("arch", ["gfx9999", "gfx803", "sm_90"])
def test_an_unknown_arch_lists_the_known_ones(arch, capfd):
    with pytest.raises(UnknownTargetError, match=f"{arch}.*amd:gfx90a.*amd:gfx1250"):
        build(add(), arch)
    assert capfd.readouterr().err == ""


def test_a_binary_for_another_arch_is_noticed(monkeypatch):
    """TRITON_OVERRIDE_ARCH makes Triton compile for something else than it was asked for."""
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "gfx90a")
    with pytest.raises(CompileError, match="the arch should be gfx942, and the binary says gfx90a"):
        build(add())


def test_a_kernel_that_triton_refuses_names_its_file():
    with pytest.raises(CompileError, match=r"product did not compile for amd:gfx942.*amd_kernels"):
        build(product("fp32", 3))


@pytest.mark.parametrize(
    ("kernel", "cause"),
    [
        (
            "waits_for_another_grid",
            r"(amd_kernels\.py:\d+: failed to legalize .*grid_dependency_wait|assembler refuses)",
        ),
        ("words_of_no_assembler", "invalid instruction|assembler refuses"),
    ],
)
def test_what_triton_prints_is_in_the_message(kernel, cause):
    """Its exceptions say that the passes, or an assembler, have failed, and no more."""
    with pytest.raises(CompileError, match=f"{kernel} did not compile for amd:gfx942: .*({cause})"):
        build(request(kernel, (("o", "*fp32"),)))


def test_assembly_of_another_vendor_is_refused():
    """LLVM printed an error and left it out: the kernel stored what nobody had computed."""
    with pytest.raises(CompileError, match=r"clock_of_nvidia .*'mov\.u64 \$0, %globaltimer;'.*'l'"):
        build(request("clock_of_nvidia", (("o", "*i64"),)))
    wanted = request("words_of_no_assembler", (("o", "*i32"),))
    with pytest.raises(CompileError, match=r"nonsense.*'v', which NVIDIA GPUs do not have"):
        registry.compiler("nvidia").compile(wanted, Target("nvidia", "sm_90"))


def test_compiling_loads_no_gpu_library():
    code = (
        "test_amd.build(test_amd.add())\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('hip', 'rocm', 'torch')])\n"
        "print([line for line in open('/proc/self/maps') if 'amdhip' in line])"
    )
    assert in_a_fresh_process(code) == b"[]\n[]\n"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_hsaco_is_refused_or_read(data):
    """Whatever bytes are flipped or lost: a LoadError with a sentence, or a whole answer."""
    binary = bytearray(build_once().binary)
    note = binary.index(b"AMDGPU\0\0")  # half of the damage where it is read most
    for _ in range(data.draw(st.integers(1, 6))):
        near = st.integers(note, note + 700) | st.integers(0, 63)
        at = data.draw(near | st.integers(0, len(binary) - 1))
        binary[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.just(len(binary)) | st.integers(0, len(binary)))
    message = None
    try:
        check_agreement(build_once(), CodeObject.parse(bytes(binary[:cut])))
    except LoadError as error:
        message = str(error)
    assert message is None or re.search(r"[a-z]\. .*\.$|[.…)]$", message), message


@cache
def build_once():
    return build(add())
