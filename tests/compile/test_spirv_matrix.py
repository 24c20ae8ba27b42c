"""Every kernel at every size of block and sub-group, and with a block's lanes as vectors: a module
that spirv-val takes, and NumPy's result. Long tests, but for one of each.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loading import load_file
from operators import arrays, own, sample, sampled, takes

import xtarget
from xtarget._launch import run, specializing
from xtarget._launch.classes import Classes

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")

sys.path.insert(0, str(Path(__file__).parent))
import spirv_kernels as kernels
import spirv_language as language
import test_spirv
from spirv_run import check, compiled, device, launch

HERE = Path(__file__).parent
WARPS, SIZES = (1, 4, 8), (16, 32)
CASES = {**kernels.CASES, **language.CASES}
#: Sums whose lanes meet in another order as vectors.
REASSOCIATED = ("reductions_", "product_", "dot", "scans_", "descriptor_sums")
#: Kernels for blocks of one thread: more warps would count and place the same elements in a race.
ONE_THREAD = "radix.py"
#: Unrolled for the one warp, its code takes Intel's JIT over a minute: compiled only.
ENDLESS = ("dot_fp16_out",)


def short(name: str, chosen: str) -> Any:
    return pytest.param(name, marks=() if name == chosen else pytest.mark.long)


def assert_valid(binary: bytes) -> None:
    """spirv-val's answer, less its quarrel with printf's format (see test_spirv.py)."""
    if test_spirv.VALIDATOR is not None:
        said = test_spirv.complaint(binary)
        assert not said or "printf: expected Format data type" in said


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("num_warps", WARPS)
@pytest.mark.parametrize("name", [short(name, "scalars") for name in kernels.CASES])
def test_language(name: str, num_warps: int, size: int, mark_ran_on: Any) -> None:
    case = replace(kernels.CASES[name], num_warps=num_warps, warp_size=size)
    artifact = compiled(case)
    assert_valid(artifact.binary)
    if case.expect:
        info = device().info
        mark_ran_on("cpu", info.runs_on, info.product)
        check(case, artifact, name)


@pytest.mark.parametrize("name", [short(name, "control") for name in CASES])
def test_language_as_vectors(name: str, mark_ran_on: Any) -> None:
    case = replace(CASES[name], num_warps=1, warp_size=16)
    artifact = compiled(case, lanes="vectors")
    assert_valid(artifact.binary)
    if not case.expect or name in ENDLESS:
        return
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    check(case, artifact, name)
    if name.startswith(REASSOCIATED):
        return
    given = case.given()
    found = []
    for made in (artifact, compiled(case, lanes="threads")):
        arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
        launch(made, arguments, case.grid)
        found.append([bits(a) for a in arguments])
    assert found[0] == found[1]


def bits(value: Any) -> bytes:
    """The value's bytes, with all NaNs alike: which one an operation gives is not said."""
    array = np.asarray(value)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.nan, array).astype(array.dtype)
    return array.tobytes()


@cache
def oracle() -> Any:
    """tests/kernels/oracle.py."""
    return load_file(HERE.parent / "kernels" / "oracle.py", name="kernels_oracle")


def inputs(name: str) -> list[tuple[Any, dict[str, Any]]]:
    """Calls of a kernel of the catalog that reach its launches."""
    if name == "matmul":
        return [((sample("float32", 70, 93), sample("float32", 93, 75)), {})]
    if name in ("sum", "max"):
        x = sample("float32", 33, 1025)
        return [((x,), {"axis": 1}), ((x,), {"axis": 0}), ((x,), {})]
    spec = xtarget.catalog()[name]
    shape = (33, 100) if spec.elementwise else (20, 1500)
    dtype = next(one for one in ("float32", *spec.dtypes) if takes(spec, one))
    return [(tuple(arrays(spec, dtype, shape)), {})]


@pytest.mark.sample(6, each=("name", "num_warps", "size"))
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("num_warps", WARPS)
@pytest.mark.parametrize(
    "name", [sampled(name, name) for name in sorted(own()) if "float32" in own()[name].dtypes]
)
def test_catalog(
    name: str, num_warps: int, size: int, monkeypatch: pytest.MonkeyPatch, mark_ran_on: Any
) -> None:
    request_of = specializing._request
    sized_options = (("warp_size", size),)

    def sized(*given: Any) -> Any:
        request, slots = request_of(*given)
        options = (*request.options, *sized_options)
        warps = 1 if Path(request.source.path).name == ONE_THREAD else num_warps
        return replace(request, num_warps=warps, options=options), slots

    monkeypatch.setattr(specializing, "_request", sized)
    monkeypatch.setattr(run, "_calls", {})
    monkeypatch.setattr(run, "_classes", Classes())
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    for args, options in inputs(name):
        oracle().check(name, *args, device="cpu:0", **options)


def test_every_size_is_asked_for() -> None:
    assert set(product(WARPS, SIZES)) == {(1, 16), (1, 32), (4, 16), (4, 32), (8, 16), (8, 32)}
    assert set(REASSOCIATED) <= {
        prefix for prefix in REASSOCIATED if any(name.startswith(prefix) for name in CASES)
    }
