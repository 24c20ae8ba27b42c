"""device_assert on the CPU device: told with file, line and text, and the block stops."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import triton
import triton.language as tl
from spirv_cases import Case, empty
from spirv_run import compiled, device, launch, run

from xtarget._values.errors import DeviceAssertError
from xtarget.targets._spirv.llvm import codegen
from xtarget.targets._spirv.llvm.reader import read as llvm_read
from xtarget.targets._spirv.llvm.text import Layout, UnsupportedError
from xtarget.targets._spirv.worker import client


@triton.jit
def elements(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    tl.device_assert(v < 1000, "too big")
    tl.store(o + i, v)


@triton.jit
def scalar(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.device_assert(tl.program_id(0) != 1, "block one")
    tl.store(o + i, tl.load(x + i))


@triton.jit
def in_a_loop(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    total = tl.zeros((B,), tl.int32)
    for k in range(tl.program_id(0) + 3):
        total += v * k
        tl.device_assert(total <= 100 * v, "sum")
        tl.device_assert(tl.sum(total) >= 0, "total")
        if k == 2:
            tl.device_assert(v < 2000, "branch")
    tl.store(o + i, total)


@triton.jit
def always(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.device_assert(B < 8, "small B")
    tl.store(o + i, tl.load(x + i))


@triton.jit
def out_of_range(x, o, B: tl.constexpr):
    """Writes at any address if the assertion lets it."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    tl.device_assert((v >= 0) & (v < 512), "index")
    tl.store(o + v.to(tl.int64) * 1000000, v, v >= 512)
    tl.store(o + v, v, v < 512)


@triton.jit(noinline=True)
def _checked(v, limit):
    tl.device_assert(v < limit, "inner")
    return v


@triton.jit(noinline=True)
def _checked_twice(v):
    for k in range(2):
        v = _checked(v, 3 + k)
    return v


@triton.jit
def in_a_function(x, o, B: tl.constexpr):
    block = tl.program_id(0)
    i = block * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i) + _checked_twice(block) - _checked(block, 5))


@triton.jit(noinline=True)
def _sum(a, b):
    tl.device_assert(a + b < 100000, "in a sum")
    return a + b


@triton.jit
def in_a_function_of_a_reduction(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    total = tl.reduce(v, 0, _sum)
    tl.device_assert(total < 200000, "it stops here")
    tl.store(o + i, v)


def line_of(text: str) -> int:
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(source, 1) if f'"{text}")' in line)


def case(fn: Any, values: Any, num_warps: int = 2) -> Case:
    return Case(
        fn,
        {"x": "*i32", "o": "*i32"},
        {"B": 128},
        lambda: [np.asarray(values, np.int32), empty(512, dtype=np.int32)],
        grid=(4, 1, 1),
        num_warps=num_warps,
    )


FINE = np.arange(512)


def with_one(position: int, value: int) -> Any:
    values = FINE.copy()
    values[position] = value
    return values


@pytest.mark.sample(3, each=("fn", "num_warps"))
@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize(
    ("fn", "values", "text", "blocks"),
    [
        (elements, with_one(300, 1000), "too big", {2}),
        (scalar, FINE, "block one", {1}),
        (in_a_loop, with_one(3, 2000), "branch", {0}),
        (always, FINE, "small B", {0, 1, 2, 3}),
        (out_of_range, with_one(511, 1 << 30), "index", {3}),
        (in_a_function, FINE, "inner", {3}),
    ],
)
def test_a_failed_assertion_is_told_and_its_block_stops(
    fn: Any, values: Any, text: str, blocks: set[int], num_warps: int
) -> None:
    made = case(fn, values, num_warps)
    artifact = compiled(made, debug=True)
    assert [p.hidden for p in artifact.parameters][-1] == "assert_memory"
    arguments = made.given()
    with pytest.raises(DeviceAssertError) as caught:
        launch(artifact, arguments, made.grid)
    said = str(caught.value)
    found = {b for b in range(4) if f"block ({b}, 0, 0)" in said}
    assert found <= blocks
    assert len(found) == 1
    where = f"{Path(__file__).name}:{line_of(repr(text)[1:-1])}"
    assert f"device_assert failed in {fn.fn.__name__} ({where}): {text}" in said
    for block in blocks:
        assert (arguments[1][block * 128 : (block + 1) * 128] == 77).all(), "the block went on"
    for block in set(range(4)) - blocks:
        part = slice(block * 128, (block + 1) * 128)
        factor = sum(range(block + 3)) if fn is in_a_loop else 1
        assert (arguments[1][part] == values[part] * factor).all()
    device().synchronize()  # told once


@pytest.mark.parametrize("fn", [elements, out_of_range])
def test_nothing_is_said_when_assertions_hold(fn: Any) -> None:
    made = case(fn, FINE)
    assert (run(made, debug=True)[1] == FINE).all()


def test_an_event_and_the_device_tell_too() -> None:
    from xtarget._values.types import LaunchConfig

    made = case(elements, with_one(0, 1000))
    artifact = compiled(made, debug=True)
    arguments = made.given()
    values = [a.ctypes.data for a in arguments]
    opened = device()
    module = opened.load(artifact)
    for wait in (lambda s: s.record().synchronize(), lambda s: opened.synchronize()):
        stream = opened.stream()
        module.function().launch(LaunchConfig((4, 1, 1)), [*values, 0, 0, 0], stream)
        with pytest.raises(DeviceAssertError, match="too big"):
            wait(stream)
        stream.synchronize()
        stream.close()
    module.close()


def test_without_debug_there_is_no_assertion(monkeypatch: pytest.MonkeyPatch) -> None:
    made = case(elements, with_one(0, 1000))
    assert [p.hidden for p in compiled(made).parameters][-1] == "profile_scratch"
    assert run(made)[1][0] == 1000
    monkeypatch.setattr(triton.knobs.runtime, "debug", True)
    assert [p.hidden for p in compiled(made).parameters][-1] == "assert_memory"


def test_pointers_as_integers() -> None:
    with pytest.raises(DeviceAssertError, match="too big"):
        run(case(elements, with_one(0, 1000)), debug=True, pointers="integer")


def test_overflow_is_an_assertion_of_debug() -> None:
    big = case(in_a_loop, np.full(512, 1 << 30))
    with pytest.raises(DeviceAssertError, match="int32 overflow detected"):
        run(big, debug=True)


@pytest.mark.sample(3)
@pytest.mark.parametrize("num_warps", [1, 4])
def test_a_function_that_combines_values_may_assert(num_warps: int) -> None:
    """It runs in some threads only, which cannot wait for the others."""
    made = case(in_a_function_of_a_reduction, with_one(130, 1 << 20), num_warps)
    with pytest.raises(DeviceAssertError, match="in a sum") as caught:
        run(made, debug=True)
    assert "block (1, 0, 0)" in str(caught.value)
    assert (run(case(in_a_function_of_a_reduction, FINE, num_warps), debug=True)[1] == FINE).all()


def test_the_sycl_driver_tells_too(monkeypatch: pytest.MonkeyPatch, mark_ran_on: Any) -> None:
    pytest.importorskip("dpctl", reason="dpctl is not installed, which the intel driver stands on")
    from xtarget._values.types import LaunchConfig
    from xtarget.targets import intel

    monkeypatch.setenv("XTARGET_INTEL_DEVICES", "opencl:cpu")
    report = intel.create_driver().probe()
    if not report.devices:
        pytest.skip(f"SYCL has no CPU device to run on: {report.reason}")
    opened = intel.create_driver().open(0)
    mark_ran_on("intel", opened.info.runs_on, opened.info.product)
    made = case(elements, with_one(300, 1000))
    artifact = replace(compiled(made, debug=True), target=opened.info.target)
    values = np.asarray(with_one(300, 1000), np.int32)
    buffers = [opened.alloc(values.nbytes) for _ in range(2)]
    for buffer in buffers:
        buffer.write(memoryview(values).cast("B"), opened.default_stream)
    module = opened.load(artifact)
    args = [*(buffer.address for buffer in buffers), 0, 0, 0]
    module.function().launch(LaunchConfig((4, 1, 1)), args, opened.default_stream)
    with pytest.raises(DeviceAssertError, match=r"too big First seen in block \(2, 0, 0\)"):
        opened.default_stream.synchronize()
    opened.synchronize()
    opened.close()


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("lanes", ["threads", "vectors"])
@pytest.mark.parametrize("fn", [elements, in_a_function, in_a_function_of_a_reduction])
def test_a_kernel_is_read_as_text_three_times_at_most(
    fn: Any, lanes: str, debug: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice; a third time to make lanes vectors. Triton has inlined functions with assertions."""
    given: list[Any] = []
    build = client.Worker.build

    def noted(self: Any, *arguments: Any, **options: Any) -> Any:
        given.append(arguments)
        return build(self, *arguments, **options)

    read: list[str] = []
    monkeypatch.setattr(client.Worker, "build", noted)
    compiled(case(fn, FINE, 1), debug=debug, lanes=lanes)
    monkeypatch.setattr(codegen, "read", lambda *a: (read.append(a[0]), llvm_read(*a))[1])
    _, kernel = codegen.prepare(*given[0])
    as_vectors = lanes == "vectors" and not debug
    assert len(read) == 2 + as_vectors
    assert kernel.asserts == debug
    assert (kernel.warp_size == 1) == as_vectors


def test_an_assertion_that_the_block_cannot_leave_the_kernel_for_is_refused() -> None:
    text = """
define void @f() {
  call void @llvm.trap()
  unreachable
}
define amdgpu_kernel void @k(ptr addrspace(1) %0) {
  call void @f()
  ret void
}
declare void @llvm.trap()
"""
    layout = Layout(num_warps=1, warp_size=16, shared_bytes=0)
    with pytest.raises(UnsupportedError, match="an assertion in the function f, which is not inl"):
        codegen.prepare(text, b"", "k", layout)
