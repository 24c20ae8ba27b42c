"""`@xtarget.kernel` and kernel libraries of the user's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402

import xtarget  # noqa: E402
from xtarget import _dtypes, _kernels  # noqa: E402
from xtarget.spec import (  # noqa: E402
    ArrayType,
    Call,
    Plan,
    ScalarType,
    broadcast_shapes,
    cdiv,
)

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


def test_a_grid_of_one_dimension_may_be_an_int_and_a_shape_too() -> None:
    register(
        grid=lambda c: cdiv(c.n, c.BLOCK),
        outputs={"out": lambda c: (c.x.size, c.x.dtype)},
    )
    plan = plan_of("axpy")
    assert plan.launches[0].grid == (4, 1, 1)
    assert plan.outputs == (X,)


@pytest.mark.parametrize("dtype", ["float16", np.float16, np.dtype("float16"), "f2"])
def test_an_outputs_dtype_may_be_numpys(dtype: object) -> None:
    register(outputs={"out": lambda c: (c.x.shape, dtype)})
    assert plan_of("axpy").outputs[0].dtype == "float16"


def test_an_output_may_be_like_one_before_it() -> None:
    @xtarget.kernel(
        inputs=("x",), outputs={"a": "x", "b": "a"}, grid=lambda c: 1, name="two_outputs"
    )
    @triton.jit
    def two(x, a, b):
        tl.store(a, tl.load(x))
        tl.store(b, tl.load(x))

    assert plan_of("two_outputs", X).outputs == (X, X)


def plan_of(name: str, *types: ArrayType | ScalarType) -> Plan:
    args = types or (X, X, ScalarType("float32"))
    call = Call(name, args, {}, None, "cpu", 2, _dtypes.NumpyRules())
    return xtarget.catalog()[name].plan(call)


def raising(_: object) -> object:
    raise KeyError("tile")


@pytest.mark.parametrize(
    ("part", "changes", "reason"),
    [
        ("grid", {"grid": raising}, "KeyError: 'tile'"),
        ("grid", {"constants": {"BLOCK": 0}}, r"ZeroDivisionError: .* \(constants: BLOCK=0\)"),
        ("grid", {"grid": lambda c: (c.m,)}, "there is no 'm' yet, only x, y, BLOCK, .*, n "),
        ("grid", {"grid": lambda c: None}, "gave None; it has to be 1 to 3 dimensions"),
        ("grid", {"grid": lambda c: ()}, r"gave \(\); it has to be 1 to 3 dimensions"),
        ("grid", {"grid": lambda c: (1.5,)}, "whole numbers"),
        ("grid", {"grid": lambda c: "4"}, "whole numbers"),
        ("grid", {"grid": lambda c: (-1,)}, "whole numbers ≥ 0"),
        ("size 'n'", {"sizes": {"n": lambda c: "a"}}, "gave 'a'; it has to be a whole number"),
        ("size 'n'", {"sizes": {"n": lambda c: 2**63}}, "at most 64 bits"),
        ("size 'n'", {"sizes": {"n": raising}}, "KeyError: 'tile'"),
        ("output 'out'", {"outputs": {"out": raising}}, "KeyError: 'tile'"),
        ("output 'out'", {"outputs": {"out": lambda c: c.x}}, r"a pair: \(shape, dtype\)"),
        ("output 'out'", {"outputs": {"out": lambda c: (1, 2, "int8")}}, "a pair"),
        ("output 'out'", {"outputs": {"out": lambda c: ("a", "int8")}}, "whole numbers"),
        ("output 'out'", {"outputs": {"out": lambda c: (-5, "int8")}}, "whole numbers ≥ 0"),
        ("output 'out'", {"outputs": {"out": lambda c: ((2, 1.5), "int8")}}, "whole numbers"),
        ("output 'out'", {"outputs": {"out": lambda c: (5, "foo")}}, "one of bool, int8"),
        ("output 'out'", {"outputs": {"out": lambda c: (5, None)}}, "one of bool, int8"),
        ("output 'out'", {"outputs": {"out": lambda c: (5, np.complex64)}}, "one of bool, int8"),
        ("output 'out'", {"outputs": {"out": lambda c: (5, tl.float32)}}, "one of bool, int8"),
    ],
)
def test_a_wrong_part_of_a_spec_is_named(
    part: str, changes: dict[str, object], reason: str
) -> None:
    register(**changes)
    with pytest.raises(xtarget.ArgumentError, match=f"^axpy: its {part} .*{reason}") as caught:
        xtarget.compile("axpy", X, X, 2.0, target="cpu")
    assert str(caught.value).endswith("Correct it in @xtarget.kernel.")


def test_a_rules_own_error_of_xtarget_stays_as_it_is() -> None:
    register(outputs={"out": lambda c: (broadcast_shapes((2,), (3,)), "int8")})
    with pytest.raises(xtarget.ArgumentError, match=r"^axpy: shapes \(2,\), \(3,\) do not"):
        xtarget.compile("axpy", X, X, 2.0, target="cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outputs": {"out": "z"}}, r"output 'out' cannot be like 'z', .* \(x, y\)"),
        ({"outputs": {"out": "BLOCK"}}, "output 'out' cannot be like 'BLOCK'"),
        ({"outputs": {"out": (5,)}}, r"output 'out' is \(5,\)"),
        ({"grid": (4,)}, r"grid is \(4,\)"),
        ({"sizes": {"n": 1000}}, "size 'n' is 1000"),
    ],
)
def test_what_is_wrong_at_once_is_told_at_once(changes: dict[str, object], message: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match=f"^axpy: its {message}"):
        register(**changes)


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


@pytest.mark.parametrize(
    ("catalog", "reason"),
    [
        ("KERNELS = (1, 2)", "contains 1, which is no xtarget.spec.KernelSpec"),
        ("KERNELS = 5", "TypeError"),
        ("", "KERNELS"),
        ("import sys; sys.exit(5)", "SystemExit: 5"),
        ("KERNELS = (", "SyntaxError"),
    ],
)
def test_a_catalog_that_is_none_is_refused(library: Path, catalog: str, reason: str) -> None:
    (library / "catalog.py").write_text(catalog)
    with pytest.raises(xtarget.XTargetError) as caught:
        xtarget.load_library(library)
    assert str(caught.value).startswith(f"the catalog of {library} cannot be used: ")
    assert reason in str(caught.value)


def test_a_catalog_with_a_wrong_entry_adds_no_kernel(library: Path) -> None:
    renamed = LIBRARY.replace('"negate"', '"never_added"').replace('-x"),', '-x"), 1,')
    (library / "catalog.py").write_text(renamed)
    with pytest.raises(xtarget.XTargetError, match="contains 1"):
        xtarget.load_library(library)
    assert "never_added" not in xtarget.catalog()


@pytest.mark.parametrize("path", [None, 3, "a\0b"])
def test_a_library_that_is_no_path_is_refused(path: object) -> None:
    with pytest.raises(xtarget.XTargetError, match="by the path of its folder"):
        xtarget.load_library(path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (TRITON.replace("def negate(", "def negate(("), "kernels.py:7: "),
        ("a = '\0'", "kernels.py"),
        (TRITON.replace("negate", "other"), "kernels.py has no @triton.jit function 'negate'"),
        ("negate = 5", "kernels.py has no @triton.jit function 'negate'"),
        ("import no_such_module", "kernels.py cannot be imported: ModuleNotFoundError: No module"),
        ("import sys; sys.exit(5)", "kernels.py cannot be imported: SystemExit: 5"),
    ],
)
def test_a_triton_file_that_is_wrong_is_named(library: Path, file: str, message: str) -> None:
    (library / "kernels.py").write_text(file)
    xtarget.load_library(library)
    with pytest.raises(xtarget.CompileError) as caught:
        xtarget.compile("negate", X, target="nvidia:sm_90")
    assert f"{library}/{message}" in str(caught.value)
    assert "Correct" in str(caught.value)


def test_an_unknown_kernel_suggests_near_ones() -> None:
    with pytest.raises(xtarget.UnknownKernelError, match="Did you mean softmax"):
        xtarget.run("sofmax", [1.0])
    with pytest.raises(xtarget.UnknownKernelError, match="xtarget kernels"):
        xtarget.run("zzzzzz", [1.0])
    with pytest.raises(xtarget.UnknownKernelError, match="by its name"):
        xtarget.run(test_an_unknown_kernel_suggests_near_ones, 1.0)  # type: ignore[arg-type]
