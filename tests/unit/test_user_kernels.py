"""`@xtarget.kernel` and kernel libraries of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402

import xtarget  # noqa: E402
from xtarget import _kernels  # noqa: E402
from xtarget.spec import ArrayType, cdiv  # noqa: E402

X = ArrayType("float32", (1000,), (1,))


def register(**changes: object):
    """Register a small kernel; `changes` replace parts of its spec."""

    @triton.jit
    def axpy(x, y, alpha, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        m = i < n
        value = alpha * tl.load(x + i, mask=m) + tl.load(y + i, mask=m)
        tl.store(out + i, value, mask=m)

    spec = {
        "inputs": ("x", "y"),
        "outputs": {"out": "x"},
        "sizes": {"n": lambda c: c.x.size},
        "constants": {"BLOCK": 256},
        "grid": lambda c: (cdiv(c.n, c.BLOCK),),
        **changes,
    }
    return xtarget.kernel(**spec)(axpy)


def test_a_registered_kernel_is_in_the_catalog_and_compiles_for_every_vendor() -> None:
    function = register()
    assert xtarget.catalog()["axpy"].inputs == ("x", "y", "alpha")
    assert function.__name__ == "axpy"  # unchanged: Triton can use it as before
    for target in ("nvidia:sm_90", "amd:gfx942", "intel:spirv64"):
        (artifact,) = xtarget.compile("axpy", X, X, 2.0, target=target)
        assert artifact.entry == "axpy"
        names = [p.name for p in artifact.parameters if p.hidden is None]
        assert names == ["x", "y", "alpha", "out", "n"]


def test_it_can_have_a_name_of_its_own() -> None:
    register(name="my.axpy")
    assert "my.axpy" in xtarget.catalog()


def test_a_name_that_is_no_parameter_is_refused() -> None:
    with pytest.raises(xtarget.XTargetError, match=r"z of its spec .* x, y, alpha, out, n, BLOCK"):
        register(inputs=("x", "z"))


def test_a_function_that_is_not_jitted_is_refused() -> None:
    with pytest.raises(xtarget.XTargetError, match=r"@triton\.jit"):
        xtarget.kernel(inputs=("x",), outputs={"x": "x"}, grid=lambda c: (1,))(lambda x: x)


def test_views_are_refused_unless_the_kernel_takes_strides() -> None:
    register()
    every_other = ArrayType("float32", (500,), (2,))
    with pytest.raises(xtarget.ArgumentError, match=r"not C-contiguous.*strided=True"):
        xtarget.compile("axpy", every_other, every_other, 2.0, target="cpu")
    register(strided=True)
    assert xtarget.compile("axpy", every_other, every_other, 2.0, target="cpu")


def test_an_array_for_a_number_is_refused() -> None:
    register()
    with pytest.raises(xtarget.ArgumentError, match="alpha is a number"):
        xtarget.compile("axpy", X, X, X, target="cpu")


def test_a_grid_of_four_dimensions_is_refused() -> None:
    register(grid=lambda c: (1, 1, 1, 1))
    with pytest.raises(xtarget.ArgumentError, match="1 to 3 dimensions"):
        xtarget.compile("axpy", X, X, 2.0, target="cpu")


def test_a_parameter_without_a_value_is_refused() -> None:
    register(constants={})  # BLOCK becomes a number that the caller has to give
    with pytest.raises(xtarget.ArgumentError, match="takes 4 arguments"):
        xtarget.compile("axpy", X, X, 2.0, target="cpu")


@triton.jit
def doubled(x):
    return tl.no_such_function(x)


@pytest.mark.parametrize("target", ["nvidia:sm_90", "amd:gfx942", "cpu"])
def test_tritons_error_comes_with_file_and_line(target: str) -> None:
    @xtarget.kernel(inputs=("x",), outputs={"out": "x"}, grid=lambda c: (1,))
    @triton.jit
    def broken(x, out):
        value = tl.load(x)
        tl.store(out, value + undefined)  # noqa: F821 # here: broken

    @xtarget.kernel(inputs=("x",), outputs={"out": "x"}, grid=lambda c: (1,))
    @triton.jit
    def calls_broken(x, out):
        tl.store(out, doubled(tl.load(x)))

    lines = Path(__file__).read_text().splitlines()
    for name, mark, said in (
        ("broken", "here: broken", "undefined is not defined"),
        ("calls_broken", "    return tl.no_such_function(x)", "no_such_function"),
    ):
        line = next(i for i, text in enumerate(lines, 1) if mark in text and "(" in text)
        with pytest.raises(xtarget.CompileError) as caught:
            xtarget.compile(name, X, target=target)
        assert name in str(caught.value)
        assert f"{__file__}:{line}:" in str(caught.value)
        assert said in str(caught.value)


LIBRARY = """
from xtarget.spec import Input, KernelSpec, Launch, Output, Plan


def _plan(call):
    x = call.array(0)
    out = call.output(x.shape, x.dtype)
    args = {"x": Input(0), "out": Output(), "n": x.size}
    return Plan((out,), (Launch("kernels:negate", args, {}, (x.size, 1, 1)),))


KERNELS = (KernelSpec("negate", ("x",), _plan, summary="-x"),)
"""
TRITON = """
import triton
import triton.language as tl


@triton.jit
def negate(x, out, n):
    i = tl.program_id(0)
    tl.store(out + i, -tl.load(x + i))
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "catalog.py").write_text(LIBRARY)
    (tmp_path / "kernels.py").write_text(TRITON)
    return tmp_path


def test_a_folder_with_a_catalog_is_a_library(library: Path) -> None:
    assert xtarget.load_library(library) == ("negate",)
    (artifact,) = xtarget.compile("negate", X, target="nvidia:sm_90")
    assert artifact.entry == "negate"


def test_the_variable_names_libraries(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_KERNELS", str(library))
    monkeypatch.setattr(_kernels, "_ready", False)
    assert "negate" in xtarget.catalog()


def test_a_folder_without_a_catalog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(xtarget.XTargetError, match=r"no catalog\.py"):
        xtarget.load_library(tmp_path)


def test_a_broken_catalog_is_refused_with_its_error(library: Path) -> None:
    (library / "catalog.py").write_text("KERNELS = 1 / 0\n")
    with pytest.raises(xtarget.XTargetError, match="ZeroDivisionError"):
        xtarget.load_library(library)


def test_an_unknown_kernel_suggests_near_ones() -> None:
    with pytest.raises(xtarget.UnknownKernelError, match="Did you mean softmax"):
        xtarget.run("sofmax", [1.0])
    with pytest.raises(xtarget.UnknownKernelError, match="xtarget kernels"):
        xtarget.run("zzzzzz", [1.0])
    with pytest.raises(xtarget.UnknownKernelError, match="by its name"):
        xtarget.run(test_an_unknown_kernel_suggests_near_ones, 1.0)  # type: ignore[arg-type]
