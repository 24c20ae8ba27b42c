"""`@xtarget.kernel`'s words for declarations and calls that do not fit: the parameter, the line
where it stands, and what would."""
# ruff: noqa: F821 - the words in annotations are lengths

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl

import xtarget
from xtarget.spec import (
    ArrayType,
    Config,
    In,
    InOut,
    Out,
    Stride,
    contiguous_strides,
    dtype_constant,
    step,
)


def f32(*shape: int) -> ArrayType:
    return ArrayType("float32", shape, contiguous_strides(shape))


@xtarget.kernel(name="d.scaled", grid="M", flags={"KIND": dtype_constant("float32")})
@triton.jit
def scaled(x: In["float16|float32", "M", "N"], factor, y: In["x", "2 * M"] | None,
           out: Out["KIND", "M", "N"], N, shift=0, MODE: tl.constexpr = "up",
           KIND: tl.constexpr = tl.float32, WIDE: tl.constexpr = False):  # fmt: skip
    i = tl.program_id(0) * N
    tl.store(out + i, (tl.load(x + i) * factor + shift).to(KIND))


def compiled(name: str, *args: Any, **options: Any) -> Any:
    return xtarget.compile(name, *args, target="cpu", **options)


def names(made: Any) -> list[str]:
    return [p.name for p in made[0].parameters if p.hidden is None]


def test_arguments_stand_in_the_functions_order_and_have_names() -> None:
    spec = xtarget.catalog()["d.scaled"]
    assert spec.inputs == ("x", "factor", "y?", "shift?")
    x = f32(4, 8)
    assert names(compiled("d.scaled", x, 2.0)) == ["x", "factor", "out", "N", "shift"]
    assert names(compiled("d.scaled", x, factor=2.0, y=f32(8))) == ["x", "factor", "y", "out", "N",
                                                                   "shift"]  # fmt: skip
    (made,) = compiled("d.scaled", x, 2.0, shift=3, KIND="float16", MODE="down")
    types = {p.name: p.type for p in made.parameters}
    assert (types["out"], types["shift"]) == ("*fp16", "i32")
    signature = inspect.signature(xtarget.get("d.scaled"))
    assert str(signature).startswith("(x, factor, y=..., shift=..., *, out=None")
    assert signature.parameters["KIND"].default == "float32"  # as a call gives it


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((f32(4, 8),), {}, r"takes 2 to 4 arguments \(x, factor, y\?, shift\?\), not 1"),
        ((f32(4, 8),), {"y": f32(8)}, "factor is None. Give a number"),
        ((None, 2.0), {}, "x is None. Give an array"),
        ((f32(4, 8), 2.0), {"factor": 2.0}, "factor is given twice"),
        ((f32(4, 8), 2.0), {"scale": 2.0}, "no option 'scale'; its options: KIND, MODE, WIDE"),
        ((f32(4, 8), 2.0), {"shfit": 2}, r"no option 'shfit'; .* Did you mean shift\?"),
        ((f32(4, 8), "2.0"), {}, "factor is '2.0'. Give a number"),
        ((f32(4, 8), np.ones(3)), {}, "factor is a number, not an array. Give .item"),
        ((f32(8), 2.0), {}, r"x has shape \(8,\), and it takes M, N: 2 dimensions"),
        ((f32(4, 8), 2.0, f32(7)), {}, r"y has shape \(7,\), .* 0 has to be 2 \* M = 8"),
        ((ArrayType("int8", (4, 8), (8, 1)), 2.0), {}, "takes float16, float32"),
        ((f32(4, 8), 2.0, ArrayType("float16", (8,), (1,))), {}, "takes float32 as x"),
        ((f32(4, 8), 2.0), {"KIND": "float31"}, "KIND='float31' is not a dtype"),
        ((f32(4, 8), 2.0), {"MODE": [1]}, r"MODE=\[1\] is not a constant"),
        ((f32(4, 8), 2.0), {"WIDE": 3}, "WIDE=3 is not a bool"),
    ],
)
def test_arguments_that_do_not_fit_are_named(args: Any, options: Any, message: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match=f"^d.scaled.*{message}"):
        compiled("d.scaled", *args, **options)


@triton.jit
def two(x, y, n, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n), i < n)
    tl.store(y + i, tl.load(x + i, i < n), i < n)  # here: y


LINE = next(
    n for n, text in enumerate(inspect.getsource(inspect.getmodule(two.fn)).splitlines(), 1)
    if text.endswith("# here: " + "y")
)  # fmt: skip
SPEC: dict[str, Any] = {
    "name": "d.two",
    "inputs": ("x", "y"),
    "outputs": {"out": "x"},
    "sizes": {"n": "x.size"},
    "constants": {"B": 64},
    "grid": "1",
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sizes": {"m": "x.size"}},
            r"m of its sizes is not a parameter .*test_declarations.py:\d+",
        ),
        ({"constants": {"C": 1}}, "C of its constants is not a parameter .* x, y, n, out, B"),
        ({"grid": "cdiv(n, "}, "its grid is 'cdiv.n, ', which is not a formula"),
        ({"grid": None}, "it has no grid. Give the number of blocks"),
        ({"outputs": {"out": Out("x", count="n")}}, "counted by 'n', which is none of its outputs"),
        ({"workspaces": {"out": "x"}}, "'out' is named in outputs and workspaces"),
        ({"configs": [3]}, "3 of its configs is not a configuration"),
        ({"configs": [Config({"B": 4}), Config({"C": 4})]}, "name different constants"),
        ({"key": ("q",), "configs": [Config({"B": 4})]}, "its key names 'q'"),
        ({"inputs": {"x": 3}}, "its input 'x' is 3. Write what it is as In"),
    ],
)
def test_declarations_that_do_not_fit_are_named_at_once(changes: Any, message: str) -> None:
    with pytest.raises(xtarget.XTargetError, match=message):
        xtarget.kernel(**{**SPEC, **changes})(two)


def test_a_formula_of_unknown_names_says_which_there_are() -> None:
    xtarget.kernel(**{**SPEC, "grid": "cdiv(q, 4)"})(two)
    with pytest.raises(xtarget.ArgumentError, match=r"there is no 'q', only x, y, .*, n, B"):
        compiled("d.two", f32(4), f32(4))


@triton.jit
def of_rows(x, out, UNTIL: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    if UNTIL:
        while tl.max(v, 0) > 1:  # decides how often, not what
            v = tl.where(v > 1, v / 2, v)
    else:
        v = v / tl.sum(v, 0)
    tl.store(out + i, v)


def test_what_is_elementwise_combines_no_elements() -> None:
    declare = xtarget.kernel(name="d.rows", inputs=("x",), outputs={"out": "x"}, elementwise=True,
                             constants={"B": 4}, flags={"UNTIL": False},
                             grid=lambda c: c.x.shape[0])  # fmt: skip
    declare(of_rows)
    told = r"declared elementwise, .*out \(line test_declarations.py:\d+\).*in_place=True"
    with pytest.raises(xtarget.CompileError, match=told):
        compiled("d.rows", f32(3, 4))
    compiled("d.rows", f32(3, 4), UNTIL=True)


def test_a_store_to_an_input_that_is_not_declared_names_the_line() -> None:
    xtarget.kernel(**SPEC)(two)
    with pytest.warns(RuntimeWarning) as caught:
        compiled("d.two", f32(4), f32(4))
    assert f"stores to y (line test_declarations.py:{LINE})" in str(caught[0].message)
    assert 'updates=("y",)' in str(caught[0].message)
    assert caught[0].lineno == LINE
    xtarget.kernel(**{**SPEC, "updates": ("y",)})(two)
    assert compiled("d.two", f32(4), f32(4))


def test_constants_that_are_computed_from_each_other_are_refused() -> None:
    xtarget.kernel(**{**SPEC, "constants": {"B": lambda c: c.B}})(two)
    with pytest.raises(xtarget.ArgumentError, match="'B' is computed from itself"):
        compiled("d.two", f32(4), f32(4))


def test_a_rule_cannot_read_a_number_of_the_caller() -> None:
    spec = {**SPEC, "sizes": {}, "updates": ("y",), "grid": lambda c: c.n}
    xtarget.kernel(**spec)(two)
    with pytest.raises(xtarget.ArgumentError, match="n is a number of the caller's"):
        compiled("d.two", f32(4), f32(4), 4)


def test_a_flag_that_is_no_parameter_is_for_rules_and_compiles_nothing_anew() -> None:
    spec = {**SPEC, "updates": ("y",), "grid": "most", "flags": {"most": ...}}
    xtarget.kernel(**spec)(two)
    with pytest.raises(xtarget.ArgumentError, match=r"d.two needs most=\.\.\.: it has no default"):
        compiled("d.two", f32(4), f32(4))
    (one,), (other,) = (compiled("d.two", f32(4), f32(4), most=most) for most in (1, 2))
    assert one.binary == other.binary


STEPS: list[tuple[Any, str]] = [
    (lambda c: [5], "it gave 5, which is not a launch"),
    (
        lambda c: step(len, 1),
        "launches <built-in function len>, which is not a @triton.jit function",
    ),
    (lambda c: step(two, 1, x=c.x, n=4, B=4), r"what the parameter 'y' of two is \(.*\.py:\d+\)"),
    (lambda c: step(two, 1, y=c.x, n=4, B=4, q=3), "gives q, which is not a parameter of two"),
    (lambda c: step(two, 1, y=c.x, n=c.x, B=c.x), "'B' of two is a tl.constexpr"),
    (lambda c: step(two, 1, y=f32(4), n=4, B=4), "an array that is none of the kernel's"),
    (lambda c: step(two, (1, 2, 3, 4), y=c.x, n=4, B=4), "1 to 3 dimensions"),
    (lambda c: {}["a"], "its launches cannot be computed: KeyError: 'a'"),
]


@pytest.mark.parametrize(("function", "message"), STEPS)
def test_a_launch_that_does_not_fit_is_named(function: Any, message: str) -> None:
    spec = {"inputs": ("x",), "outputs": {"out": "x"}, "updates": ("x",)}
    xtarget.kernel(name="d.steps", **spec)(function)
    with pytest.raises(xtarget.ArgumentError, match=message):
        compiled("d.steps", f32(4))


def test_steps_take_what_goes_by_their_parameters_names() -> None:
    def twice(c: Any) -> Any:
        yield step(two, 1, y=c.x, n=c.x.size)
        yield step(two, "cdiv(x.size, B)", x=c.out, y=c.spare, n=c.x.size, B=32, num_warps=2)

    xtarget.kernel(
        name="d.twice",
        inputs={"x": InOut["float32", "N"]},
        outputs={"out": "x"},
        workspaces={"spare": Out["int8", "2 * N"]},
        constants={"B": 16},
    )(twice)
    first, second = compiled("d.twice", f32(8))
    assert (first.num_warps, second.num_warps) == (4, 2)
    assert {p.name: p.type for p in second.parameters}["y"] == "*i8"
    assert xtarget.get(twice).name == "d.twice"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: In[3, "N"], "the first is the dtype"),
        (lambda: In["float32", -1], "a dimension is a name"),
        (lambda: In["float32", "N"] | 3, "an array is one or None"),
        (lambda: Stride["x"], r'write Stride\["x", 0\]'),
    ],
)
def test_annotations_that_mean_nothing_are_refused(make: Any, message: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match=message):
        make()


@xtarget.kernel(name="d.checked", grid="1")
@triton.jit
def checked(x: Annotated[tl.tensor, In["float32", "N"]],
            y: Annotated[tl.tensor, In["float32", "N"]] | None,
            out: Annotated[tl.tensor, Out["x"]], N, step: Annotated[int, Stride["x", 0]],
            TIMES: tl.constexpr = None):  # fmt: skip
    i = tl.arange(0, 4)
    v = tl.load(x + i * step, i < N)
    if TIMES is not None:
        v = v * TIMES
    tl.store(out + i, v, i < N)


def test_annotations_may_stand_in_annotated_for_type_checkers() -> None:
    spec = xtarget.get("d.checked").spec
    assert (spec.inputs, spec.outputs) == (("x", "y?"), ("out",))
    assert names(compiled("d.checked", f32(4), f32(4))) == ["x", "y", "out", "N", "step"]
    with pytest.raises(xtarget.ArgumentError, match=r"y has shape \(5,\), .* to be N = 4 in x"):
        compiled("d.checked", f32(4), f32(5))


def test_a_number_of_numpy_is_a_flag_s_value_and_no_dtype() -> None:
    texts = [
        xtarget.get("d.checked").show("ttir", f32(4), target="nvidia:sm_90", TIMES=times)
        for times in (np.int64(3), 3, np.float32(2.5), 2.5)
    ]
    assert [text.count("arith.mulf") for text in texts] == [1] * 4
    with pytest.raises(xtarget.ArgumentError, match=r"TIMES=array\(3\) is not a constant"):
        compiled("d.checked", f32(4), TIMES=np.array(3))


def test_a_function_that_stands_for_a_signature_fits_the_kernel() -> None:
    def right(x: Any, y: Any = None, *, TIMES: float | None = None) -> Any: ...

    def other_order(y: Any, x: Any) -> Any: ...

    def strange(x: Any, *, SCALE: float = 1) -> Any: ...

    def nothing(*, y: Any = None) -> Any: ...

    assert xtarget.get("d.checked", like=right) is xtarget.get(checked)
    for like, message in (
        (other_order, r"takes \(y, x\) by place, and the kernel takes \(x, y\)"),
        (strange, "takes SCALE=, which is not an option"),
        (nothing, "does not take x, which the kernel needs"),
        (3, "like=3 has no signature"),
    ):
        with pytest.raises(xtarget.ArgumentError, match=message):
            xtarget.get("d.checked", like=like)  # type: ignore[arg-type]  # tried


@pytest.mark.long
def test_type_checkers_know_the_arguments_of_a_kernel_object(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    file = tmp_path / "typed.py"
    file.write_text(
        "import xtarget\n\ndef add(a: list[int], b: int = 3) -> float: ...\n"
        'k = xtarget.get("add", like=add)\nreveal_type(k([1]))\nk([1], b="x")\nk()\n'
        'reveal_type(xtarget.get("add")(1, x=2))\n'
    )
    said, _, code = api.run(["--config-file=", "--follow-imports=silent", str(file)])
    assert code == 1
    assert 'typed.py:5: note: Revealed type is "float"' in said.replace("builtins.", "")
    assert 'typed.py:6: error: Argument "b"' in said
    assert 'typed.py:7: error: Missing positional argument "a"' in said
    assert 'typed.py:8: note: Revealed type is "Any"' in said


WORDS = """\
from typing import Annotated, Any
from xtarget.spec import ArrayRule, In, InOut, Out, Stride, Workspace
rules: dict[str, ArrayRule] = {
    "x": In["float16", "M", ..., "2 * K"], "w": Workspace["float32", 3].filled(0),
    "o": Out["x"].counted_by("n"), "z": InOut["any"],
}
sizes = {"row": Stride["x", 0]}
wrong = {"o": Out("x", innit=0), "p": sizes["column"].axes}
def kernel(
    x: Annotated[Any, In["float16", "M", ..., "2 * K"] | None],
    n: Annotated[Any, Out["float32", "N"].filled(0)],
    row: Annotated[int, Stride["x", 0]],
) -> None:
    n = x + 3 * row
"""
#: pyright takes these without `Annotated`; mypy looks for types of the names in the quotes.
BARE = """\
def bare(
    x: In["float16", "M", "K"], y: In["T", ..., "2 * K"] | None, z: InOut["float32|float16"],
    w: Workspace["float32", 3], out: Out["float32", "M", "N"], step: Stride["x", 0],
) -> None:
    at = x + 3 * step, out + step, w + step, z - x
"""


@pytest.mark.long
def test_mypy_takes_the_words_as_values_and_as_annotations(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    (tmp_path / "typed.py").write_text(WORDS)
    options = ["--config-file=", "--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}"]
    said, _, _ = api.run([*options, str(tmp_path / "typed.py")])
    errors = [line.partition("typed.py:")[2] for line in said.splitlines() if "error:" in line]
    assert len(errors) == 2, said
    assert errors[0].startswith('8: error: Unexpected keyword argument "innit"')
    assert errors[1].startswith('8: error: "StrideRule" has no attribute "axes"')


@pytest.mark.long
def test_pyright_takes_the_words_as_values_and_as_annotations(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    (tmp_path / "typed.py").write_text(WORDS + BARE)
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run([*command, str(tmp_path / "typed.py")], capture_output=True, text=True)
    errors = [
        line.partition("typed.py:")[2] for line in done.stdout.splitlines() if "- err" in line
    ]
    assert [error.partition(":")[0] for error in errors] == ["8"], done.stdout + done.stderr
    assert "innit" in errors[0]


def test_annotations_that_do_not_fit_are_named_with_their_line() -> None:
    @triton.jit
    def shapeless(x: In["float32", "N"], out: Out["float32"]):
        pass

    @triton.jit
    def clash(x: In["float32", "out"], out: Out["x"]):
        pass

    @triton.jit
    def unknown(x: "In[float32, N].nothing"):
        pass

    line = shapeless.fn.__code__.co_firstlineno + 1
    for function, message in (
        (shapeless, rf"'out' \(.*:{line}\) is Out\['float32'\], which says no shape"),
        (clash, "'out' is a length of x and one of its outputs"),
        (unknown, r"annotation 'In\[float32, N\].nothing' of its parameter 'x' \(.*\) cannot be"),
    ):
        with pytest.raises(xtarget.ArgumentError, match=message):
            xtarget.kernel(grid="1")(function)
