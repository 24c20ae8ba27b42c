"""Facts about lanes: constants computed at compile time are what a machine computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xtarget.targets._spirv.llvm.reader import read
from xtarget.targets._spirv.llvm.words import split_list
from xtarget.targets._spirv.vectors.code import LANE_CALL, LANES, Block, parse
from xtarget.targets._spirv.vectors.shapes import Shapes

BITS = (8, 16, 32, 64)
ARITHMETIC: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
COMPARISONS: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _blocks(lines: list[str]) -> list[Block]:
    return parse(read("\n".join(["define void @k(i32 %n) {", *lines, "}"])).functions[0])


def _known(*lines: str) -> dict[str, tuple[int, ...] | None]:
    """The lanes' values of what these instructions compute from `%lane`."""
    text = ["bb:", f"  %lane = call i32 @{LANE_CALL}()", *(f"  {line}" for line in lines)]
    blocks = _blocks([*text, "  ret void"])
    shapes = Shapes(blocks)
    return {one.name: shapes.get(one.name).known for one in blocks[0].code if one.name}


def _lanes(bits: int) -> Any:
    return np.arange(LANES, dtype=f"int{bits}")


def _factor_and_number(bits: int, data: st.DataObject) -> tuple[int, int]:
    """Both with a sign; the factor is not 0, which would make all lanes the same."""
    numbers = st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return data.draw(numbers.filter(bool)), data.draw(numbers)


def _cast(bits: int) -> str:
    if bits == 32:
        return "%x = add i32 %lane, 0"
    return f"%x = {'trunc' if bits < 32 else 'zext'} i32 %lane to i{bits}"


@pytest.mark.parametrize("bits", BITS)
@settings(deadline=None)
@given(data=st.data())
def test_arithmetic_wraps_around_as_in_registers(bits: int, data: st.DataObject) -> None:
    factor, other = _factor_and_number(bits, data)
    name = data.draw(st.sampled_from(sorted(ARITHMETIC)))
    known = _known(
        _cast(bits), f"%y = mul i{bits} %x, {factor}", f"%z = {name} i{bits} %y, {other}"
    )
    with np.errstate(over="ignore"):
        y = _lanes(bits) * np.array(factor, f"int{bits}")
        z = ARITHMETIC[name](y, np.array(other, f"int{bits}"))
    assert known["%y"] == tuple(y.tolist())
    assert known["%z"] == tuple(z.tolist())


@pytest.mark.parametrize("bits", BITS)
@settings(deadline=None)
@given(data=st.data())
def test_comparisons_and_shifts_know_signs(bits: int, data: st.DataObject) -> None:
    factor, other = _factor_and_number(bits, data)
    by = data.draw(st.integers(0, bits - 1))
    name, sign = data.draw(st.sampled_from(sorted(COMPARISONS))), data.draw(st.sampled_from("su"))
    kind = name if name in ("eq", "ne") else sign + name
    known = _known(
        _cast(bits),
        f"%y = mul i{bits} %x, {factor}",
        f"%test = icmp {kind} i{bits} %y, {other}",
        f"%pick = select i1 %test, i{bits} %y, i{bits} %x",
        f"%left = shl i{bits} %y, {by}",
        f"%right = lshr i{bits} %y, {by}",
        f"%signed = ashr i{bits} %y, {by}",
        f"%wide = sext i1 %test to i{bits}",
    )
    unsigned = f"uint{bits}"
    with np.errstate(over="ignore"):
        y = _lanes(bits) * np.array(factor, f"int{bits}")
    a, b = y, np.array(other, f"int{bits}")
    if sign == "u":
        a, b = a.view(unsigned), b.view(unsigned)
    test = COMPARISONS[name](a, b)
    expected = {
        "%test": test.astype(int),
        "%pick": np.where(test, y, _lanes(bits)),
        "%left": (y.view(unsigned) << np.array(by, unsigned)).view(f"int{bits}"),
        "%right": (y.view(unsigned) >> np.array(by, unsigned)).view(f"int{bits}"),
        "%signed": y >> np.array(by, f"int{bits}"),
    }
    if not (test == test[0]).all():  # else it is no more than the same in all lanes
        expected["%wide"] = -test.astype(int)
    assert {name: known[name] for name in expected} == {
        name: tuple(value.tolist()) for name, value in expected.items()
    }


def test_what_grows_in_a_loop_is_looked_at_until_nothing_changes() -> None:
    """`%i` is the same in all lanes until the loop's end adds the lane to it, which `%a` in front
    of it, and `%b` behind that, learn late.
    """
    blocks = _blocks(
        [
            "bb:",
            f"  %lane = call i32 @{LANE_CALL}()",
            "  br label %loop",
            "loop:",
            "  %i = phi i32 [ 0, %bb ], [ %next, %loop ]",
            "  %same = phi i32 [ 7, %bb ], [ %more, %loop ]",
            "  %a = mul i32 %i, %i",
            "  %b = xor i32 %a, %same",
            "  %more = add i32 %same, 1",
            "  %next = add i32 %i, %lane",
            "  %go = icmp ult i32 %more, 100",
            "  br i1 %go, label %loop, label %end",
            "end:",
            "  ret void",
        ]
    )
    shapes = Shapes(blocks)
    steps = {name: shapes.get(name).step for name in ("%i", "%a", "%b", "%next")}
    assert steps == dict.fromkeys(steps)
    assert [shapes.get(name).step for name in ("%same", "%more", "%go")] == [0, 0, 0]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("i32 %a, 4", ["i32 %a", "4"]),
        ("ptr addrspace(1) %p, i64 %i", ["ptr addrspace(1) %p", "i64 %i"]),
        ("{ i32, i1 } %s, 1", ["{ i32, i1 } %s", "1"]),
        ("<2 x i32> <i32 1, i32 2>, i32 0", ["<2 x i32> <i32 1, i32 2>", "i32 0"]),
        ("float f(i32 1, i32 2) , %x", ["float f(i32 1, i32 2)", "%x"]),
    ],
)
def test_a_list_is_split_at_its_own_commas(text: str, parts: list[str]) -> None:
    assert split_list(text) == parts
