"""The reader of Triton's IR: types and layouts, operations in the text, and what it refuses."""

from __future__ import annotations

import pytest

from xtarget import CompileError
from xtarget.targets._spirv.frontend.messages import marks_in_regions, plain_prefixes
from xtarget.targets._spirv.frontend.reader import (
    attribute,
    edited,
    function_named,
    parameters,
    read,
)
from xtarget.targets._spirv.frontend.types import Layout, Type, read_type
from xtarget.targets._spirv.llvm.text import ALONE
from xtarget.targets._triton.locations import described, source_line

BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 8], warpsPerCTA = [4, 1], "
    "order = [1, 0]}>"
)


def blocked() -> Layout:
    return Layout(
        "ttg.blocked",
        (
            ("sizePerThread", (1, 4)),
            ("threadsPerWarp", (2, 8)),
            ("warpsPerCTA", (4, 1)),
            ("order", (1, 0)),
        ),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32", Type("f32")),
        ("!tt.ptr<f32>", Type("!tt.ptr<f32>")),
        ("tensor<64xf32>", Type("f32", (64,))),
        ("tensor<64x!tt.ptr<f8E4M3FN, 3>>", Type("!tt.ptr<f8E4M3FN, 3>", (64,))),
        (f"tensor<8x32xbf16, {BLOCKED}>", Type("bf16", (8, 32), blocked())),
        (
            f"tensor<8xi1, #ttg.slice<{{dim = 1, parent = {BLOCKED}}}>>",
            Type("i1", (8,), Layout("ttg.slice", (("dim", 1), ("parent", blocked())))),
        ),
        (
            "tensor<4xi8, #ttg.linear<{register = [[1], [-2]], lane = [], warp = []}>>",
            Type(
                "i8",
                (4,),
                Layout("ttg.linear", (("register", ((1,), (-2,))), ("lane", ()), ("warp", ()))),
            ),
        ),
        ("tensor<4xi8, #blocked>", Type("i8", (4,), Layout("blocked", ()))),
    ],
)
def test_types(text: str, expected: Type) -> None:
    assert read_type(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "tensor<?xf32>",
        "tensor<*xf32>",
        "tensor<4xf32",
        "tensor<4xf32> more",
        "tensor<4xf32, 5>",
        "tensor<4xf32, #ttg.blocked<{order = }>>",
        "tensor<4xf32, #ttg.blocked<{order [0]}>>",
    ],
)
def test_a_type_in_another_form_is_an_error(text: str) -> None:
    with pytest.raises(CompileError, match=r"cannot read Triton's IR: expected .* at "):
        read_type(text)


TEXT = """#loc = loc("k.py":1:1)
module attributes {ttg.target = "hip:gfx1100"} {
  tt.func public @f(%arg0: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("k.py":1:1), %n: i32) {
    %0 = tt.load %arg0 : !tt.ptr<f32> loc(#loc)
    %1:2 = "tt.reduce"(%0) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      tt.assert %a, "} \\22 {" : i1
      tt.reduce.return %a : f32
    }) : (tensor<4x!tt.ptr<f32>>) -> f32
    scf.if %c {
      tt.print " %: " {hex = false} : %0 : f32
    } else {
      // a comment
      tt.call @"g h"(%0) : (f32) -> ()
    }
    tt.return
  }
}
"""


def test_operations_of_a_text() -> None:
    statements = read(TEXT)
    assert [statement.name for statement in statements] == [
        *("builtin.module", "tt.func", "tt.load", "tt.reduce", "tt.assert", "tt.reduce.return"),
        *("scf.if", "tt.print", "tt.call", "tt.return"),
    ]
    named = {statement.name: statement for statement in statements}
    assert [around.name for around in named["tt.assert"].around] == [
        "tt.reduce",
        "tt.func",
        "builtin.module",
    ]
    assert next(around.name for around in named["tt.call"].around) == "scf.if"
    assert named["tt.reduce"].attribute("axis") == "1"
    assert named["tt.reduce"].attribute("reverse") == ""
    assert named["tt.call"].symbols() == ['@"g h"']
    first, second = parameters(named["tt.func"])
    assert [token.text for token in second] == ["%n", ":", "i32"]
    assert "tt.divisibility" in [token.text for token in first]


def test_a_text_with_other_strings() -> None:
    strings = {s.name: s.strings() for s in read(TEXT)}
    message, prefix = strings["tt.assert"][0], strings["tt.print"][0]
    assert message.text == '"} \\22 {"'
    changed = edited(TEXT, {prefix: '" %%: "', message: '"no"'})
    assert changed == TEXT.replace(" %: ", " %%: ").replace('"} \\22 {"', '"no"')
    assert edited(TEXT, {}) == TEXT


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("module {\n  what is this\n}\n", 2),
        ("module {\n  %0 : f32\n}\n", 2),
        ("module {\n  tt.return\n", 3),
        ("}\n", 1),
        ("module {\n  tt.print `x`\n}\n", 2),
        ("module {\n  scf.if %a { scf.if %b {\n  }\n}\n", 2),
    ],
)
def test_a_line_in_another_form_is_an_error(text: str, number: int) -> None:
    with pytest.raises(CompileError, match=rf"cannot read line {number} of Triton's IR"):
        read(text)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ('loc("a/k.py":12:5)', ("a/k.py", 12)),
        ('loc("v"("a/k.py":12:5))', ("a/k.py", 12)),
        ('loc(callsite("a/k.py":3:5 at "b.py":9:1))', ("a/k.py", 3)),
        ("loc(unknown)", None),
        ('loc("name")', None),
    ],
)
def test_lines_of_locations(location: str, expected: tuple[str, int] | None) -> None:
    assert source_line(location) == expected
    shown = "" if expected is None else f" in k.py:{expected[1]}"
    assert described("tt.load", location) == f" (tt.load{shown})"


def test_percent_signs_of_prefixes_are_doubled() -> None:
    statements = read(TEXT)
    assert set(plain_prefixes(statements).values()) == {'" %%: "'}
    assert plain_prefixes(read(TEXT.replace(" %: ", " : "))) == {}


def test_assertions_that_a_block_does_not_reach_together_are_marked() -> None:
    text = """module {
  tt.func private @"in a scan"(%a: i1) {
    tt.call @deeper(%a) : (i1) -> ()
    tt.return
  }
  tt.func private @deeper(%a: i1) {
    tt.assert %a, "two" : i1
    tt.return
  }
  tt.func private @other(%a: i1) {
    tt.assert %a, "three" : i1
    tt.return
  }
  tt.func public @f(%a: i1, %x: tensor<4xi1>) {
    tt.call @other(%a) : (i1) -> ()
    %1 = "tt.scan"(%x) <{axis = 0 : i32, reverse = false}> ({
    ^bb0(%b: i1, %c: i1):
      tt.call @"in a scan"(%a) : (i1) -> ()
      scf.if %b {
        tt.assert %b, "one, \\22and\\22" : i1
      }
      tt.scan.return %b : i1
    }) : (tensor<4xi1>) -> tensor<4xi1>
    tt.assert %a, "four" : i1
    tt.return
  }
}
"""
    marks = marks_in_regions(read(text))
    assert set(marks.values()) == {f'"{ALONE}two"', f'"{ALONE}one, \\22and\\22"'}
    assert edited(text, marks).count(ALONE) == 2


def test_parameters_of_a_function_among_other_lines() -> None:
    text = """module {
  what is not read
  llvm.func @f_helper(%arg0: i32 {tt.divisibility = 4 : i32})
  llvm.func @f(%arg0: !llvm.ptr<1> {llvm.noalias, tt.divisibility = 16 : i32}, %arg1: i32) {
"""
    function = function_named(text, "llvm.func", "f")
    found = [attribute(words, "tt.divisibility") for words in parameters(function)]
    assert found == ["16", ""]
    assert parameters(function_named("  llvm.func @g() {", "llvm.func", "g")) == []
    with pytest.raises(CompileError, match=r"llvm\.func @g: there is none"):
        function_named(text, "llvm.func", "g")
