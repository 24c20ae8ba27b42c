"""Texts of steps with numbered holes: a step like one before is written by filling them.

Hole 0 is the result, 1 and those that follow are the operands. Numbers that are known stand in the
text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from .._c.values import DType
from .steps import Operand, Step

__all__ = ["filled_in", "kind_of", "pattern", "text_of_step"]

_T = TypeVar("_T")
#: An operand whose number is known: its type and the number's text, which tells -0.0 from 0.0.
_Known = tuple[DType, str]
_Kind = tuple[str, DType, DType, str, tuple[_Known | None, ...]]


def kind_of(step: Step) -> _Kind:
    """Return what steps have in common whose texts differ in names of values only."""
    known = tuple([None if o.number >= 0 else (o.dtype, repr(o.constant)) for o in step.operands])
    return step.name, step.dtype, step.result.dtype, step.parameter, known


@lru_cache(maxsize=4096)
def pattern(write: Callable[[Step], _T], kind: _Kind) -> _T:
    """Return what `write` makes of a step of a kind."""
    name, dtype, result, parameter, known = kind
    operands = tuple(
        Operand("", dtype, number=place) if one is None else _number(*one)
        for place, one in enumerate(known)
    )
    return write(Step(name, dtype, operands, Operand("", result, number=0), parameter))


def _number(dtype: DType, text: str) -> Operand:
    number = text == "True" if dtype.is_bool() else (float if dtype.is_floating() else int)(text)
    return Operand("", dtype, constant=number)


def filled_in(text: str, step: Step, number: int) -> str:
    """A text of the step's kind with the names of its values: `v` and their numbers; `s` and the
    step's own where it has no result."""
    result = step.result.number
    names = [f"v{result}" if result >= 0 else f"s{number}"]
    names += [f"v{one.number}" for one in step.operands]
    return text.format(*names)


def text_of_step(write: Callable[[Step], str], step: Step, number: int) -> str:
    """A step's text, whose kind `write` writes."""
    return filled_in(pattern(write, kind_of(step)), step, number)
