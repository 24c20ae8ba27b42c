"""Separate loop variables that take their values from each other, because Intel's CPU compiler gets
them wrong.

`q, p = p + 1, q` makes a phi of a loop take another phi of the same loop. With barriers in the loop
the compiler (2026.2, pass `vplan-vec`) asks of each of them what the other one needs, without end,
and dies of a stack that is too small. An operation between the two ends that: the value is combined
with a zero that the compiler does not know.
"""

from __future__ import annotations

from .ir import Function, Instruction, Module
from .reader import instructions
from .types import Type
from .unknown_zero import ZERO, add_zero, has_barrier

__all__ = ["separate_recurrences"]

#: The integer of a type's size.
_WORDS = {"float": "i32", "double": "i64", "half": "i16"}
_INTEGERS = ("i1", "i8", "i16", "i32", "i64")


def separate_recurrences(module: Module) -> None:
    """Leave no phi that takes another phi of its block from a loop, in functions with barriers."""
    for function in module.functions:
        if has_barrier(function):
            _separate(module, function)


def _separate(module: Module, function: Function) -> None:
    copies: dict[tuple[str, str], tuple[str, str]] = {}  # name and type by value and block
    for block in function.blocks:
        count = block.phis()
        phis = {one.name: one.type for one in block.code[:count]}

        def change(one: Instruction, phis: dict[str, Type] = phis) -> Instruction:
            values = []
            for value, label in zip(one.values, one.parts.labels, strict=True):
                type_ = phis.get(value, "")
                if type_ in _WORDS or type_ in _INTEGERS:
                    known = (f"%xt.own.{len(copies)}", type_)
                    value, _ = copies.setdefault((value, label), known)
                values.append(value)
            return one.with_values(values)

        block.code[:count] = [change(one) for one in block.code[:count]]
    if not copies:
        return
    for block in function.blocks:
        for (value, label), (copy, type_) in copies.items():
            if label == f"%{block.label}":
                block.code[-1:-1] = instructions(*_copied(copy, value, type_))
    add_zero(module, function)


def _copied(copy: str, value: str, type_: str) -> list[str]:
    """Operations that make `copy` of a value."""
    word = _WORDS.get(type_, type_)
    zero, lines = ZERO, []
    if word != "i64":
        zero = f"{copy}.zero"
        lines.append(f"  {zero} = trunc i64 {ZERO} to {word}")
    if word == type_:
        return [*lines, f"  {copy} = or {word} {value}, {zero}"]
    return [
        *lines,
        f"  {copy}.bits = bitcast {type_} {value} to {word}",
        f"  {copy}.same = or {word} {copy}.bits, {zero}",
        f"  {copy} = bitcast {word} {copy}.same to {type_}",
    ]
