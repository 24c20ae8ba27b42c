"""Vectors of one lane become their elements; what cannot be taken apart stays as it was."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

import llvmlite.binding as llvm

from xtarget.targets._spirv.llvm.printer import printed
from xtarget.targets._spirv.llvm.reader import read
from xtarget.targets._spirv.vectors.short import take_apart

_HEAD = "@s = internal addrspace(3) global [64 x i8] undef, align 16\n"


def function(*lines: str) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f"{_HEAD}define void @k(float %x, float %y, ptr addrspace(1) %out, i64 %i) {{\nentry:\n"
        f"{body}\n  ret void\n}}\n"
    )


def rewritten(source: str) -> str:
    module = read(source)
    take_apart(module)
    return printed(module)


def taken_apart(*lines: str) -> str:
    """The result, which LLVM reads as it reads the source."""
    source = function(*lines)
    llvm.parse_assembly(source).verify()
    result = rewritten(source)
    llvm.parse_assembly(result).verify()
    return result


def test_what_a_lane_builds_and_stores_is_stored_one_by_one() -> None:
    result = taken_apart(
        "%a = insertelement <2 x float> poison, float %x, i64 0",
        "%b = insertelement <2 x float> %a, float %y, i64 1",
        "store <2 x float> %b, ptr addrspace(3) @s, align 16",
    )
    assert "store float %x, ptr addrspace(3) @s, align 16" in result
    assert "getelementptr float, ptr addrspace(3) @s, i64 1" in result
    assert "store float %y, ptr addrspace(3)" in result
    assert "align 4" in result
    assert "<2 x" not in result


def test_what_a_lane_loads_at_once_is_loaded_one_by_one() -> None:
    result = taken_apart(
        "%v = load <4 x float>, ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @s, i64 16), "
        "align 16",
        "%c = extractelement <4 x float> %v, i64 2",
        "store float %c, ptr addrspace(1) %out, align 4",
    )
    assert result.count(" load float,") == 4
    assert "store float %v.e2, ptr addrspace(1) %out" in result
    assert "<4 x" not in result


def test_the_last_insertion_of_a_place_counts() -> None:
    result = taken_apart(
        "%v = load <2 x float>, ptr addrspace(1) %out, align 8",
        "%a = insertelement <2 x float> %v, float %x, i64 1",
        "%b = insertelement <2 x float> %a, float %y, i64 1",
        "store <2 x float> %a, ptr addrspace(3) @s, align 8",
        "store <2 x float> %b, ptr addrspace(1) %out, align 8",
    )
    stores = [line.split(",")[0].split()[-1] for line in result.splitlines() if " store " in line]
    assert stores == ["%v.e0", "%x", "%v.e0", "%y"]


def test_an_element_of_an_element_is_found() -> None:
    result = taken_apart(
        "%v = load <2 x float>, ptr addrspace(1) %out, align 8",
        "%c = extractelement <2 x float> %v, i64 1",
        "%a = insertelement <2 x float> poison, float %c, i64 0",
        "%d = extractelement <2 x float> %a, i64 0",
        "store float %d, ptr addrspace(1) %out, align 4",
    )
    assert "store float %v.e1, ptr addrspace(1) %out" in result


@pytest.mark.parametrize(
    "lines",
    [
        ("%v = load volatile <2 x float>, ptr addrspace(1) %out, align 8",),
        ("store <2 x float> zeroinitializer, ptr addrspace(1) %out, align 8",),
        ("%v = load <8 x i1>, ptr addrspace(1) %out, align 1",),
        (
            "%v = bitcast i64 %i to <2 x float>",
            "%a = insertelement <2 x float> %v, float %x, i64 0",
            "store <2 x float> %a, ptr addrspace(1) %out, align 8",
        ),
        ("%c = fadd float %x, %y", "store float %c, ptr addrspace(1) %out, align 4"),
    ],
    ids=["volatile", "a constant", "bits", "made by something else", "no vector"],
)
def test_what_is_no_such_vector_stays(lines: tuple[str, ...]) -> None:
    assert taken_apart(*lines) == function(*lines)


def test_a_loaded_vector_that_something_else_takes_is_still_refused_later() -> None:
    """Its elements are loaded, and what takes the whole names a value that is not there: `vectors`
    refuses every operation on such a type before anything reads the text.
    """
    source = function(
        "%v = load <2 x float>, ptr addrspace(1) %out, align 8",
        "%w = fadd <2 x float> %v, %v",
        "store <2 x float> %w, ptr addrspace(1) %out, align 8",
    )
    assert "%w = fadd <2 x float>" in rewritten(source)
