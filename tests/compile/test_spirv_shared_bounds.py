"""No kernel writes outside of its shared memory: guard bands around it, looked at in the end.

What is read there is a pattern that no kernel writes, so that a result with it in it is wrong. The
AMD emulator looks at every access of the same lowering (tests/emulator); this is the code that CPUs
and Intel's GPUs get.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import spirv_kernels
from spirv_cases import Case
from spirv_requests import request
from spirv_run import CPU, assert_close, device, device_options

from xtarget._values.types import LaunchConfig
from xtarget.targets import cpu
from xtarget.targets._spirv.worker.client import worker

BAND, PATTERN = 2048, 0x7FA5A5A5
_SHARED = re.compile(
    r"^@global_smem = internal (?:unnamed_addr )?addrspace\(3\) global \[(\d+) x i8\].*$", re.M
)


def guarded(text: str, threads: int, grid: tuple[int, int, int], band: str, stolen: int) -> str:
    """The kernel's LLVM IR with bands that are written first and compared last.

    Args:
        text: LLVM IR of one kernel with shared memory.
        threads: of a block.
        grid: of the launch.
        band: the parameter where each thread of each block writes whether it found a change.
        stolen: bytes at the end of shared memory that count as band: a fault on purpose.
    """
    found = _SHARED.search(text)
    assert found is not None
    size = int(found[1])
    text = _SHARED.sub(
        f"@xt.guarded = internal addrspace(3) global [{size + 2 * BAND} x i8] undef, align 64", text
    )
    inside = f"getelementptr (i8, ptr addrspace(3) @xt.guarded, i64 {BAND})"
    text = text.replace("@global_smem", inside)
    first, last = [], []
    words = range(0, BAND // 2, threads)
    for number, word in enumerate(words):
        first.append(
            f"""  %g.w{number} = add i64 %g.id, {word}
  %g.b{number} = shl i64 %g.w{number}, 2
  %g.far{number} = add i64 %g.b{number}, {size - stolen}
  %g.near{number} = icmp ult i64 %g.b{number}, {BAND}
  %g.o{number} = select i1 %g.near{number}, i64 %g.b{number}, i64 %g.far{number}
  %g.p{number} = getelementptr i8, ptr addrspace(3) @xt.guarded, i64 %g.o{number}
  store i32 {PATTERN}, ptr addrspace(3) %g.p{number}, align 1"""
        )
        last.append(
            f"""  %g.l{number} = load i32, ptr addrspace(3) %g.p{number}, align 1
  %g.x{number} = xor i32 %g.l{number}, {PATTERN}
  %g.s{number} = or i32 %g.x{number}, {f"%g.s{number - 1}" if number else "0"}"""
        )
    barrier = "  call spir_func void @_Z7barrierj(i32 1)"
    start = "\n".join(["  %g.id = call spir_func i64 @_Z12get_local_idj(i32 0)", *first, barrier])
    axes = "\n".join(
        f"  %g.a{axis} = call spir_func i64 @_Z12get_group_idj(i32 {axis})" for axis in range(3)
    )
    end = f"""{barrier}
{chr(10).join(last)}
{axes}
  %g.m1 = mul i64 %g.a1, {grid[0]}
  %g.m2 = mul i64 %g.a2, {grid[0] * grid[1]}
  %g.n1 = add i64 %g.a0, %g.m1
  %g.n2 = add i64 %g.n1, %g.m2
  %g.n3 = mul i64 %g.n2, {threads}
  %g.n4 = add i64 %g.n3, %g.id
  %g.slot = getelementptr i32, ptr addrspace(1) {band}, i64 %g.n4
  store i32 %g.s{len(words) - 1}, ptr addrspace(1) %g.slot, align 4
  ret void"""
    assert text.count("  ret void") == 1
    text = text.replace("  ret void", end)
    text = re.sub(rf"(ptr addrspace\(1\)) [\w() ]*{band}(?=[,)])", rf"\1 {band}", text)
    text = re.sub(
        r"^(define [^\n]*\n[\w.]+:[^\n]*\n)", lambda m: m[0] + start + "\n", text, flags=re.M
    )
    for name, type_ in (("_Z7barrierj", "void"), ("_Z12get_local_idj", "i64"),
                        ("_Z12get_group_idj", "i64")):  # fmt: skip
        if not re.search(rf"^declare [^\n]*@{name}\(", text, re.M):
            text += f"declare spir_func {type_} @{name}(i32) convergent nounwind\n"
    return text


def changed(case: Case, stolen: int = 0) -> int | None:
    """How many threads found a changed band, after results were compared; None: it has no shared
    memory.
    """
    asked = request(case, lanes="threads", **device_options())
    artifact = cpu.create_compiler().compile(asked, CPU, keep_stages=True)
    text = artifact.texts["llir"]
    if not _SHARED.search(text) or "barrier" not in text:
        return None
    assert case.expect is not None
    place = next(i for i, p in enumerate(artifact.parameters) if p.hidden == "profile_scratch")
    threads = artifact.block[0]
    text = guarded(text, threads, case.grid, f"%arg{place}", stolen)
    made = replace(
        artifact, binary=worker.emit(text), shared_bytes=artifact.shared_bytes + 2 * BAND
    )
    found = np.full(threads * int(np.prod(case.grid)), -1, np.int32)
    arguments = case.given()
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    values += [
        found.ctypes.data if i == place else 0
        for i, p in enumerate(artifact.parameters)
        if p.hidden
    ]
    opened = device()
    module = opened.load(made)
    module.function().launch(LaunchConfig(case.grid), values, opened.default_stream)
    opened.default_stream.synchronize()
    module.close()
    if not stolen:
        for index, expected in case.expect(*before):
            assert_close(arguments[index], expected, case.tolerance, f"argument {index}")
        assert (found != -1).all(), "every thread has looked"
    return int(np.count_nonzero(found))


SHORT = ("scans_fp32_16", "sorted_and_flipped", "reductions_i32_16_1")


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", SHORT)
def test_some_kernels_stay_in_their_shared_memory(name: str) -> None:
    assert changed(spirv_kernels.CASES[name]) == 0


def test_a_byte_beyond_is_noticed() -> None:
    """The last four bytes count as outside, which the kernel writes."""
    assert changed(spirv_kernels.CASES["scans_fp32_16"], stolen=4)


@pytest.mark.long
def test_every_kernel_stays_in_its_shared_memory() -> None:
    found = {
        name: changed(case) for name, case in spirv_kernels.CASES.items() if case.expect is not None
    }
    looked_at = {name: count for name, count in found.items() if count is not None}
    print(f"{len(looked_at)} of {len(found)} kernels have shared memory")
    assert len(looked_at) >= 20
    assert not any(looked_at.values()), looked_at
