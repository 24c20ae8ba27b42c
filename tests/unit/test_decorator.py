"""`@xtarget.kernel`: what it declares, and the errors of calls and compilations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import run_python

pytest.importorskip("triton")

import triton
import triton.language as tl

import xtarget
from xtarget._arrays import dtypes
from xtarget._values.sizes import contiguous_strides
from xtarget.spec import (
    ABSENT,
    ArrayType,
    Call,
    In,
    Out,
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


def plan_of(name: str, *types: Any) -> Plan:
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
        (
            {"inputs": None},
            r"output 'out' cannot be like 'x', which is a number, .*inputs=\(\"x\",\)",
        ),
        ({"outputs": {"out": (5,)}}, r"output 'out' is \(5,\)"),
        ({"grid": 4.5}, r"grid is 4\.5"),
        ({"sizes": {"n": [1000]}}, r"size 'n' is \[1000\]"),
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


INTERPRETED = """
import torch, triton, triton.language as tl, xtarget
from xtarget.spec import In, Out, step

@xtarget.kernel(grid="cdiv(N, B)", constants={"B": 8})
@triton.jit
def doubled(x: In["float32", "N"], out: Out["x"], N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < N) * 2, i < N)

@xtarget.kernel(inputs={"x": In["float32", "N"]}, outputs={"out": "x"}, constants={"B": 8})
def chain(c):
    yield step(doubled, 2)

x, out = torch.arange(13.0), torch.zeros(13)
doubled[(2,)](x, out, 13, B=8)
assert (out == x * 2).all()
for call in (lambda: xtarget.run("doubled", x), lambda: xtarget.get(doubled)(x),
             lambda: xtarget.run("chain", x), lambda: xtarget.compile("doubled", x, target="cpu")):
    try:
        call()
    except xtarget.XTargetError as error:
        assert "TRITON_INTERPRET is set, so Triton made a Python function" in str(error), error
    else:
        raise SystemExit("no error")
"""


def test_triton_s_interpreter_runs_a_kernel_in_its_own_launches_and_is_named_in_ours(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch", reason="the interpreter takes torch's tensors")
    program = tmp_path / "interpreted.py"
    program.write_text(INTERPRETED)
    done = run_python(str(program), TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("flaot32", "which is none. Did you mean float32"),
        ("int", "which is none. Did you mean int8"),
        ("float16|bflaot16", "'bflaot16', which is none. Did you mean bfloat16"),
        ("float8_e5m2fnuz", r"which kernels do not take. .* .to\(tl.float8e5b16, bitcast=True\)"),
    ],
)
def test_a_word_that_is_nearly_a_dtype_is_refused(dtype: str, message: str) -> None:
    with pytest.raises(
        xtarget.ArgumentError, match=f"^axpy: the dtype of its parameter 'x' .*{message}"
    ):
        register(inputs={"x": In[dtype, "n"], "y": In["T", "n"]}, sizes={})


@pytest.mark.parametrize(
    ("dims", "shape", "found"),
    [
        (("2 * D",), (10,), 5),
        (("D + 1",), (10,), 9),
        (("3 * D - 2",), (10,), 4),
        ((..., "D * BLOCK"), (2, 3, 512), 2),
        (("BLOCK * 0 * D",), (0,), 0),
    ],
)
def test_a_length_is_found_in_a_formula(
    dims: tuple[Any, ...], shape: tuple[int, ...], found: int
) -> None:
    register(
        inputs={"x": In[("float32", *dims)], "y": In["float32"]},
        outputs={"out": Out["float32", "D"]},
        sizes={"n": "D"},
        grid="D",
    )
    given = ArrayType("float32", shape, contiguous_strides(shape))
    plan = plan_of("axpy", given, X, ScalarType("float32"))
    assert plan.outputs[0].shape == (found,)


@pytest.mark.parametrize(("grid", "blocks"), [(1, (1, 1, 1)), ((3, 2), (3, 2, 1))])
def test_a_grid_may_be_numbers(grid: Any, blocks: tuple[int, ...]) -> None:
    register(grid=grid, sizes={"n": 1000})
    assert plan_of("axpy").launches[0].grid == blocks


def test_a_length_of_an_array_that_is_left_out_is_found_in_a_formula_of_another() -> None:
    inputs = {"x": In["float32", "D + 1"], "y": In["float32", "D"] | None}
    outputs = {"out": Out["float32", "D"]}
    register(inputs=inputs, outputs=outputs, sizes={"n": "D"}, grid="D")
    x, nine = (ArrayType("float32", (n,), (1,)) for n in (10, 9))
    for y in (nine, ABSENT):
        plan = plan_of("axpy", x, y, ScalarType("float32"))
        assert plan.outputs[0].shape == (9,)
    with pytest.raises(xtarget.ArgumentError, match=r"whose dimension 0 has to be D \+ 1 = 11"):
        plan_of("axpy", x, x, ScalarType("float32"))
    inputs["x"] = In["float32", "L"]
    register(inputs=inputs, outputs=outputs, sizes={"n": "D"}, grid="D")
    with pytest.raises(xtarget.ArgumentError, match=r"D is a length of y, .* left out\. Give y"):
        plan_of("axpy", x, ABSENT, ScalarType("float32"))
