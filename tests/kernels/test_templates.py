"""Elementwise kernels from text templates, without Triton and without a compiler of C."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import Any

import pytest
from c_route_programs import CHECKED
from operators import layouts, own
from processes import run_python

from xtarget._compile import functions
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._system.tools import find_tool
from xtarget._values.errors import ArgumentError, CompileError
from xtarget._values.types import Target
from xtarget.targets._template.route import TemplateRoute
from xtarget.targets._template.spirv import SpirvTemplates
from xtarget.targets.nvidia import cubin
from xtarget.targets.nvidia.template import PtxTemplates

#: Arithmetic that wraps, comparisons with nan, logic, bits, selection, conversions, numbers, half
#: types, functions.
ROWS = (
    "add-int8 sub-uint16 mul-float64 rsub-float32 square-int64 squared_difference-uint8 "
    "maximum-float32 fmin-int16 lt-uint64 ne-float64 isnan-float32 logical_xor-bool "
    "logical_and-float32 bitwise_not-uint8 bitwise_xor-int64 where-bool where-float32 "
    "masked_fill-int32 cast-int16 cast-bool relu-float32 leaky_relu-float64 degrees-int32 "
    "add-float16 mul-bfloat16 gelu-float32 silu-bfloat16 divmod-int8 pow-uint32 left_shift-int16 "
    "frexp-float32 nextafter-float64 bit_count-int32 floor_divide-float32 erf-float64 log1p-float16"
)
SCRIPT = (
    CHECKED
    + """x = np.arange(100_003, dtype=np.float32)
np.testing.assert_array_equal(xtarget.run("mul", x, 2.5, device=device), x * np.float32(2.5))
np.testing.assert_array_equal(xtarget.run("add", x[:0], x[:0], device=device), x[:0])
grid = x[:100_000].reshape(100, 10, 100)
odd = grid.transpose(2, 0, 1)[::2, :, ::-1]
np.testing.assert_array_equal(xtarget.run("add", odd, grid[0, :, 0], device=device),
                              odd + grid[0, :, 0])
width = ((1, 2), (0, 0), (3, 0))
padded = xtarget.run("pad", grid, width=width, device=device)
np.testing.assert_array_equal(padded, np.pad(grid, width))
for name in ("sum", "erfinv"):
    try:
        xtarget.run(name, x, device=device)
    except xtarget.CompileError as error:
        print(error)
"""
)
LACKING = """
from xtarget.targets._template.spirv import SpirvTemplates
from xtarget.targets.nvidia.template import PtxTemplates

SpirvTemplates._native = PtxTemplates._native
"""


def test_rows_are_right_without_any_compiler(device: str, tmp_path: Path) -> None:
    if device.partition(":")[0] not in ("cpu", "nvidia", "intel"):
        pytest.skip(f"{device} has no templates")
    words = ("-W", "ignore", "-c", SCRIPT, device, *ROWS.split())
    places = {"XTARGET_CACHE_DIR": str(tmp_path), "XTARGET_ROUTES": "strict,template"}
    done = run_python(*words, **places)
    assert done.returncode == 0, done.stderr
    assert "there is no template for the number of a block (" in done.stdout
    assert "there is no template for the function erfinv" in done.stdout


def test_functions_are_right_that_a_language_lacks(device: str, tmp_path: Path) -> None:
    """PTX gets its own code for functions that SPIR-V has."""
    if device.partition(":")[0] != "cpu":
        pytest.skip("once is enough, and on NVIDIA all rows have them")
    rows = " ".join(
        f"{name}-{dtype}"
        for dtype, names in (
            ("float32", "exp log1p tanh sin tan acos atan2 erfc erfcx fmod hypot ldexp cosh"),
            ("float64", "exp2 expm1 log log10 atan erf sin cos tan fmod"),
        )
        for name in names.split()
    )
    words = ("-W", "ignore", "-c", LACKING + CHECKED, device, *rows.split())
    places = {"XTARGET_CACHE_DIR": str(tmp_path), "XTARGET_ROUTES": "strict,template"}
    done = run_python(*words, **places)
    assert done.returncode == 0, done.stderr


def requests(target: Target, route: TemplateRoute) -> list[Any]:
    """Of each operator and dtype of a small array, those that there is a template for."""
    found = []
    for name in sorted({row.partition("-")[0] for row in ROWS.split()}):
        for dtype in own()[name].dtypes:
            with contextlib.suppress(ArgumentError):  # bools have no difference
                args = layouts(own()[name], dtype, (7, 129))
                made = planning.compile_requests(libraries.find(name), args, {}, target)
                found += [one for one in made if not route.refusal(one, target)]
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_ptxas_takes_each_text(arch: str, tmp_path: Path) -> None:
    triton = pytest.importorskip("triton", reason="ptxas comes with Triton's wheel")
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    tool /= "ptxas-blackwell" if arch == "sm_120" else "ptxas"
    target, route = Target("nvidia", arch), PtxTemplates()
    texts = [route.compile(one, target).binary.decode() for one in requests(target, route)]
    assert len(texts) > 250
    head, end = texts[0].partition(".address_size 64")[:2]
    bodies = [text.partition(end)[2].replace("xt_", f"k{n}_", 1) for n, text in enumerate(texts)]
    (tmp_path / "all.ptx").write_text("".join([head, end, *bodies]))
    command = [tool, "-arch", arch, "-O0", "all.ptx", "-o", "all.cubin"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(cubin.entries((tmp_path / "all.cubin").read_bytes())) == len(texts)


def test_each_module_is_valid(tmp_path: Path) -> None:
    tool = find_tool("spirv-val")
    if tool is None:
        pytest.skip("spirv-val is not installed")
    target = Target("cpu", "spirv64")
    path = tmp_path / "module.spv"
    route = SpirvTemplates(16)
    for one in requests(target, route)[::8]:
        path.write_bytes(route.compile(one, target).binary)
        command = [tool, "--target-env", "opencl2.1", path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (one.source.name, done.stdout + done.stderr)


def test_a_kernel_without_a_template_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XTARGET_ROUTES", "strict,template")
    target = Target("nvidia", "sm_90")
    args = layouts(own()["lgamma"], "float32", (7, 129))
    (one,) = planning.compile_requests(libraries.find("lgamma"), args, {}, target)
    with pytest.raises(CompileError, match="no template for the function lgamma of float64"):
        functions.artifact(one, target)
