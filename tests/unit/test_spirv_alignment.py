"""The alignment of an address, as the code that computes it shows it."""

from __future__ import annotations

import pytest

from xtarget.targets._spirv.llvm.reader import read
from xtarget.targets._spirv.vectors.alignment import Alignments, of_parameters
from xtarget.targets._spirv.vectors.code import parse

HEAD = (
    "define spir_kernel void @f(ptr addrspace(1) readonly align 16 captures(none) %p, "
    "ptr addrspace(1) align 128 %q, ptr addrspace(1) %r, i32 %n) !reqd_work_group_size !0 {"
)


def aligned(body: str, value: str) -> int:
    function = read("\n".join([HEAD, "bb:", *body.splitlines(), "}"])).functions[0]
    return Alignments(parse(function), of_parameters(function)).get(value)


def test_parameters_have_what_the_caller_promised() -> None:
    function = read(f"{HEAD}\n  ret void\n}}").functions[0]
    assert of_parameters(function) == {"%p": 16, "%q": 64}
    assert [aligned("  ret void", name) for name in ("%p", "%q", "%r", "%n")] == [16, 64, 1, 1]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("  %x = shl i32 %n, 4", 16),
        ("  %x = shl i32 %n, 9", 64),
        ("  %x = shl i32 8, %n", 8),
        ("  %x = mul nsw i32 %n, 24", 8),
        ("  %x = mul i32 %n, 0", 64),
        ("  %x = and i32 %n, -8", 8),
        ("  %a = shl i32 %n, 4\n  %x = add i32 %a, 8", 8),
        ("  %a = shl i32 %n, 4\n  %x = or disjoint i32 %a, 3", 1),
        ("  %a = shl i32 %n, 4\n  %x = sub i32 0, %a", 16),
        ("  %a = shl i32 %n, 4\n  %x = udiv i32 %a, 2", 1),
        ("  %a = shl i32 %n, 4\n  %c = icmp eq i32 %n, 0\n  %x = select i1 %c, i32 %a, i32 4", 4),
        ("  %a = shl i32 %n, 3\n  %b = sext i32 %a to i64\n  %x = trunc i64 %b to i16", 8),
        ("  %x = getelementptr float, ptr addrspace(1) %p, i32 %n", 4),
        ("  %a = shl i32 %n, 6\n  %x = getelementptr float, ptr addrspace(1) %p, i32 %a", 16),
        ("  %x = getelementptr i8, ptr addrspace(1) %p, i64 2", 2),
        ("  %a = shl i32 %n, 6\n  %x = getelementptr float, ptr addrspace(1) %r, i32 %a", 1),
        ("  %x = load i32, ptr addrspace(1) %p, align 4", 1),
        ("  %x = call i32 @_Z22get_sub_group_local_idv()", 64),  # lane 0's
    ],
)
def test_of_a_value(lines: str, expected: int) -> None:
    assert aligned(f"{lines}\n  ret void", "%x") == expected


def test_round_a_loop_the_smallest_step_counts() -> None:
    loop = """  br label %body
body:
  %i = phi i32 [ 64, %bb ], [ %next, %body ]
  %x = getelementptr float, ptr addrspace(1) %q, i32 %i
  %next = add i32 %i, {step}
  %c = icmp slt i32 %next, %n
  br i1 %c, label %body, label %end
end:
  ret void"""
    found = {step: aligned(loop.format(step=step), "%x") for step in (64, 8, 6, 1)}
    assert found == {64: 64, 8: 32, 6: 8, 1: 4}
