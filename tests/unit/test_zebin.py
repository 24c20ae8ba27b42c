"""Intel's GPU binaries and their offline compiler, by a stand-in for it: what is read, what is
chosen, and that nothing bad gets through."""

from __future__ import annotations

import stat
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from elf_writer import make_elf
from hypothesis import given
from hypothesis import strategies as st

from xtarget._values.errors import CompileError, LoadError, NoCompilerError, UnknownTargetError
from xtarget._values.types import Artifact, CompileRequest, KernelSource, Parameter, Target
from xtarget.targets._spirv.compiler import SpirvCompiler
from xtarget.targets.intel import create_compiler, ocloc
from xtarget.targets.intel.ocloc import LARGE_REGISTERS
from xtarget.targets.intel.zebin import Kernel, options_of, read_kernel, spirv_of, ze_info

INFO = """---
version:         '1.20'
kernels:
  - name:            helper
    execution_env:
      grf_count:       128
      simd_size:       8
  - name:            matmul
    user_attributes:
      intel_reqd_sub_group_size: 32
    execution_env:
      barrier_count:   1
      grf_count:       256
      simd_size:       32
      slm_size:        1024
    payload_arguments:
      - arg_type:        global_id_offset
        offset:          0
        size:            12
    per_thread_memory_buffers:
      - type:            scratch
        usage:           private_space
        size:            256
      - type:            scratch
        usage:           single_space
        size:            16384
kernels_misc_info:
  - name:            matmul
    args_info:
      - index:           0
        name:            arg
...
"""
SPIRV = b"\x03\x02\x23\x07 and so on"


def zebin(info: str = INFO, options: str = "", spirv: bytes = SPIRV, machine: int = 205) -> bytes:
    sections = [(".text.matmul", 1, b"code"), (".ze_info", 0xFF000011, info.encode())]
    if spirv:
        sections.append((".spv", 0xFF000009, spirv))
    if options:
        sections.append((".misc.buildOptions", 0xFF000014, options.encode() + b"\0"))
    return make_elf(sections, machine=machine)


def test_what_a_kernel_needs() -> None:
    kernel = read_kernel(zebin(), "matmul")
    assert kernel == Kernel(simd=32, registers=256, scratch_bytes=16640, shared_bytes=1024)
    resources = kernel.resources(spilled=205)
    assert resources.registers == 256
    assert resources.spilled_registers == 205
    assert resources.local_bytes == 520  # a lane's share
    assert resources.static_shared_bytes == 1024
    assert read_kernel(zebin(), "helper") == Kernel(8, 128, 0, 0)


def test_what_it_was_made_from() -> None:
    assert spirv_of(zebin()) == SPIRV
    assert options_of(zebin()) == ""
    assert options_of(zebin(options=LARGE_REGISTERS)) == LARGE_REGISTERS
    assert ze_info(zebin()) == INFO


@pytest.mark.parametrize(
    ("binary", "entry", "says"),
    [
        (zebin(), "softmax", "describes no kernel 'softmax'"),
        (zebin(), "arg", "describes no kernel 'arg'"),
        (zebin(INFO.replace("simd_size", "simd")), "matmul", "does not tell simd_size"),
        (zebin(INFO.replace("grf_count:       256", "grf_count: 0")), "matmul", "grf_count"),
        (zebin(machine=190), "matmul", r"machine 190, not for Intel's GPUs \(205\)"),
        (zebin("no yaml at all"), "matmul", "describes no kernel"),
        (b"", "matmul", "not an ELF file"),
        (zebin()[:-100], "matmul", "damaged"),
    ],
)
def test_what_cannot_be_read(binary: bytes, entry: str, says: str) -> None:
    with pytest.raises(LoadError, match=says):
        read_kernel(binary, entry)


def test_without_spirv() -> None:
    with pytest.raises(LoadError, match="no SPIR-V in it, which other devices load"):
        spirv_of(zebin(spirv=b""))


@given(st.text(max_size=300), st.integers(0, len(INFO)))
def test_any_description_is_read_or_refused(text: str, at: int) -> None:
    binary = zebin(INFO[:at] + text + INFO[at:])
    try:
        kernel = read_kernel(binary, "matmul")
    except LoadError:
        return
    assert min(kernel.simd, kernel.registers) > 0


# ------------------------------------------------------------------------- the offline compiler

#: A stand-in: spills as a file beside it says, by warp size (in the "SPIR-V") and options.
STAND_IN = """
    import json, pathlib, sys, time
    here = pathlib.Path(__file__).parent
    arguments = sys.argv[1:]
    given = dict(zip(arguments, arguments[1:]))
    with (here / "calls").open("a") as calls:
        print(json.dumps(arguments), file=calls)
    device, options = given["-device"], given.get("-options", "")
    assert arguments[:2] == ["compile", "-spirv_input"] and given["--format"] == "zebin"
    if device == "slow":
        time.sleep(60)
    if device == "nosuch":
        print("Error: Cannot get HW Info for device nosuch.")
        sys.exit(1)
    if device == "failing":
        print("error: undefined reference to `what'")
        sys.exit(231)
    spirv = pathlib.Path(given["-file"]).read_text()
    spilled = json.loads((here / "spills").read_text())[spirv + options]
    if spilled:
        print(f"warning: kernel k  compiled SIMD{spirv} allocated 128 regs and spilled around "
              f"{spilled}")
    body = "nothing" if device == "odd" else (here / "zebin").read_bytes().hex()
    pathlib.Path(given["-output"]).write_bytes(
        bytes.fromhex(body) if device != "odd" else body.encode())
    print("Build succeeded.")
"""
KERNEL_INFO = """---
kernels:
  - name:            k
    execution_env:
      grf_count:       128
      simd_size:       16
...
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Its folder; SPIR-V is made by a stand-in too, and is the warp size as text."""
    program = tmp_path / "ocloc"
    program.write_text(f"#!{sys.executable}\n{textwrap.dedent(STAND_IN)}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "zebin").write_bytes(zebin(KERNEL_INFO))
    monkeypatch.setenv("XTARGET_OCLOC", str(program))

    def portable(
        self: SpirvCompiler, request: CompileRequest, target: Target, *, keep_stages: bool
    ) -> Artifact:
        assert target == Target("intel", "spirv64")
        size = dict(request.options)["warp_size"]
        assert isinstance(size, int)
        texts = {"llir": "text"} if keep_stages else {}
        parameters = (Parameter("x", "*fp32"),)
        binary = str(size).encode()
        return Artifact(
            target, "spirv", "k", binary, request.num_warps, size, 0, parameters, texts=texts
        )

    monkeypatch.setattr(SpirvCompiler, "compile", portable)
    return tmp_path


def _compile(
    tool: Path, spills: dict[str, int], arch: str = "pvc", **options: Any
) -> tuple[Artifact, int]:
    """The artifact, and how often ocloc ran."""
    import json

    (tool / "spills").write_text(json.dumps(spills))
    source = KernelSource("k", "0" * 64, "k.py", lambda: None)
    request = CompileRequest(source, (("x", "*fp32"),), options=tuple(options.items()))
    artifact = create_compiler().compile(request, Target("intel", arch), keep_stages=True)
    return artifact, len((tool / "calls").read_text().splitlines())


L = LARGE_REGISTERS


@pytest.mark.parametrize(
    ("spills", "options", "warp_size", "spilled", "calls"),
    [
        ({"32": 0}, {}, 32, 0, 1),
        ({"32": 7, "16": 0}, {}, 16, 0, 2),
        ({"32": 7, "16": 3, "16" + L: 0}, {}, 16, 0, 3),
        ({"32": 7, "16": 3, "16" + L: 1}, {}, 16, 1, 3),
        ({"32": 2, "16": 3, "16" + L: 2}, {}, 32, 2, 3),
        ({"32": 7}, {"warp_size": 32}, 32, 7, 1),
        ({"16": 7, "16" + L: 0}, {"warp_size": 16}, 16, 0, 2),
        ({"8": 7}, {"warp_size": 8}, 8, 7, 1),
    ],
)
def test_the_first_setting_that_spills_nothing_is_taken(
    tool: Path,
    spills: dict[str, int],
    options: dict[str, Any],
    warp_size: int,
    spilled: int,
    calls: int,
) -> None:
    artifact, ran = _compile(tool, spills, **options)
    assert (artifact.warp_size, artifact.resources.spilled_registers, ran) == (
        warp_size,
        spilled,
        calls,
    )
    assert artifact.target == Target("intel", "pvc")
    assert artifact.format == "zebin"
    assert artifact.resources.registers == 128
    assert artifact.texts["zeinfo"] == KERNEL_INFO


@pytest.mark.parametrize(
    ("arch", "kind", "says"),
    [
        ("nosuch", UnknownTargetError, "intel:nosuch is not known to this ocloc"),
        (
            "failing",
            CompileError,
            "(?s)k for intel:failing: ocloc ended with status 231.*undefined",
        ),
        ("odd", CompileError, "ocloc's output for k on intel:odd .* not an ELF file"),
        ("slow", CompileError, r"ocloc did not finish within 0\.5 s.*XTARGET_JIT_SECONDS"),
    ],
)
def test_what_ocloc_refuses(
    tool: Path,
    arch: str,
    kind: type[Exception],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XTARGET_JIT_SECONDS", "0.5" if arch == "slow" else "30")
    with pytest.raises(kind, match=says):
        _compile(tool, {"32": 0}, arch)


def test_without_ocloc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XTARGET_OCLOC", str(tmp_path / "nothing"))
    with pytest.raises(NoCompilerError, match=r"ocloc.*apt install intel-opencl-icd.*spirv64"):
        ocloc.build(SPIRV, "k", "pvc", "")
    request = CompileRequest(KernelSource("k", "0" * 64, "k.py", lambda: None), ())
    with pytest.raises(UnknownTargetError, match=r"intel:gfx90a .*Write intel:spirv64.* pvc"):
        create_compiler().compile(request, Target("intel", "gfx90a"))
    assert create_compiler().archs() == ("spirv64",)
    assert ocloc.identity() == ""


def test_the_fingerprint_has_the_offline_compiler(
    tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = create_compiler().fingerprint
    assert "pvc" in create_compiler().archs()
    (tool / "ocloc").write_text((tool / "ocloc").read_text() + "# another version\n")
    assert create_compiler().fingerprint != before
    monkeypatch.setenv("XTARGET_OCLOC", str(tool / "nothing"))
    assert "ocloc" not in create_compiler().fingerprint
