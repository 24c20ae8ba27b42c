"""Take vectors of one lane apart, because `vectors` makes vectors of the values of all lanes.

Where Triton brings values from one layout to another through shared memory, a lane stores or loads
several at once.
"""

from __future__ import annotations

import itertools
from math import gcd

from ..llvm.ir import Function, Instruction, Module
from ..llvm.reader import instructions, read_instruction
from ..llvm.types import Type
from ..llvm.words import map_names
from .code import size_of

__all__ = ["take_apart"]

_ELEMENTS = frozenset({"i8", "i16", "i32", "i64", "half", "float", "double"})


def take_apart(module: Module) -> None:
    """Make loads, stores, insertions and extractions of such vectors those of their elements. What
    else is done with one stays, and `vectors` refuses it.
    """
    for function in module.functions:
        marked = [one for one in function.code() if " x " in one.text and _is_short(one)]
        elements: dict[str, list[str]] = {}
        for one in marked:
            if one.op == "load":
                elements[one.name] = [f"{one.name}.e{k}" for k in range(one.type.length)]
        inserted = {one.name: one for one in marked if one.op == "insertelement"}
        if elements or inserted:
            for name in inserted:
                _build(name, inserted, elements)
            _take_apart(function, elements)


def _is_short(one: Instruction) -> bool:
    """Return whether an instruction is one of those that are taken apart, if its vector is."""
    if one.op in ("load", "store"):
        return not one.parts.flags and _has_elements(one.type)
    if one.op in ("insertelement", "extractelement"):
        return one.values[-1].isdigit() and _has_elements(one.operands[0].type)
    return False


def _has_elements(type_: Type) -> bool:
    return type_.is_vector and type_.element in _ELEMENTS


def _take_apart(function: Function, elements: dict[str, list[str]]) -> None:
    renamed: dict[str, str] = {}
    count = itertools.count()

    def change(one: Instruction) -> list[Instruction] | None:
        if not _is_short(one):
            return None
        value = one.values[0]
        if one.op == "load":
            places, made = _places(one, one.name)
            made += (
                f"  {element} = load {one.type.element}, {where}"
                for element, where in zip(elements[one.name], places, strict=True)
            )
            return instructions(*made)
        if one.op == "store" and value in elements:
            places, made = _places(one, f"{value}.s{next(count)}")
            made += (
                f"  store {one.type.element} {element}, {where}"
                for element, where in zip(elements[value], places, strict=True)
            )
            return instructions(*made)
        if one.op == "extractelement" and value in elements:
            renamed[one.name] = elements[value][int(one.values[1])]
            return []
        return [] if one.op == "insertelement" and one.name in elements else None

    function.rewrite(change, having=" x ")
    if not renamed:
        return
    final = {}
    for name, value in renamed.items():
        while value in renamed:
            value = renamed[value]
        final[name] = value

    def with_elements(one: Instruction) -> list[Instruction] | None:
        text = map_names(one.text, final)
        return None if text == one.text else [read_instruction(text)]

    function.rewrite(with_elements, having="%")


def _build(name: str, inserted: dict[str, Instruction], elements: dict[str, list[str]]) -> None:
    """Find the elements of an insertion, and of those that it stands on."""
    chain: list[Instruction] = []
    value = name
    while value not in elements and value in inserted:
        chain.append(inserted[value])
        value = inserted[value].values[0]
    if value in ("poison", "undef"):
        values = [value] * chain[-1].type.length
    elif value in elements:
        values = elements[value]
    else:
        return  # of a vector that something else makes
    for one in reversed(chain):
        values = list(values)
        values[int(one.values[2])] = one.values[1]
        elements[one.name] = values


def _places(one: Instruction, prefix: str) -> tuple[list[str], list[str]]:
    """Address and alignment of each element, and the lines that compute them."""
    place, type_ = one.operands[-1], one.type
    words = one.parts.rest.removeprefix(", ").split(", ")
    given = next((word for word in words if word.startswith("align ")), "align 0")
    size, align = size_of(type_.element), int(given.removeprefix("align "))
    places, made = [place.value], []
    for k in range(1, type_.length):
        places.append(f"{prefix}.p{k}")
        step = f"getelementptr {type_.element}, {place.type} {place.value}, i64 {k}"
        made.append(f"  {places[-1]} = {step}")
    return [
        f"{place.type} {address}" + (f", align {gcd(align, k * size)}" if align else "")
        for k, address in enumerate(places)
    ], made
