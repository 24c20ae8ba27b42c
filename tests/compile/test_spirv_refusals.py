"""A feature that SPIR-V or a device lacks is an error with the operation, the line and the reason;
and the options that say what a device has.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import spirv_kernels as kernels
import triton
import triton.language as tl
from spirv_cases import VERSION, Case, empty
from spirv_requests import request
from spirv_run import compiled, device, launch, run
from triton.experimental import gluon
from triton.language.extra import hip

from xtarget._values.errors import CompileError
from xtarget._values.types import Target
from xtarget.targets import intel
from xtarget.targets._spirv.frontend.diagnose import Stage, reason
from xtarget.targets._triton.reason import told


@gluon.jit
def in_gluon(x, o, B: tl.constexpr):
    pass


@triton.jit
def with_doubles(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i).to(tl.float64)
    tl.store(o + i, tl.exp(v + 1e-12).to(tl.float32))


@triton.jit
def with_halves(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i).to(tl.float16)
    tl.store(o + i, (v * v).to(tl.float32))


@triton.jit
def with_wide_atomics(x, o, B: tl.constexpr):
    p = o.to(tl.pointer_type(tl.int64))
    tl.atomic_add(p + tl.arange(0, B), tl.full([B], 1, tl.int64))


@triton.jit
def printing(x, o, B: tl.constexpr):
    tl.device_print("value", tl.load(x + tl.arange(0, B)))


@triton.jit
def clock(x, o, B: tl.constexpr):
    before = hip.memrealtime()
    total = tl.load(x)
    for k in range(1000):
        total = tl.sin(total + k)
    tl.store(o, total)
    after = hip.memrealtime()
    tl.store(o + 1, (after - before).to(tl.float32))


@triton.jit
def polling(x, o, B: tl.constexpr):
    matched = tl.atomic_poll(x.to(tl.pointer_type(tl.int32)), 1, timeout_ns=50_000_000)
    tl.store(o, matched.to(tl.float32))


def case(fn: Any) -> Case:
    return Case(
        fn, {"x": "*fp32", "o": "*fp32"}, {"B": 32},
        lambda: [np.ones(32, np.float32), empty(32)], num_warps=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("refused_assembly", "inline assembly 'v_mov_b32"),
        ("refused_library", "the external function an_unknown_function"),
    ],
)
def test_the_line_of_what_has_no_counterpart(name: str, said: str) -> None:
    refused = kernels.REFUSED[name]
    source = Path(kernels.__file__).read_text(encoding="utf-8").splitlines()
    word = "tl.inline_asm_elementwise(" if name == "refused_assembly" else "_unknown(tl.load"
    line = next(n for n, text in enumerate(source, 1) if word in text)
    with pytest.raises(CompileError, match=f"spirv_kernels.py:{line}: ") as caught:
        compiled(refused)
    assert said in str(caught.value)
    assert source[line - 1].strip() in str(caught.value)


@pytest.mark.parametrize(
    ("fn", "option", "said"),
    [
        (with_doubles, "fp64", "64-bit floats (arith.constant in test_spirv_refusals.py:"),
        (with_halves, "fp16", "16-bit floats (arith.truncf in test_spirv_refusals.py:"),
        (with_wide_atomics, "int64_atomics", "64-bit atomic operations (tt.atomic_rmw in "),
    ],
)
def test_a_device_without(fn: Any, option: str, said: str) -> None:
    compiled(case(fn), **{option: True})
    with pytest.raises(CompileError) as caught:
        compiled(case(fn), **{option: False})
    assert said in str(caught.value)
    assert f"{option}=False says that the device has none" in str(caught.value)


def test_a_kernel_that_needs_little_suits_every_device() -> None:
    lean = {"fp64": False, "fp16": False, "int64_atomics": False}
    plain = kernels.CASES["add_fp32"]
    assert compiled(plain, **lean).binary == compiled(plain).binary
    compiled(case(printing), **lean)  # a printed float is widened only where there are doubles


@pytest.mark.parametrize("option", ["fp64", "fp16", "int64_atomics", "kernel_clock"])
def test_options_are_true_or_false(option: str) -> None:
    with pytest.raises(CompileError, match=f"{option} is 'yes'; it must be True or False"):
        compiled(case(printing), **{option: "yes"})


def test_gluon() -> None:
    with pytest.raises(CompileError, match=r"in_gluon .* is written in Gluon"):
        compiled(case(in_gluon))


def test_the_clock_where_there_is_one(mark_ran_on: Any) -> None:
    assert b"SPV_KHR_shader_clock" in compiled(case(clock)).binary
    info = device().info
    if "Intel" not in info.details.get("platform", "Intel"):
        pytest.skip("this run time was not seen to have cl_khr_kernel_clock")
    mark_ran_on("cpu", info.runs_on, info.product)
    assert run(case(clock))[1][1] > 0


def test_the_clock_where_there_is_none() -> None:
    with pytest.raises(CompileError, match="SPV_KHR_shader_clock only") as caught:
        intel.create_compiler().compile(request(case(clock)), Target("intel", "spirv64"))
    assert "before = hip.memrealtime()" in str(caught.value)


@pytest.mark.skipif(VERSION < (3, 9), reason="this Triton has no tl.atomic_poll")
@pytest.mark.parametrize("lanes", ["threads", "vectors"])
@pytest.mark.parametrize("num_warps", [1, 4])
def test_polling_ends_after_its_time(num_warps: int, lanes: str, mark_ran_on: Any) -> None:
    info = device().info
    if "Intel" not in info.details.get("platform", "Intel"):
        pytest.skip("this run time was not seen to have cl_khr_kernel_clock")
    mark_ran_on("cpu", info.runs_on, info.product)
    artifact = compiled(replace(case(polling), num_warps=num_warps), lanes=lanes)
    for value, expected in ((1, 1.0), (0, 0.0)):
        out = np.full(2, 7, np.float32)
        started = time.monotonic_ns()
        launch(artifact, [np.full(1, value, np.int32), out], (1, 1, 1))
        assert out.tolist() == [expected, 7.0]
        assert expected or time.monotonic_ns() - started >= 50_000_000


@pytest.mark.skipif(VERSION < (3, 9), reason="this Triton has no tl.atomic_poll")
def test_polling_without_a_clock() -> None:
    with pytest.raises(CompileError, match="SPV_KHR_shader_clock only"):
        compiled(case(polling), kernel_clock=False)


def test_the_reason_of_a_pass_that_fails() -> None:
    """Triton's passes' standard error becomes part of the message."""
    broken = "module { tt.func @f() { %0 = tt.load %1 : !tt.ptr<f32> tt.return } }"
    assert "use of undeclared SSA value name" in reason(
        Stage("ttir", broken, 4, 16, 0, True, False)
    )
    log = (
        '/tmp/kernel.py:12:8: error: failed to legalize operation "tt.foo"\n    x = tl.foo(y)\n'
        "/tmp/kernel.py:12:8: error: Failures have been detected while processing\n"
        "triton: file.cpp:3: void f(): Assertion `rank == 2' failed.\n"
    )
    expected = 'kernel.py:12: failed to legalize operation "tt.foo"; '
    assert told(log) == expected + "an assertion of Triton failed: rank == 2"


@pytest.mark.skipif(VERSION >= (3, 8), reason="this Triton can take dot_scaled apart")
def test_scaled_dots_of_older_tritons() -> None:
    from spirv_products import dot_scaled

    scaled = Case(
        dot_scaled,
        {"a": "*fp8e4nv", "sa": "*u8", "b": "*fp8e5", "sb": "*u8", "c": "*fp32"},
        {"M": 16, "N": 16, "K": 64, "A": "e4m3", "B": "e5m2"},
    )
    with pytest.raises(CompileError, match=r"tl\.dot_scaled \(tt.dot_scaled in spirv_products\.py"):
        compiled(scaled)
