"""The reader and the printer of LLVM IR, and the list of passes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xtarget.targets._spirv.llvm import passes
from xtarget.targets._spirv.llvm.ir import Module
from xtarget.targets._spirv.llvm.printer import printed
from xtarget.targets._spirv.llvm.reader import read, read_instruction
from xtarget.targets._spirv.llvm.types import IRError, type_named
from xtarget.targets._spirv.llvm.words import fields_of, map_pointers, map_words, string_of

TEXT = r"""; ModuleID = 'k'
source_filename = "k"
target triple = "amdgcn"

%pair = type { i32, ptr }
@smem = external addrspace(3) global [0 x i8], align 16
@"a b" = internal constant [9 x i8] c"ptr\22 %, \5C\00", align 1

define spir_kernel void @k(ptr addrspace(1) align 16 %p, <2 x half> noundef %h, i1 %c) #0 !dbg !4 {
entry:
  %a = alloca i32, align 4, addrspace(5)
  %n = tail call noundef range(i32 0, 16) i32 @f(i32 noundef 3, ptr null), !range !5
  %v = call i64 asm sideeffect "s_memtime $0", "=s"() #2
  %q = getelementptr inbounds nuw i32, ptr addrspace(1) %p, i32 %n
  %l = load <2 x i32>, ptr addrspace(1) %q, align 8, !nontemporal !6
  %o = load atomic i32, ptr addrspace(1) %q syncscope("agent") monotonic, align 4
  %e = extractelement <2 x i32> %l, i64 1
  %s = insertvalue { i32, float } poison, i32 %e, 0
  %x = shufflevector <2 x i32> %l, <2 x i32> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  switch i32 %e, label %bb1 [
    i32 1, label %bb2
    i32 -2, label %bb2
  ], !prof !7

bb1:                                              ; preds = %bb2, %entry
  %i = phi i32 [ 0, %entry ], [ %j, %bb2 ]
  %g = phi { i32, float } [ { i32 1, float 2.0 }, %entry ], [ %s, %bb2 ]
  %w = atomicrmw add ptr addrspace(1) %q, i32 %i syncscope("agent") acq_rel, align 4
  %y = cmpxchg ptr addrspace(3) @smem, i32 0, i32 %w acq_rel acquire, align 4
  fence syncscope("workgroup") release
  store volatile i32 %w, ptr addrspace(1) %q, align 4
  br i1 %c, label %bb2, label %bb3, !llvm.loop !8

bb2:
  %j = add nuw nsw i32 %n, 1
  %d = fcmp fast olt half 0xH3C00, 0xH4000
  %u = select i1 %d, <2 x half> %h, <2 x half> splat (half 0xH3C00)
  %z = zext nneg i32 %j to i64
  %r = call i32 (ptr addrspace(2), ...) @printf(ptr addrspace(2) null, i64 %z)
  br label %bb1

bb3:
  ret void
}

declare i32 @f(i32, ptr)

attributes #0 = { noinline "x"="y" }
!4 = distinct !{!4, !5}
!llvm.ident = !{!4}
"""


def visited(module: Module) -> None:
    """Ask for everything that is read late."""
    for function in module.functions:
        function.parameters()
        assert isinstance(function.users, dict)
        for one in function.code():
            one.parts  # noqa: B018
            one.attachments()
            one.symbols()
            assert one.with_values(one.values).text == one.text or one.op == "switch"


def test_a_module_is_printed_as_it_was_read() -> None:
    module = read(TEXT)
    assert printed(module) == TEXT
    visited(module)
    assert printed(module) == TEXT


def parts(name: str) -> tuple[str, list[str], list[str], str]:
    one = read(TEXT).functions[0].definitions[name]
    return str(one.type), [str(o.type) for o in one.operands], one.values, one.parts.extra


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("%n", ("i32", ["i32", "ptr"], ["3", "null"], "@f")),
        ("%v", ("i64", [], [], 'asm sideeffect "s_memtime $0", "=s"')),
        ("%q", ("ptr addrspace(1)", ["ptr addrspace(1)", "i32"], ["%p", "%n"], "i32")),
        ("%l", ("<2 x i32>", ["ptr addrspace(1)"], ["%q"], "")),
        ("%o", ("i32", ["ptr addrspace(1)"], ["%q"], "")),
        ("%e", ("i32", ["<2 x i32>", "i64"], ["%l", "1"], "")),
        ("%i", ("i32", ["i32", "i32"], ["0", "%j"], "")),
        (
            "%g",
            ("{ i32, float }", ["{ i32, float }"] * 2, ["{ i32 1, float 2.0 }", "%s"], ""),
        ),
        ("%w", ("i32", ["ptr addrspace(1)", "i32"], ["%q", "%i"], "add")),
        (
            "%y",
            ("{ i32, i1 }", ["ptr addrspace(3)", "i32", "i32"], ["@smem", "0", "%w"], ""),
        ),
        ("%d", ("i1", ["half", "half"], ["0xH3C00", "0xH4000"], "olt")),
        ("%z", ("i64", ["i32"], ["%j"], "")),
        ("%r", ("i32", ["ptr addrspace(2)", "i64"], ["null", "%z"], "@printf")),
    ],
)
def test_operands(name: str, expected: object) -> None:
    assert parts(name) == expected


def test_uses_and_blocks() -> None:
    function = read(TEXT).functions[0]
    assert [one.name or one.op for one in function.users["%j"]] == ["%i", "%z"]
    assert [block.label for block in function.blocks] == ["entry", "bb1", "bb2", "bb3"]
    assert function.blocks[0].code[-1].parts.labels == ["%bb1", "%bb2", "%bb2"]
    assert [(p.type, p.attributes, p.name) for p in function.parameters()] == [
        ("ptr addrspace(1)", "align 16", "%p"),
        ("<2 x half>", "noundef", "%h"),
        ("i1", "", "%c"),
    ]


def test_a_changed_instruction_keeps_the_rest_of_its_text() -> None:
    one = read_instruction("  store volatile i32 %a, ptr addrspace(1) %p, align 4, !nontemporal !2")
    assert one.with_values(["7", "%q"]).text == (
        "  store volatile i32 7, ptr addrspace(1) %q, align 4, !nontemporal !2"
    )
    assert one.with_types({"%p": "ptr"}).text == (
        "  store volatile i32 %a, ptr %p, align 4, !nontemporal !2"
    )
    assert one.attachments() == (
        "  store volatile i32 %a, ptr addrspace(1) %p, align 4",
        {"nontemporal": "!2"},
    )


def test_types() -> None:
    assert (type_named("<4 x i8>").length, type_named("<4 x i8>").element) == (4, "i8")
    assert type_named("<4 x i8>").like("float") == "<4 x float>"
    assert type_named("ptr addrspace(3)").space == 3
    assert type_named("i64").integer_bits == 64
    assert fields_of("{ i32, { i8, ptr } }") == ["i32", "{ i8, ptr }"]


def test_names_and_strings_are_no_words() -> None:
    line = '  %ptr = call ptr @ptr.i8(ptr %bfloat, bfloat 0xR3F80) ; c"ptr"'
    assert map_words(line, lambda word: {"bfloat": "i16"}.get(word, word)).count("i16") == 1
    assert map_pointers(line, {0: 4}).startswith(
        "  %ptr = call ptr addrspace(4) @ptr.i8(ptr addrspace(4) %bfloat"
    )
    assert string_of(next(read(TEXT).lines("global")).text) is None
    assert string_of(list(read(TEXT).lines("global"))[1].text) == 'ptr" %, \\\0'


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("%j = add", "%j = sum", "%j = sum nuw nsw i32 %n, 1"),
        ("  br label %bb1", "  indirectbr ptr %q, []", "indirectbr ptr %q, []"),
        ("ret void\n}", "ret void\n", "declare i32 @f"),
        ("attributes #0", "uselistorder", "uselistorder"),
        ("attributes #0", "%t = opaque #0", "%t = opaque"),
        ("store volatile", "%t = va_arg ptr %q, i32\n  store volatile", "%t = va_arg"),
    ],
)
def test_what_is_not_known_is_refused_with_its_line(old: str, new: str, line: str) -> None:
    with pytest.raises(IRError, match=r"in line \d+ of LLVM IR") as caught:
        read(TEXT.replace(old, new))
    assert line in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "  %a = add i32 %b",
        "  %a = load i32",
        "  %a = phi i32 [ 1, 2 ]",
        "  %a = call i32 %f",
        "  %a = zext i32 %b",
        "  %a = select i1 %b, i32 1",
        "  store i32 (, ptr %p",
        "  br i1 %a, label %b",
    ],
)
def test_operands_that_are_not_known_are_refused(text: str) -> None:
    with pytest.raises(IRError, match="LLVM IR"):
        read_instruction(text).parts  # noqa: B018


LINES = TEXT.split("\n")


@given(st.integers(0, len(LINES) - 1), st.data())
def test_a_damaged_line_gives_only_the_readers_error(number: int, data: st.DataObject) -> None:
    line = LINES[number]
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, min(len(line), start + 8)))
    put = data.draw(st.text(' ,()[]{}<>"%@!#=x1', max_size=4))
    text = "\n".join([*LINES[:number], line[:start] + put + line[end:], *LINES[number + 1 :]])
    with contextlib.suppress(IRError):
        module = read(text)
        assert printed(module) == text
        visited(module)


@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_lines_in_any_order_give_nothing_but_the_readers_error(lines: list[str]) -> None:
    with contextlib.suppress(IRError):
        visited(read("\n".join(lines)))


def test_every_pass_has_a_name_and_a_reason() -> None:
    listed = passes.ALL
    assert len({one.name for one in listed}) == len(listed)
    for one in listed:
        assert len(one.reason) > 60, one.name
        assert one.run.__doc__, one.name
