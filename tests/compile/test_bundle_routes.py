"""Bundles whose binaries are made by other routes than Triton, as `XTARGET_ROUTES` says."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from small_bundles import only_examples, printed_with

import xtarget
from xtarget import Target
from xtarget._bundle.builder.build import Order, build
from xtarget._bundle.format import BundleFile
from xtarget._devices import registry
from xtarget._kernels import libraries
from xtarget._values.errors import ArgumentError, CompileError
from xtarget.spec import Example

CPU, SM_90 = Target("cpu", "spirv64"), Target("nvidia", "sm_90")
PROGRAM = """
import sys
sys.modules["triton"] = None  # nobody can import it
import numpy as np
import xtarget
x = np.linspace(-3, 3, 4096, dtype=np.float32)
np.testing.assert_array_equal(xtarget.run("relu", x), np.maximum(x, 0))
print("right")
"""


@pytest.fixture(autouse=True)
def small(tmp_path: Path) -> Iterator[None]:
    examples = {"relu": [Example(((4096,),))], "sort": [Example(((8, 64),))]}
    with only_examples(examples, tmp_path / "cache"):
        yield


def made(
    patch: pytest.MonkeyPatch, path: Path, routes: str, target: Target, *kernels: str
) -> list[dict[str, str]]:
    """Route and format of each binary of a bundle that is built by these routes."""
    patch.setenv("XTARGET_ROUTES", routes)
    report = build(Order(kernels, ("float32",), (target,)), path, workers=1, seconds=100)
    assert not report.errors
    file = BundleFile(path)
    return [
        {key: variant["artifact"][key] for key in ("route", "format")}
        for record in file.records(target)
        for variant in record["variants"]
    ]


def callers(path: Path, target: Target) -> list[str]:
    """The kernels that programs without Python can call."""
    return [kernel for kernel, _, _ in BundleFile(path).call_records(target)]


def has_cpu() -> bool:
    return bool(registry.probe("cpu").devices)


@pytest.mark.parametrize(("route", "format_"), [("opencl", "cl"), ("template", "spirv")])
def test_a_bundle_for_the_cpu_by_a_route(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, route: str, format_: str
) -> None:
    if not has_cpu():
        pytest.skip("there is no OpenCL run time for CPUs")
    path = tmp_path / "a.xtb"
    binaries = made(monkeypatch, path, route, CPU, "relu")
    assert binaries
    assert all(one == {"route": route, "format": format_} for one in binaries)
    # libxtarget loads SPIR-V, and no text
    assert callers(path, CPU) == (["relu"] if format_ == "spirv" else [])
    monkeypatch.delenv("XTARGET_ROUTES")
    assert printed_with(path, tmp_path, PROGRAM) == "right\n"


def test_a_kernel_that_the_first_route_cannot_do_is_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binaries = made(monkeypatch, tmp_path / "a.xtb", "template,triton", CPU, "relu", "sort")
    assert {one["route"] for one in binaries} == {"template", "triton"}


def test_ptx_by_a_template_is_called_from_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.xtb"
    binaries = made(monkeypatch, path, "template", SM_90, "relu")
    assert {one["route"] for one in binaries} == {"template"}
    assert callers(path, SM_90) == ["relu"]


def test_other_routes_make_another_bundle_and_the_same_ones_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.xtb"
    order = Order(("relu",), ("float32",), (SM_90,))
    by_triton = made(monkeypatch, path, "", SM_90, "relu")
    assert {one["route"] for one in by_triton} == {"triton"}
    assert {one["route"] for one in made(monkeypatch, path, "template", SM_90, "relu")} == {
        "template"
    }
    assert build(order, path, workers=1, seconds=100).up_to_date
    path.unlink()
    again = build(order, path, workers=1, seconds=100)
    assert (again.compiled, again.from_cache > 0) == (0, True)
    # Triton's entries stay Triton's
    assert made(monkeypatch, path, "triton,template", SM_90, "relu") == by_triton


CATALOG = """
from xtarget.spec import Example, Input, KernelSpec, Launch, Output, Plan


def plan(call):
    out = call.output(call.array(0).shape, "float32")
    args = {"x": Input(0), "out": Output(), "n": call.array(0).size}
    return Plan((out,), (Launch("own:thrice", args, {"BLOCK": 64}, (1, 1, 1)),))


KERNELS = (
    KernelSpec("thrice", ("x",), plan, summary="3 x", dtypes=("float32",),
               ahead=lambda full: [Example(((64,),))]),
)
"""
TRITON = """
import triton
import triton.language as tl


@triton.jit
def thrice(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, 3 * tl.load(x + i, i < n), i < n)
"""
WRONG_C = """
KERNEL(THREADS) void thrice(GLOBAL const TYPE_x* x, GLOBAL TYPE_out* out, int n) {
  if (xt_thread < n) out[xt_thread] = 3 * y[xt_thread];
}
"""


def test_c_that_does_not_compile_gives_its_line_and_says_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_cpu():
        pytest.skip("there is no OpenCL run time for CPUs")
    folder = tmp_path / "library"
    folder.mkdir()
    for name, text in (("catalog.py", CATALOG), ("own.py", TRITON), ("own.thrice.cl", WRONG_C)):
        (folder / name).write_text(text)
    monkeypatch.setenv("XTARGET_ROUTES", "strict,opencl")
    monkeypatch.setattr(libraries, "_kernels", dict(libraries._kernels))
    xtarget.load_library(folder)
    order = Order(("thrice",), ("float32",), (CPU,))
    with pytest.raises(CompileError) as told:
        build(order, tmp_path / "a.xtb", workers=1, seconds=100)
    said = str(told.value)
    assert "thrice did not compile for cpu:spirv64 by the route opencl. Correct its source:" in said
    assert "own.thrice.cl:3:" in said
    assert "report" not in said


def test_workers_of_an_executor_are_not_asked_for_a_route(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XTARGET_ROUTES", "template")
    order = Order(("relu",), ("float32",), (SM_90,))
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(ArgumentError, match="XTARGET_ROUTES begins with template for nvidia:sm_90"),
    ):
        build(order, tmp_path / "a.xtb", workers=1, seconds=100, executor=executor)
