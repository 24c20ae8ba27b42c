"""Text templates: holes, the steps of an expression, SPIR-V's assembler, and what they refuse."""

from __future__ import annotations

import ast
import struct

import pytest

from xtarget._kernels import libraries
from xtarget._kernels.library import Library
from xtarget.targets._c.text import Function, Scope
from xtarget.targets._c.values import RefusedError, dtype_of
from xtarget.targets._template.assembler import AssemblyError, assemble
from xtarget.targets._template.elementwise import KERNELS, meaning
from xtarget.targets._template.holes import HoleError, Template
from xtarget.targets._template.steps import Steps


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


def _kernel(name: str) -> Function:
    library = Library(libraries.own_folder())
    text = library.source(f"elementwise:{name}(functions.arithmetic:add)").text
    assert text is not None
    return Scope.of(text)


@pytest.mark.parametrize("name", KERNELS)
def test_templates_stand_for_the_kernels_of_the_library(name: str) -> None:
    """Whoever changes these kernels looks whether the templates still do the same, and writes the
    new digest; until then they refuse."""
    assert meaning(_kernel(name)) == KERNELS[name]


def test_another_kernel_of_that_name_is_another_one() -> None:
    function = _kernel("binary")
    text = ast.unparse(function.node)
    edited = ast.parse(text.replace("operator(x, y)", "operator(y, x)")).body[0]
    assert ast.unparse(edited) != text
    assert isinstance(edited, ast.FunctionDef)
    assert meaning(Function(edited, function.scope)) != KERNELS["binary"]


def _steps(expression: str, *dtypes: str) -> list[str]:
    node = ast.parse(f"def f({', '.join('xyz'[: len(dtypes)])}): return {expression}").body[0]
    assert isinstance(node, ast.FunctionDef)
    steps = Steps()
    values = [steps.value(dtype_of(dtype)) for dtype in dtypes]
    steps.call(Function(node, _kernel("binary").scope), values)
    return [f"{step.name} {step.dtype.name}" for step in steps.found]


def test_steps_of_an_expression() -> None:
    assert _steps("x * 2 + -y", "float32", "float32") == [
        *("mul float32", "neg float32", "add float32"),
    ]
    assert _steps("tl.where((x < y) | (x != x), x, y)", "int8", "int8")[-1] == "select int8"
    assert _steps("tl.where(x, y, z)", "bool", "bool", "bool")[-1] == "or int1"


@pytest.mark.parametrize(
    ("expression", "dtypes", "message"),
    [
        ("x / y", ("float32", "float32"), "the expression 'x / y'"),
        ("x + y", ("float32", "int32"), "an operation of float32 and int32"),
        ("x + 300", ("int8",), "the number 300 as int8"),
        ("x + y", ("bool", "bool"), "add of bool"),
        ("x & y", ("float32", "float32"), "and of float32"),
        ("tl.exp(x)", ("float32",), "the function tl.exp"),
        ("x[0]", ("float32",), r"the expression 'x\[0\]'"),
    ],
)
def test_what_is_not_known_is_refused(
    expression: str, dtypes: tuple[str, ...], message: str
) -> None:
    with pytest.raises(RefusedError, match=message):
        _steps(expression, *dtypes)


def test_the_assembler_counts_words_and_ids() -> None:
    made = assemble("OpCapability Kernel\n%t = OpTypeInt 32 0\n%c = OpConstant %t 0xffffffff\n")
    words = struct.unpack(f"<{len(made) // 4}I", made)
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
