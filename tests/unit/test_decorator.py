"""`@xtarget.kernel` and kernel libraries of the user's own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import run_python

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402

import xtarget  # noqa: E402
from xtarget._arrays import dtypes  # noqa: E402
from xtarget._kernels import libraries  # noqa: E402
from xtarget._launch.staging import pattern_of  # noqa: E402
from xtarget.spec import (  # noqa: E402
    ArrayType,
    Call,
    Example,
    Input,
    KernelSpec,
    Launch,
    Out,
    Output,
    Plan,
    Scalar,
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
    with pytest.raises(
        xtarget.XTargetError, match=r"z of its inputs .* x, y, alpha, out, n, BLOCK"
    ):
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


@pytest.mark.parametrize("dtype", ["float16", np.float16, np.dtype("float16"), "f2", tl.float16])
def test_an_outputs_dtype_may_be_numpys_or_tritons(dtype: object) -> None:
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
    call = Call(name, args, {}, None, "cpu", 2, dtypes.NumpyRules())
    return xtarget.catalog()[name].plan(call)


def raising(_: object) -> object:
    raise KeyError("tile")


@pytest.mark.parametrize(
    ("part", "changes", "reason"),
    [
        ("grid", {"grid": raising}, "KeyError: 'tile'"),
        ("grid", {"constants": {"BLOCK": 0}}, r"ZeroDivisionError: .* \(constants: BLOCK=0\)"),
        ("grid", {"grid": lambda c: (c.m,)}, "there is no 'm', only x, y, .*, n, BLOCK "),
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": 3}, "options are 3. Give a mapping"),
        ({"name": 3}, "its name is 3. Give it as text of one line"),
        ({"name": "a\nb"}, "Give it as text of one line"),
        ({"summary": 3}, "its summary is 3. Give it as text of one line"),
    ],
)
def test_what_is_no_text_or_mapping_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match=message):
        xtarget.kernel(
            **{"inputs": ("x",), "outputs": {"out": "x"}, "grid": lambda c: (1,), **changes}
        )


def test_a_parameter_without_a_value_is_refused() -> None:
    register(constants={}, grid=lambda c: 4)  # BLOCK becomes a flag that the caller has to give
    with pytest.raises(xtarget.ArgumentError, match=r"axpy needs BLOCK=\.\.\."):
        xtarget.compile("axpy", X, X, 2.0, target="cpu")
    assert xtarget.compile("axpy", X, X, 2.0, BLOCK=256, target="cpu")


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
    monkeypatch.setattr(libraries, "_ready", False)
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"outputs": ["out"]}, "outputs are .* a mapping"),
        ({"dtypes": "float32"}, "a tuple of names"),
        ({"dtypes": ("float3",)}, "no dtype 'float3'"),
        ({"inputs": "x"}, "a tuple of names"),
        ({"constants": {"BLOCK": [4]}}, "its constant 'BLOCK' is .*function of the call"),
        ({"options": {"maxreg": 32}}, "an option 'maxreg'. Did you mean maxnreg"),
        ({"updates": ("y",)}, "y of updates is none of its inputs"),
    ],
)
def test_a_mistake_in_a_declaration_is_said_at_once(given: Any, message: str) -> None:
    class Jitted:
        arg_names = ("x", "out", "BLOCK")
        cache_key = "0" * 64
        __name__ = "mistaken"
        fn, params = None, ()

    declared = {"inputs": ("x",), "outputs": {"out": "x"}, "grid": lambda c: (1,), **given}
    with pytest.raises(xtarget.XTargetError, match=message):
        xtarget.kernel(**declared)(Jitted())


#: Each kind of value, wrong and right; what fits a parameter is left out below.
KINDS: dict[str, Any] = {
    "none": None,
    "text": "a",
    "empty": "",
    "bytes": b"x",
    "3": 3,
    "zero": 0,
    "negative": -1,
    "huge": 2**70,
    "float": 1.5,
    "nan": math.nan,
    "inf": math.inf,
    "true": True,
    "false": False,
    "()": (),
    "(1,)": (1,),
    "('a',)": ("a",),
    "[]": [],
    "{}": {},
    "set": {"x"},
    "generator": (name for name in ("x",)),
    "object": object(),
    "function": len,
    "numpy": np.float32(2),
    "array": np.array([1, 2]),
}
FLAG = {"true", "false"}
NUMBERS = {"3", "zero", "negative", "huge", "float", "nan", "inf", "true", "false", "numpy", "none"}
#: By parameter: what it takes of these, and a word of its own that the sentence has.
TAKES: dict[str, tuple[set[str], str]] = {
    "inputs": ({"()", "[]", "{}", "none"}, "inputs"),
    "updates": ({"()", "[]"}, "updates"),
    "outputs": ({"none", "{}"}, "outputs"),
    "grid": ({"function", "text"}, "grid"),
    "sizes": ({"none", "{}"}, "sizes"),
    "constants": ({"none", "{}"}, "constants"),
    "options": ({"none", "{}"}, "options"),
    "complete": (FLAG, "complete"),
    "strided": (FLAG, "strided"),
    "elementwise": (FLAG, "elementwise"),
    "in_place": (FLAG, "in_place"),
    "scalars": ({"()", "[]", "{}"}, "scalars"),
    "flags": ({"none", "{}"}, "flags"),
    "workspaces": ({"none", "{}"}, "workspaces"),
    "configs": ({"()", "[]"}, "configs"),
    "key": ({"()", "[]"}, "key"),
    "prune": ({"none", "function"}, "prune"),
    "examples": ({"none", "function"}, "examples"),
    "num_warps": ({"function"}, "num_warps"),
    "num_stages": ({"3", "zero", "function"}, "num_stages"),
    "dtypes": (set(), "dtypes"),
    "reference": ({"none", "function"}, "reference"),
    "name": ({"none", "text"}, "name"),
    "summary": ({"none", "text", "empty"}, "summary"),
    "init": (NUMBERS, "init"),
    "maxnreg": ({"none", "3"}, "maxnreg"),
    "enable_fp_fusion": (FLAG, "enable_fp_fusion"),
    "lanes": ({"text", "empty"}, "lanes"),
}


class Mistaken:
    arg_names = ("x", "out", "BLOCK")
    cache_key = "0" * 64
    __name__ = "mistaken"
    __qualname__ = "mistaken"
    fn, params = None, ()


def declared(**given: Any) -> Any:
    known = {"inputs": ("x",), "outputs": {"out": "x"}, "grid": lambda c: (1,)}
    return xtarget.kernel(**{**known, **given})(Mistaken())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parameter", TAKES)
def test_every_parameter_refuses_every_wrong_kind(
    parameter: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "register", lambda *_: None)
    takes, word = TAKES[parameter]
    value = KINDS[kind]
    given = {parameter: value}
    if parameter == "init":
        given = {"outputs": {"out": Out("x", init=value)}}
    elif parameter in ("maxnreg", "enable_fp_fusion", "lanes"):
        given = {"options": {parameter: value}}
    if kind in takes:
        declared(**{"outputs": {}, **given} if parameter == "inputs" else given)
        return
    with pytest.raises(xtarget.XTargetError) as raised:
        declared(**given)
    said = str(raised.value)
    assert word in said
    assert said.endswith(".")
    assert len(said) < 700


@pytest.mark.parametrize("part", ["outputs", "sizes", "constants", "options"])
@pytest.mark.parametrize("name", [None, 3, b"x", (), 1.5])
def test_a_mapping_names_parameters_by_text(part: str, name: Any) -> None:
    value: Any = {"outputs": "x", "sizes": len, "constants": 1, "options": 1}[part]
    with pytest.raises(xtarget.XTargetError, match=r"which is no text|has an option"):
        declared(**{part: {name: value}})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"inputs": ("x", "x")}, "'x' is named twice in inputs"),
        ({"outputs": {"x": "x"}}, "'x' is named in inputs and outputs"),
        ({"constants": {"out": 1}}, "'out' is named in outputs and constants"),
        ({"num_warps": 6}, "num_warps is 6"),
        ({"num_warps": 2048}, "num_warps is 2048"),
        ({"num_stages": 10**6}, "num_stages is 1000000"),
        ({"options": {"num_ctas": 0}}, "num_ctas is 0. Give a whole number from 1"),
    ],
)
def test_a_value_out_of_range_or_twice(given: Any, message: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match=message):
        declared(**given)


def test_a_list_of_names_is_taken_as_it_is_now() -> None:
    names = ["x"]
    decorate = xtarget.kernel(inputs=names, outputs={"out": "x"}, grid=lambda c: (1,))
    names.append("y")
    decorate(Mistaken())  # type: ignore[type-var]
    assert libraries.find("mistaken").spec.inputs == ("x", "BLOCK")


def test_a_wrapper_that_is_not_known_is_refused() -> None:
    class Wrapper:
        arg_names = ("x", "out")

    with pytest.raises(xtarget.XTargetError, match=r"not a Wrapper: leave it out"):
        xtarget.kernel(inputs=("x",), outputs={"out": "x"}, grid=lambda c: 1)(Wrapper())


_ARRAY = ArrayType("float32", (4,), (1,))
_LAUNCH = Launch("kernels:negate", {"x": Input(0), "out": Output()}, {}, (1, 1, 1))


def _result(value: Any) -> Any:
    """Return the value; raise it if it is an exception."""
    if isinstance(value, Exception):
        raise value
    return value


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (None, "gave None"),
        (Plan([_ARRAY], ()), "has outputs"),  # type: ignore[arg-type]
        (Plan((ArrayType("float3", (4,), (1,)),), ()), "no known layout"),
        (Plan((_ARRAY,), (replace(_LAUNCH, grid=(1, 1)),)), "three integers"),  # type: ignore[arg-type]
        (Plan((_ARRAY,), (replace(_LAUNCH, args={"x": Input(3)}),)), "only 1 of these"),
        (Plan((_ARRAY,), (replace(_LAUNCH, args={"x": "x"}),)), "no argument"),  # type: ignore[dict-item]
        (Plan((_ARRAY,), (replace(_LAUNCH, grid=(1, 1, -1)),)), "three integers"),
        (Plan((_ARRAY,), (replace(_LAUNCH, grid=(1, True, 1)),)), "three integers"),
        (Plan((_ARRAY,), (replace(_LAUNCH, source=3),)), "no text"),  # type: ignore[arg-type]
        (Plan((_ARRAY,), (replace(_LAUNCH, num_warps="4"),)), "num_warps is '4'"),  # type: ignore[arg-type]
        (Plan((_ARRAY,), (replace(_LAUNCH, num_warps=3),)), "num_warps is 3"),
        (Plan((_ARRAY,), (replace(_LAUNCH, num_stages=-1),)), "num_stages is -1"),
        (Plan((_ARRAY,), (replace(_LAUNCH, options={"maxnreg": "a"}),)), "maxnreg is 'a'"),
        (Plan((_ARRAY,), (replace(_LAUNCH, options={"maxreg": 3}),)), "Did you mean maxnreg"),
        (Plan((_ARRAY,), (replace(_LAUNCH, options=None),)), "no mapping"),  # type: ignore[arg-type]
        (Plan((_ARRAY,), (replace(_LAUNCH, constants={"B": len}),)), "the constant B"),  # type: ignore[dict-item]
        (Plan((_ARRAY,), (replace(_LAUNCH, args={"x": Scalar(1, "float3")}),)), "of a dtype"),
        (Plan((_ARRAY,), (_LAUNCH,), init=(0, 1)), "has init"),
        (Plan((_ARRAY,), (_LAUNCH,), init=("0",)), "as init of output 0"),  # type: ignore[arg-type]
        (Plan((ArrayType("float32", (-4,), (1,)),), ()), "no known layout"),
        (Plan((ArrayType("float32", (1.5,), (1,)),), ()), "no known layout"),  # type: ignore[arg-type]
        (KeyError("axis"), "cannot be planned"),
        (ZeroDivisionError("n"), "cannot be planned"),
    ],
)
def test_a_plan_that_is_wrong_is_named(plan: Any, message: str) -> None:
    spec = KernelSpec("wrong.plan", ("x",), lambda call: _result(plan))
    libraries.register(spec, lambda text: None, "")  # type: ignore[arg-type,return-value]
    with pytest.raises(xtarget.ArgumentError, match=f"wrong.plan.*{message}"):
        xtarget.compile("wrong.plan", X, target="nvidia:sm_90")


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("inputs", "x", "a tuple of names"),
        ("dtypes", "float32", "a tuple of names"),
        ("plan", 5, "its plan is 5"),
        ("options", ["axis"], "its options is"),
        ("scalars", ("alpha",), "none of its inputs"),
        ("name", 3, "has the name 3"),
        ("name", " ", "has the name ' '"),
        ("inputs", ("x", "x"), "named twice"),
        ("dtypes", (), "takes no array at all"),
        ("complete", 3, "its complete is 3"),
        ("elementwise", "a", "its elementwise is 'a'"),
        ("reference", 3, "its reference is 3"),
        ("ahead", 3, "its ahead is 3"),
        ("c", 3, "its c is 3"),
        ("category", None, "its category is None"),
        ("summary", 3, "its summary is 3"),
    ],
)
def test_a_spec_that_is_wrong_is_named(part: str, value: Any, message: str) -> None:
    from xtarget._kernels.checks import check_spec

    spec = KernelSpec("wrong.spec", ("x",), lambda call: Plan((), ()))
    with pytest.raises(xtarget.XTargetError, match=message):
        check_spec(replace(spec, **{part: value}))


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (3, "no calls: TypeError"),
        (None, "no calls: TypeError"),
        ("ab", "no xtarget.spec.Example"),
        ([None], "no xtarget.spec.Example"),
        ([Example("ab")], "no tuple of shapes"),  # type: ignore[arg-type]
        ([Example((3,))], "no tuple of shapes"),  # type: ignore[arg-type]
        ([Example(((4.5,),))], "no tuple of shapes"),  # type: ignore[arg-type]
        ([Example(((-4,),))], "no tuple of shapes"),
        ([Example(((True,),))], "no tuple of shapes"),
        ([Example(((2**70,),))], "no tuple of shapes"),
        ([Example(())], "has 0 shapes"),
        ([Example(((4,), (4,)))], "has 2 shapes"),
        ([Example(((4,),), options=3)], "options are no mapping"),  # type: ignore[arg-type]
        ([Example(((4,),), {"axes": 1})], "no option 'axes'"),
        (ZeroDivisionError("n"), "no calls: ZeroDivisionError: n"),
    ],
)
def test_calls_to_build_for_that_are_none_are_named(calls: Any, message: str) -> None:
    from xtarget._bundle.builder.build import Order, wanted

    plan = lambda call: Plan((), ())  # noqa: E731
    spec = KernelSpec("wrong.ahead", ("x",), plan, ahead=lambda full: _result(calls))
    libraries.register(spec, lambda text: None, "")  # type: ignore[arg-type,return-value]
    order = Order(("wrong.ahead",), ("float32",), (xtarget.Target("nvidia", "sm_90"),))
    with pytest.raises(xtarget.XTargetError, match=f"wrong.ahead: its ahead gave .*{message}"):
        wanted(order)


@pytest.mark.parametrize("init", [-1, 2, 1.5, math.nan, math.inf, 2**70])
def test_a_bool_begins_as_one_of_two(init: float) -> None:
    array = ArrayType("bool", (4,), (1,))
    with pytest.raises(xtarget.ArgumentError, match="which is no bool"):
        pattern_of("k", 0, init, array)
    assert [pattern_of("k", 0, one, array) for one in (0, 1, False, True)] == [b"\0", b"\1"] * 2


def test_triton_s_interpreter_is_named_where_it_makes_python_of_a_kernel(tmp_path: Path) -> None:
    program = tmp_path / "interpreted.py"
    program.write_text(
        "import triton, xtarget\n"
        "@triton.jit\n"
        "def one(x, out): pass\n"
        "try:\n"
        "    xtarget.kernel(inputs=('x',), outputs={'out': 'x'}, grid=1)(one)\n"
        "except xtarget.XTargetError as error:\n"
        "    assert 'one cannot be compiled: TRITON_INTERPRET is set' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('no error')\n"
    )
    done = run_python(str(program), TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr
