"""Text templates: holes, the steps of an expression, SPIR-V's assembler, and what they refuse."""

from __future__ import annotations

import ast
import struct
import textwrap
from collections.abc import Collection
from dataclasses import replace

import pytest

from xtarget._kernels import libraries
from xtarget._kernels.library import Library
from xtarget._values.types import SourceText
from xtarget.targets._c.text import Function, Scope
from xtarget.targets._c.values import RefusedError, dtype_of
from xtarget.targets._template.assembler import AssemblyError, assemble
from xtarget.targets._template.elements import PARTS, ElementEvaluator
from xtarget.targets._template.holes import HoleError, Template
from xtarget.targets._template.meaning import meaning


def test_holes_are_filled_by_name() -> None:
    template = Template("add", "add.{{TYPE}} {{RESULT}}, {{A}}, {{A}};")
    assert template.fill({"A": "x", "TYPE": "f32", "RESULT": "y"}) == "add.f32 y, x, x;"
    assert Template("none", "ret;").fill({}) == "ret;"


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("{{A}}, {{B}}", {"B": "x"}, r"^the template t has no value for \{\{A\}\}\.$"),
        ("{{A}}, {{B}}, {{C}}", {}, r"no value for \{\{A\}\} and 2 more\.$"),
        ("{{A}}", {"A": "x", "OTHER": "y"}, r"has no hole \{\{OTHER\}\}; it has A\.$"),
        ("ret;", {"A": "x"}, r"no hole \{\{A\}\}; it has none\.$"),
        ("{{lower}}", {}, r"has a hole without a name"),
    ],
)
def test_a_hole_without_a_value_is_named(text: str, values: dict[str, str], message: str) -> None:
    with pytest.raises(HoleError, match=message):
        Template("t", text).fill(values)


def _source(operator: str) -> SourceText:
    text = Library(libraries.own_folder()).source(f"elementwise:binary({operator})").text
    assert text is not None
    return text


def _function(name: str) -> Function:
    source = _source("functions.arithmetic:add")
    module = next(module for module in source.modules if module.endswith("indexing"))
    return Scope.of(replace(source, function=f"{module}:{name}"))


@pytest.mark.parametrize("name", PARTS)
def test_skeletons_count_elements_as_the_library_does(name: str) -> None:
    """Whoever changes these functions looks whether the skeletons still do the same, and writes the
    new digest; until then templates refuse."""
    assert meaning(_function(name)) == PARTS[name]


def test_another_function_of_that_name_is_another_one() -> None:
    function = _function("positions")
    text = ast.unparse(function.node)
    edited = ast.parse(text.replace("start + lane", "start - lane")).body[0]
    assert ast.unparse(edited) != text
    assert isinstance(edited, ast.FunctionDef)
    assert meaning(Function(edited, function.scope)) != PARTS["positions"]


def _steps(body: str, *dtypes: str, native: Collection[str] = ("exp",)) -> list[str]:
    """The steps of a function of x, y, z: an expression, or statements."""
    text = body if "return" in body else f"return {body}"
    code = f"def f({', '.join('xyz'[: len(dtypes)])}):\n" + textwrap.indent(text, " ")
    node = ast.parse(code).body[0]
    assert isinstance(node, ast.FunctionDef)
    elements = ElementEvaluator(lambda name, dtype: name in native)
    values = [elements.emit.parameter(f"p{n}", dtype_of(d)) for n, d in enumerate(dtypes)]
    ahead = len(elements.emit.found)
    elements.call(Function(node, Scope.of(_source("functions.arithmetic:add")).scope), values, {})
    return [f"{step.name} {step.dtype.name}" for step in elements.emit.found[ahead:]]


@pytest.mark.parametrize(
    ("body", "dtypes", "steps"),
    [
        ("x * 2 + -y", ("float32", "float32"), ["mul float32", "neg float32", "add float32"]),
        ("x + y", ("float32", "int32"), ["cast int32", "add float32"]),
        ("x // y + (x >> 1)", ("int8", "int8"), ["div int8", "shr int8", "add int8"]),
        ("tl.exp(x)", ("float32",), ["exp float32"]),
        ("x.to(tl.int32, bitcast=True)", ("float32",), ["bits float32"]),
        ("y = x * x\nif x.dtype == tl.int8:\n  return y\nreturn y + 1", ("int8",), ["mul int8"]),
        ("total = x\nfor k in range(2):\n  total += k\nreturn total", ("int8",), ["add int8"] * 2),
        ("x * x + x * x", ("float32",), ["mul float32", "add float32"]),  # each is made once
        ("tl.where(True, x, y) & (x < y)", ("int8", "int8"), ["lt int8", "cast int1", "and int8"]),
    ],
)
def test_steps_of_a_function(body: str, dtypes: tuple[str, ...], steps: list[str]) -> None:
    assert _steps(body, *dtypes) == steps


def test_a_half_type_is_rounded_after_each_operation() -> None:
    found = _steps("x.to(tl.bfloat16) + 0.1", "float32")
    assert [step for step in found if step.endswith("float32")] == [
        *("bits float32", "add float32", "bits float32")
    ]


def test_a_function_that_a_language_lacks_is_made_of_others() -> None:
    names = {"fma", "nearbyint", "floor"}
    made = _steps("tl.exp(x)", "float32", native=names)
    assert made[0] == "cast float32"
    assert made[-1] == "cast float64"
    assert "fma float64" in made
    with pytest.raises(RefusedError, match="the function nearbyint of float64"):
        _steps("tl.exp(x)", "float32", native=set())


@pytest.mark.parametrize(
    ("body", "dtypes", "message"),
    [
        ("x + 300", ("int8",), "the number 300 as int8"),
        ("x + y", ("bool", "bool"), r"\+ of bool"),
        ("x & y", ("float32", "float32"), "& of floating numbers"),
        ("tl.sort(x)", ("float32",), "the name sort"),
        ("x[0]", ("float32",), r"\[0\]"),
        ("tl.program_id(0)", (), "the number of a block"),
        ("tl.arange(0, 4)", (), "the numbers of a block's lanes"),
        ("tl.sum(x)", ("float32",), "a reduction"),
        ("for k in range(x):\n  pass\nreturn x", ("int32",), "length is known at run time"),
        ("for k in range(65):\n  pass\nreturn x", ("int32",), "a loop of 65 turns"),
    ],
)
def test_what_is_not_known_is_refused(body: str, dtypes: tuple[str, ...], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        _steps(body, *dtypes)


def test_the_assembler_counts_words_and_ids() -> None:
    made, holes = assemble(
        "OpCapability Kernel\n%t = OpTypeInt 32 0\n%c = OpConstant %t 0xffffffff\n"
    )
    words = struct.unpack(f"<{len(made) // 4}I", made)
    assert not holes
    assert words[0] == 0x07230203
    assert words[3] == 3  # ids are below this
    assert words[5:] == (2 << 16 | 17, 6, 4 << 16 | 21, 1, 32, 0, 4 << 16 | 43, 1, 2, 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("OpNop", r"line 1: the instruction 'OpNop'"),
        ("%a = OpLoad %b %c", r"nothing defines %b, %c"),
        ("OpCapability Magic", r"line 1: the word 'Magic'"),
    ],
)
def test_the_assembler_names_what_it_does_not_know(text: str, message: str) -> None:
    with pytest.raises(AssemblyError, match=message):
        assemble(text)


def test_the_assembler_says_where_its_holes_are() -> None:
    made, holes = assemble("%t = OpTypeInt 64 0\n%c = OpConstant %t ?EACH:2\n")
    assert holes == {"EACH": (len(made) - 8, 8)}
    assert made[-8:] == bytes(8)
