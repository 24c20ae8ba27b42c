"""Integer programs: the compiled core gives what Python gives, or leaves the answer to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import drawn

from xtarget._core import native
from xtarget._values.programs import IntegerProgram, Name, Operand, Step
from xtarget._values.symbolic_integers import COMPUTE
from xtarget._values.symbols import _COMPARE

SMALL = st.integers(-20, 130)
NUMBERS = st.one_of(
    SMALL,
    st.sampled_from([2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63), 1 - 2**63]),
    st.integers(-(2**63), 2**63 - 1),
)
SYMBOLS = ("v0", "v1", "v2")


@pytest.fixture(scope="module")
def core() -> Any:
    made = native()
    if made is None:
        pytest.skip("the compiled core is not built, or XTARGET_CORE=python")
    return made


@st.composite
def programs(draw: st.DrawFn) -> IntegerProgram:
    known: list[str] = list(SYMBOLS)
    steps: list[Step] = []
    for number in range(draw(st.integers(0, 12))):
        how = draw(st.sampled_from([*COMPUTE, *COMPUTE, *_COMPARE]))
        a: Operand = draw(st.one_of(st.sampled_from(known), NUMBERS))
        b: Operand = draw(st.one_of(st.sampled_from(known), NUMBERS))
        if how in ("lshift", "rshift"):
            b = draw(st.one_of(st.just("v2"), SMALL))  # others take all memory
        operands = (a,) if how in ("neg", "bits") else (a, b)
        name = "" if how in _COMPARE else f"_{number}"
        steps.append((name, how, operands))
        if name:
            known.append(name)
    result = st.one_of(st.sampled_from(known).map(Name), NUMBERS)
    nested = st.lists(st.one_of(result, st.tuples(result, result)), max_size=5).map(tuple)
    return IntegerProgram(SYMBOLS, tuple(steps), draw(nested))


def leaves(value: Any) -> list[Any]:
    return [one for part in value for one in leaves(part)] if type(value) is tuple else [value]


def expected(program: IntegerProgram, values: tuple[int, ...]) -> Any:
    """Step by step; False where a number has more than 64 bits, or there is none."""
    known: dict[Operand, int] = dict(zip(program.symbols, values, strict=True))
    for name, how, operands in program.steps:
        taken = [one if type(one) is int else known[one] for one in operands]
        if not name:
            if not _COMPARE[how](*taken):
                return None
            continue
        try:
            made = COMPUTE[how](*taken)
        except (ZeroDivisionError, ValueError):
            return False
        if not -(2**63) <= made < 2**63:
            return False
        known[name] = made
    return tuple(one if type(one) is int else known[one] for one in leaves(program.results))


@settings(deadline=None, max_examples=drawn(600))
@given(program=programs(), values=st.tuples(NUMBERS, NUMBERS, SMALL))
def test_core_and_python_agree(core: Any, program: IntegerProgram, values: Any) -> None:
    flat = program.flat()
    assert flat is not None
    found = core.evaluate(flat, values)
    assert found == expected(program, values)
    if found is not False:  # Python does not end at 64 bits, nor where there is no result
        told = program.function()(values)
        assert (told if told is None else tuple(leaves(told))) == found


def test_a_program_that_the_core_cannot_run_is_pythons(core: Any) -> None:
    def made(results: Any, *steps: Step) -> IntegerProgram:
        return IntegerProgram(("v0",), steps, results)

    assert made((2**63,)).flat() is None
    assert made((Name("v0"), "text")).flat() is None
    assert made((None,)).flat() is None
    assert made((), ("", "<", ("v0", -(2**63) - 1))).flat() is None
    assert made((1,) * 97).flat() is None
    long = [(f"_{i}", "add", ("v0", "v0")) for i in range(600)]
    assert made((), *long).flat() is None


@pytest.mark.parametrize(
    ("program", "symbols"),
    [
        ((1, (), ((0, 0, 1),), ()), (1,)),  # takes a register that is not there yet
        ((1, (), ((99, 0, 0),), ()), (1,)),
        ((1, (), (), (1,)), (1,)),
        ((2, (), (), ()), (1,)),
        ((-1, (), (), ()), ()),
        ((1, (), ((0, 0),), ()), (1,)),
        ((1, ("text",), (), ()), (1,)),
        ((1, (2**63,), (), ()), (1,)),
        ((1, (), (), ()), ("text",)),
    ],
)
def test_what_is_no_program_is_refused(core: Any, program: Any, symbols: Any) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        core.evaluate(program, symbols)
