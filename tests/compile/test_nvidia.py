"""From a kernel to a cubin, without CUDA."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operators import layouts, own

pytest.importorskip("triton")

import xtarget
from xtarget import Artifact, DeviceInfo, LoadError, Target
from xtarget.spec import ArrayType
from xtarget.targets._binaries.elf import Elf
from xtarget.targets.nvidia import assembler, cubin, ptx
from xtarget.targets.nvidia.assembler import sound_ptxas

X = ArrayType("float32", (1000,), (1,))
M = ArrayType("float16", (256, 256), (256, 1))


def add(target: str = "nvidia:sm_90") -> Artifact:
    (artifact,) = xtarget.compile("add", X, X, target=target)
    return artifact


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_the_cubin_is_for_the_arch_that_was_asked_for(arch: str) -> None:
    artifact = add(f"nvidia:{arch}")
    assert artifact.format == "cubin"
    assert Elf.parse(artifact.binary).machine == 190  # EM_CUDA
    assert cubin.arch_of(artifact.binary) == arch
    assert cubin.entries(artifact.binary) == ("add",)


def test_no_ptxas_older_than_12_9_is_taken_unless_the_user_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of Triton 3.6 gets descriptors of wgmma wrong."""
    from triton import knobs

    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    usual, newer = knobs.nvidia.ptxas, knobs.nvidia.ptxas_blackwell
    with sound_ptxas():
        assert tuple(map(int, knobs.nvidia.ptxas.version.split("."))) >= (12, 9)
    assert knobs.nvidia.ptxas == usual

    class Knobs:
        """As Triton's: what a program sets lies in the object."""

        ptxas: Any = SimpleNamespace(version="12.8", path="old")
        ptxas_blackwell = newer

        @contextmanager
        def scope(self) -> Iterator[None]:
            yield
            vars(self).clear()

    old = Knobs()
    monkeypatch.setattr(
        assembler, "import_triton", lambda: SimpleNamespace(knobs=SimpleNamespace(nvidia=old))
    )
    with sound_ptxas():
        assert old.ptxas == newer.path
    assert old.ptxas.version == "12.8"
    monkeypatch.setenv("TRITON_PTXAS_PATH", "old")
    with sound_ptxas():
        assert old.ptxas.path == "old"
    monkeypatch.delenv("TRITON_PTXAS_PATH")
    old.ptxas = SimpleNamespace(version="12.8", path="mine")
    with sound_ptxas():
        assert old.ptxas.path == "mine"


def test_the_artifact_has_all_that_a_launch_needs() -> None:
    artifact = add()
    assert artifact.block == (artifact.num_warps * 32, 1, 1)
    assert [(p.name, p.type, p.hidden) for p in artifact.parameters] == [
        ("a", "*fp32", None),
        ("b", "*fp32", None),
        ("out", "*fp32", None),
        ("n", "i32", None),
        ("global_scratch", "*i8", "global_scratch"),
        ("profile_scratch", "*i8", "profile_scratch"),
    ]
    assert 0 < (artifact.resources.registers or 0) <= 255
    assert artifact.resources.local_bytes == 0
    assert ".target sm_90" in artifact.texts["ptx"]


def test_the_parameters_are_those_of_the_ptx() -> None:
    strided = ArrayType("float32", (100, 100), (200, 2))
    (artifact,) = xtarget.compile("add", strided, strided, target="nvidia:sm_90")
    assert artifact.texts["ptx"].count(".param .") == len(artifact.parameters)


def test_a_matmul_uses_shared_memory_and_says_how_much() -> None:
    (artifact,) = xtarget.compile("matmul", M, M, target="nvidia:sm_90")
    assert artifact.shared_bytes > 0


@pytest.mark.long
@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_a_large_matmul_is_fetched_and_stored_by_the_copy_engine(layout: str) -> None:
    """On Hopper, with its matrix instructions, and with no register in memory."""
    steps = {"N": (4096, 1), "T": (1, 4096)}
    a, b = (ArrayType("bfloat16", (4096, 4096), steps[one]) for one in layout)
    (artifact,) = xtarget.compile("matmul", a, b, target="nvidia:sm_90")
    ptx = artifact.texts["ptx"]
    assert "wgmma.mma_async" in ptx
    assert "cp.async.bulk.tensor.2d.shared" in ptx
    assert "cp.async.bulk.tensor.2d.global" in ptx
    assert artifact.resources.local_bytes == 0
    assert artifact.global_scratch.nbytes == 0  # the host makes the descriptors


@pytest.mark.parametrize("m", [1, 64])
def test_few_rows_are_loaded_16_bytes_at_once(m: int) -> None:
    a, w = (
        ArrayType("bfloat16", (m, 4096), (4096, 1)),
        ArrayType("bfloat16", (4096,) * 2, (1, 4096)),
    )
    (artifact,) = xtarget.compile("matmul", a, w, target="nvidia:sm_90")
    copies = re.findall(r"cp\.async\.c[ag]\S* .*?(0x[0-9a-f]+)", artifact.texts["ptx"])
    assert copies
    assert set(copies) == {"0x10"}


def test_stages_are_kept_when_asked_for() -> None:
    (artifact,) = xtarget.compile("add", X, X, target="h200", keep_stages=True)
    assert {"ttir", "ttgir", "llir", "ptx"} <= set(artifact.texts)
    assert "tt.func" in artifact.texts["ttir"]


def test_the_same_request_gives_the_same_bytes_and_no_path() -> None:
    from xtarget._devices import registry
    from xtarget._kernels import libraries
    from xtarget._launch import planning

    target = Target.parse("nvidia:sm_90")
    (request,) = planning.compile_requests(libraries.find("add"), [X, X], {}, target)
    compiler = registry.compiler("nvidia")
    one, two = (compiler.compile(request, target) for _ in range(2))
    assert one == two
    for place in (b"/work", b"/home", b"/tmp", b"kernels/"):
        assert place not in one.binary


def device(arch: str) -> DeviceInfo:
    return DeviceInfo("nvidia:0", Target("nvidia", arch), "a GPU", 1 << 30, 8, "1", 32, 1024, 49152)


@pytest.mark.parametrize(
    ("made", "here", "runs"),
    [
        ("sm_90", "sm_90", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_100", "sm_103", True),
        ("sm_90", "sm_100", False),
    ],
)
def test_a_cubin_runs_on_later_minor_revisions_only(made: str, here: str, runs: bool) -> None:
    artifact = add(f"nvidia:{made}")
    if runs:
        cubin.check_cubin(artifact, device(here))
    else:
        with pytest.raises(LoadError, match=rf"{made}.*{here}"):
            cubin.check_cubin(artifact, device(here))


def test_another_vendors_binary_is_refused() -> None:
    (hsaco,) = xtarget.compile("add", X, X, target="amd:gfx942")
    with pytest.raises(LoadError, match="hsaco"):
        cubin.check_cubin(hsaco, device("sm_90"))
    with pytest.raises(LoadError, match="machine 224"):
        cubin.check_cubin(replace(hsaco, format="cubin"), device("sm_90"))


def test_an_entry_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(LoadError, match=r"no entry 'sub'; it has add"):
        cubin.check_cubin(replace(add(), entry="sub"), device("sm_90"))


@given(data=st.data())
def test_a_damaged_cubin_is_read_or_refused_but_nothing_else(data: st.DataObject) -> None:
    content = bytearray(add().binary)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    damaged = bytes(content[:cut])
    for read in (cubin.entries, cubin.arch_of, lambda c: cubin.resources(c, "add")):
        with contextlib.suppress(LoadError):
            read(damaged)


def test_ptx_is_for_its_arch_and_later_ones() -> None:
    made = add()
    text = made.texts["ptx"].encode()
    portable = replace(made, format="ptx", binary=re.sub(rb"sm_90a?", b"sm_80", text))
    assert cubin.check_cubin(portable, device("sm_90")) == ("add",)
    with pytest.raises(LoadError, match="is for sm_80"):
        cubin.check_cubin(portable, device("sm_75"))
    tied = replace(made, format="ptx", binary=re.sub(rb"sm_90a?", b"sm_90a", text))
    assert cubin.check_cubin(tied, device("sm_90")) == ("add",)
    with pytest.raises(LoadError, match="is for sm_90a"):
        cubin.check_cubin(tied, device("sm_100"))
    with pytest.raises(LoadError, match="not PTX"):
        cubin.check_cubin(replace(portable, binary=b"nothing"), device("sm_90"))
    with pytest.raises(LoadError, match="no entry"):
        cubin.check_cubin(replace(portable, entry="sub"), device("sm_90"))


#: Instructions that take subnormal numbers for 0, or round as they like, and why they are right:
#: the range reduction of libdevice's exp, whose argument is subnormal only where the result is 1,
#: and whose result is scaled by an ordinary product; and a quotient of numbers of ordinary size.
_OF_EXP = {
    "fma.rn.ftz.f32",
    "fma.rm.ftz.f32",
    "cvt.ftz.sat.f32.f32",
    "ex2.approx.ftz.f32",
    "abs.ftz.f32",
}
_ROUGH = {
    "exp": _OF_EXP,
    "gelu": _OF_EXP | {"div.full.f32"},
    "softmax": _OF_EXP,
}
#: Others show it by their values (tests/kernels/test_operators.py).
_ASKED = ("add", "div", "exp", "gelu", "layer_norm", "matmul", "max", "maximum", "mul", "relu",
          "rms_norm", "softmax", "sub", "sum", "where")  # fmt: skip
_LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("float16", "bfloat16")]


@pytest.mark.sample(3, each=("name", "dtype"))
@pytest.mark.parametrize("dtype", ["float32", "float64", *_LONG])
@pytest.mark.parametrize("name", _ASKED)
def test_no_kernel_takes_subnormal_numbers_for_0(name: str, dtype: str) -> None:
    arrays = layouts(own()[name], dtype, (64, 96))
    for options in [{"approximate": "tanh"}, {}] if name == "gelu" else [{}]:
        for artifact in xtarget.compile(name, *arrays, target="nvidia:sm_90", **options):
            used = re.findall(r"^\s+(?:@%p\d+ )?([a-z0-9.]+)\s", artifact.texts["ptx"], re.M)
            assert len(used) > 20
            rough = {i for i in used if re.search(r"\.(ftz|approx|full)\b", i)}
            assert rough <= _ROUGH.get(name, set())


def test_arrays_of_a_thread_are_not_spilled_registers() -> None:
    """A sine has one for large arguments; ptxas counts both as the frame."""
    x = ArrayType("float32", (4096,), (1,))
    (made,) = xtarget.compile("sin", x, target="nvidia:sm_90", keep_stages=True)
    assert ptx.local_arrays(made.texts["ptx"], made.entry) == 28
    assert made.resources.spilled_registers == 0
    (made,) = xtarget.compile("exp", x, target="nvidia:sm_90", keep_stages=True)
    assert ptx.local_arrays(made.texts["ptx"], made.entry) == 0


def test_only_the_arrays_of_an_entry_are_counted() -> None:
    text = """
.visible .func helper(
)
{
	.local .align 8 .b8 	__local_depot0[64];
}
	// .globl	first
.visible .entry first(
	.param .u64 .ptr first_param_0
)
{
	.local .align 4 .b8 	__local_depot1[28];
	.local .align 4 .b8 	more[4];
	st.local.b32 	[%r5+24], %r6;
}
.visible .entry second()
{
	st.local.b32 	[%r5], %r6;
}
"""
    assert ptx.local_arrays(text, "first") == 32
    assert ptx.local_arrays(text, "second") == 0
    assert ptx.local_arrays("", "first") == 0


@pytest.mark.parametrize("dtype", ["int8", "bool", "float32"])
def test_a_product_of_float64_and_less_compiles(dtype: str) -> None:
    """Triton 3.6 fails where an operand of a product in float64 was converted from less."""
    a, b = np.ones((33, 17)), np.ones((17, 8), dtype)
    assert xtarget.compile("matmul", a, b, target="nvidia:sm_90")
    assert xtarget.compile("matmul", b.T, a.T, target="nvidia:sm_90")


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_negative_filling_of_few_bits_is_not_spread_with_its_sign(dtype: str) -> None:
    """Triton 3.6 fills registers of 32 bits with a constant of 8 or 16 whose sign is extended."""
    rows = np.zeros((64, 48), dtype)
    for artifact in xtarget.compile("max", rows, axis=1, target="nvidia:sm_90"):
        assert "ld.global" in artifact.texts["ptx"]
        assert not re.findall(r"0xf{8}\w*", artifact.texts["ptx"])
