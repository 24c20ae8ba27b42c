"""The SPIR-V compiler: Triton's language compiles, gives valid modules, and computes right."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xtarget._values.errors import CompileError, UnknownTargetError
from xtarget._values.types import Artifact, Parameter, Target
from xtarget.targets import cpu, intel
from xtarget.targets._binaries.spirv import read_entry_points
from xtarget.targets._spirv import versions
from xtarget.targets._spirv.compiler import SpirvCompiler

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")

sys.path.insert(0, str(Path(__file__).parent))

import spirv_kernels as kernels
from spirv_cases import VERSION
from spirv_requests import request
from spirv_run import check as check_result
from spirv_run import device, device_options

HERE = Path(__file__).parent
CPU, INTEL = Target("cpu", "spirv64"), Target("intel", "spirv64")
VALIDATOR = shutil.which("spirv-val")
COMPILED_ONLY = ("random_numbers", "printing")


def compiler() -> SpirvCompiler:
    made = cpu.create_compiler()
    assert isinstance(made, SpirvCompiler)
    return made


@cache
def compiled(name: str) -> Artifact:
    return compiler().compile(request(kernels.CASES[name]), CPU)


def complaint(binary: bytes) -> str:
    """The message of spirv-val; empty for a valid module."""
    assert VALIDATOR is not None
    done = subprocess.run(
        [VALIDATOR, "--target-env", "spv1.4", "-"], input=binary, capture_output=True, check=False
    )
    return (done.stdout + done.stderr).decode() if done.returncode else ""


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", kernels.CASES)
def test_module_is_valid_and_says_what_the_artifact_says(name: str) -> None:
    case, artifact = kernels.CASES[name], compiled(name)
    (entry,) = read_entry_points(artifact.binary, (1, 4))
    assert entry.name == artifact.entry == case.fn.fn.__name__
    assert artifact.num_warps >= case.num_warps, "a CPU's block may have more (see blocks.py)"
    assert entry.local_size == artifact.block == (artifact.num_warps * case.warp_size, 1, 1)
    assert entry.subgroup_size == artifact.warp_size == case.warp_size
    assert len(entry.parameters) == len(artifact.parameters)
    assert [kind == "pointer" for kind in entry.parameters] == [
        p.is_pointer for p in artifact.parameters
    ]
    if VALIDATOR is None:
        print("spirv-val is not on PATH: the header and the entry point were checked, no more")
        return
    said = complaint(artifact.binary)
    if (
        name == "printing"
    ):  # spirv-tools before 2024 wants a pointer to char, LLVM has one to char[]
        assert not said or "printf: expected Format data type" in said
    else:
        assert not said


def test_a_damaged_module_is_seen() -> None:
    binary = bytearray(compiled("add_fp32").binary)
    binary[-4] ^= 0x40
    if VALIDATOR is None:
        pytest.skip("spirv-val is not on PATH")
    assert complaint(bytes(binary))


#: What the run time compiles longest: these types are checked in other widths, and these widths and
#: numbers of warps by other types.
_LONG = (
    "reductions_fp32_8_4",
    "reductions_fp32_16_1",
    "reductions_fp32_32_1",
    "reductions_fp64_16_4",
    "reductions_fp64_32_4",
    "reductions_i32_16_1",
    "reductions_i32_32_1",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in _LONG else [])
        for name, case in kernels.CASES.items()
        if case.expect
    ],
)
def test_result(name: str, mark_ran_on: Any) -> None:
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    case, options = kernels.CASES[name], device_options()
    artifact = compiler().compile(request(case, **options), CPU) if options else compiled(name)
    check_result(case, artifact, name)


def test_every_case_is_checked_or_known_to_be_compiled_only() -> None:
    unchecked = {name for name, case in kernels.CASES.items() if not case.expect}
    assert unchecked == set(COMPILED_ONLY)


@pytest.mark.parametrize("name", ["reductions_fp32_16_4", "atomics", "bfloat_operations"])
def test_same_bytes_again_and_in_another_process(name: str) -> None:
    binary = compiled(name).binary
    assert compiler().compile(request(kernels.CASES[name]), CPU).binary == binary
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import spirv_kernels, spirv_requests\n"
        "from xtarget.targets.cpu import create_compiler\n"
        "from xtarget._values.types import Target\n"
        "request = spirv_requests.request(spirv_kernels.CASES[sys.argv[2]])\n"
        "artifact = create_compiler().compile(request, Target('cpu', 'spirv64'))\n"
        "sys.stdout.buffer.write(artifact.binary)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(HERE), name],
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == binary


def test_the_order_of_compilations_does_not_matter() -> None:
    """LLVM's SPIR-V back end keeps state between modules of a process; ours must not show it."""
    names = ["reductions_fp64_16_4", "reductions_i32_16_1", "product_fp64_ieee", "scans_i64_32"]
    first = [compiled(name).binary for name in names]
    again = [compiler().compile(request(kernels.CASES[n]), CPU).binary for n in reversed(names)]
    assert list(reversed(again)) == first


def test_threads() -> None:
    names = ["add_fp32", "add_i64", "casts", "shapes"] * 2
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda n: compiler().compile(request(kernels.CASES[n]), CPU).binary, names)
        assert list(made) == [compiled(name).binary for name in names]


def test_stages_are_kept_on_demand() -> None:
    case = request(kernels.CASES["add_fp32"])
    assert compiled("add_fp32").texts == {}
    texts = compiler().compile(case, CPU, keep_stages=True).texts
    assert set(texts) - {"spvasm"} == {"ttir", "ttgir", "llir"}
    assert "tt.func public @add_masked" in texts["ttir"]
    assert '"ttg.threads-per-warp" = 16' in texts["ttgir"]
    assert "define spir_kernel void @add_masked(" in texts["llir"]
    assert "amdgcn" not in texts["llir"]
    if shutil.which("spirv-dis"):
        assert 'OpEntryPoint Kernel %add_masked "add_masked"' in texts["spvasm"]


def test_defaults_of_the_vendors() -> None:
    plain = replace(request(kernels.CASES["add_fp32"]), options=())
    for made, target, warp in ((cpu, CPU, 16), (intel, INTEL, 32)):
        artifact = made.create_compiler().compile(plain, target)
        assert (artifact.target, artifact.warp_size) == (target, warp)
        assert artifact.format == "spirv"
        assert artifact.parameters[-2:] == (
            Parameter("global_scratch", "*i8", hidden="global_scratch"),
            Parameter("profile_scratch", "*i8", hidden="profile_scratch"),
        )


def test_pointers_as_integers() -> None:
    case = kernels.CASES["atomics"]
    artifact = compiler().compile(request(case, pointers="integer"), CPU)
    assert {p.type for p in artifact.parameters} == {"u64"}
    (entry,) = read_entry_points(artifact.binary)
    assert set(entry.parameters) == {"int64"}
    check_result(case, artifact, "integer pointers")


def test_shared_memory_is_told() -> None:
    artifact = compiled("reductions_fp32_16_4")
    assert artifact.shared_bytes > 0
    assert artifact.resources.static_shared_bytes == artifact.shared_bytes
    assert compiled("add_fp32").shared_bytes == 0


def test_fusion_is_an_option() -> None:
    """Contraction of a * b + c is allowed unless the request forbids it."""
    case = kernels.CASES["math_fp32"]
    fused = compiler().compile(request(case), CPU, keep_stages=True)
    exact = compiler().compile(request(case, enable_fp_fusion=False), CPU, keep_stages=True)
    assert "opencl.enable.FP_CONTRACT" in fused.texts["llir"]
    assert "opencl.enable.FP_CONTRACT" not in exact.texts["llir"]
    assert not forbids_contraction(fused.binary)
    assert forbids_contraction(exact.binary)


def forbids_contraction(binary: bytes) -> bool:
    """Whether a module has the execution mode ContractionOff (SPIR-V specification 3.6: 31)."""
    words = np.frombuffer(binary, np.uint32)
    at = np.flatnonzero(words[:-2] == (3 << 16 | 16))  # OpExecutionMode, three words
    return bool((words[at + 2] == 31).any())


@pytest.mark.skipif(VERSION < (3, 9), reason="this Triton writes text only")
@pytest.mark.parametrize("name", ["nan_of_pairs_bf16", "many_fields", "math_fp32"])
def test_text_where_bitcode_cannot_be_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from xtarget.targets._spirv.frontend import lowering

    lower = lowering.lower_to_llvm

    def without_bitcode(*args: Any, **kwargs: Any) -> Any:
        return replace(lower(*args, **kwargs), bitcode=b"no bitcode")

    monkeypatch.setattr(lowering, "lower_to_llvm", without_bitcode)
    case = kernels.CASES[name]
    check_result(case, compiler().compile(request(case), CPU), name)


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("refused_assembly", {}, "inline assembly 'v_mov_b32"),
        ("refused_library", {}, "an_unknown_function"),
        ("add_fp32", {"pointers": "fat"}, "pointers is 'fat'"),
    ],
)
def test_what_spirv_lacks_is_named(name: str, options: dict[str, Any], said: str) -> None:
    case = {**kernels.CASES, **kernels.REFUSED}[name]
    with pytest.raises(CompileError) as caught:
        compiler().compile(request(case, **options), CPU)
    assert said in str(caught.value)
    assert f"kernel {case.fn.fn.__name__} did not compile for cpu:spirv64" in str(caught.value)
    assert "spirv_kernels.py" in str(caught.value)


def test_unknown_arch() -> None:
    with pytest.raises(UnknownTargetError, match="Write cpu:spirv64"):
        compiler().compile(request(kernels.CASES["add_fp32"]), Target("cpu", "avx512"))


def test_histogram_gets_the_warp_it_needs() -> None:
    case = replace(kernels.CASES["histogram_and_gather"], warp_size=16)
    artifact = compiler().compile(request(case), CPU)
    (entry,) = read_entry_points(artifact.binary)
    assert entry.subgroup_size == artifact.warp_size == 32
    check_result(case, artifact, "histogram")


@pytest.mark.parametrize("size", [4, 12, 64, "16"])
def test_unknown_warp_size(size: Any) -> None:
    plain = replace(request(kernels.CASES["add_fp32"]), options=(("warp_size", size),))
    with pytest.raises(CompileError, match="one of 8, 16, 32"):
        compiler().compile(plain, CPU)


@pytest.mark.parametrize("num_warps", [0, 3, -4, 2048, 1 << 40, "4", True])
def test_num_warps_out_of_range(num_warps: Any) -> None:
    plain = replace(request(kernels.CASES["add_fp32"]), num_warps=num_warps)
    with pytest.raises(CompileError, match=r"num_warps is .* one of 1, 2, 4, .* 1024\.$"):
        compiler().compile(plain, CPU)


def test_untested_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XTARGET_SPIRV_UNTESTED", raising=False)
    monkeypatch.setattr(versions, "llvmlite_version", lambda: "0.45rc1")
    case = request(kernels.CASES["add_fp32"])
    with pytest.raises(CompileError, match=r"llvmlite 0\.45rc1 were not tested together"):
        compiler().compile(case, CPU)
    monkeypatch.setenv("XTARGET_SPIRV_UNTESTED", "1")
    assert compiler().compile(case, CPU).binary == compiled("add_fp32").binary


def test_no_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "llvmlite_version", lambda: "")
    with pytest.raises(CompileError, match=r'llvmlite.*pip install "xtarget\[compile\]"'):
        compiler().compile(request(kernels.CASES["add_fp32"]), CPU)


def test_no_triton() -> None:
    script = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "triton":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from xtarget._values.errors import CompileError
from xtarget._values.types import CompileRequest, KernelSource, Target
from xtarget.targets.cpu import create_compiler
request = CompileRequest(KernelSource("k", "0" * 64, "k.py", lambda: None), ())
try:
    create_compiler().compile(request, Target("cpu", "spirv64"))
except CompileError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "no compiler is installed" in done.stdout
    assert 'pip install "xtarget[compile]"' in done.stdout


def test_fingerprint_is_cheap_and_names_the_toolchain() -> None:
    script = """
import sys
from xtarget.targets.cpu import create_compiler
print(create_compiler().fingerprint)
assert not {"triton", "llvmlite", "numpy"} & set(sys.modules), "loaded for a fingerprint"
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == compiler().fingerprint
    lines = {line.rsplit(" ", 1)[0] for line in done.stdout.splitlines()}
    assert {f"llvmlite {versions.llvmlite_version()}", "xtarget"} <= lines
    assert compiler().archs() == ("spirv64",)


# ------------------------------------------------------------------------------ Triton's own state


def test_triton_keeps_its_drivers() -> None:
    """Registering a back end must not claim the machine: with ours active there would be two."""
    from triton.backends import backends

    from xtarget.targets._spirv.frontend.backend import register

    register()
    before = dict(backends)
    register()
    assert backends == before
    assert not backends["spirv"].driver.is_active()


def test_another_back_end_of_the_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.backends import backends

    from xtarget.targets._spirv.frontend.backend import register

    monkeypatch.setitem(backends, "spirv", backends["nvidia"])
    with pytest.raises(CompileError, match=r"triton\.backends\.nvidia"):
        register()


def test_other_vendors_compile_in_the_same_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    binary = compiled("add_fp32").binary
    case = kernels.CASES["add_fp32"]
    signature = {name: case.signature.get(name, "constexpr") for name in case.fn.arg_names}
    source = ASTSource(case.fn, signature, constexprs=case.constants)
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path))
    ptx = triton.compile(
        source, target=GPUTarget("cuda", 80, 32), options={"enable_fp_fusion": True}
    ).asm["ptx"]
    assert ".target sm_80" in ptx
    assert compiler().compile(request(case), CPU).binary == binary


def test_nothing_is_imported_ahead() -> None:
    assert importlib.util.find_spec("triton") is not None
    script = """
import sys, xtarget.targets.cpu, xtarget.targets.intel
heavy = {"triton", "llvmlite", "numpy", "pyopencl", "dpctl"} & set(sys.modules)
assert not heavy, heavy
xtarget.targets.cpu.create_compiler()
assert not {"triton", "llvmlite", "pyopencl"} & set(sys.modules)
import xtarget.targets._spirv.frontend.backend
assert "xtarget.targets._spirv.llvm.reader" not in sys.modules, "the child process's"
"""
    subprocess.run([sys.executable, "-c", script], check=True)
