"""Accesses of 8 and 16 bits as accesses of words, for CPUs.

A CPU gathers words of 32 and 64 bits in one instruction. Narrower elements that do not lie side by
side are loaded one by one, and Intel's CPU compiler, which writes all code a second time for a cut
sub-group, puts a branch around each of them there: 16 for every load in the source, and its time
grows faster than their number. The aligned word around an element can always be read: it lies in
the same page. What else is in it may change meanwhile; it is cut off.

A lane's vector of such elements is taken apart in the same way, also where it is stored, so it is
loaded and stored as the words that it consists of.
"""

from __future__ import annotations

import itertools
from functools import partial

from .ir import Function, Instruction, Module
from .lanes import Lanes
from .reader import instructions
from .types import Operand, Type

__all__ = ["access_words"]

_BITS = {"i8": 8, "i16": 16, "half": 16}
_SPACES = (1, 3)


def access_words(module: Module) -> None:
    """Leave no loads of 8 and 16 bits from places that are not adjacent, and no vectors of them in
    memory. Volatile and atomic accesses, and those past the caches, stay.
    """
    count = itertools.count()
    for function in module.functions:
        lanes: list[Lanes] = []
        function.rewrite(
            partial(_accessed, function=function, lanes=lanes, count=count),
            ops=("load", "store"),
        )


def _accessed(
    one: Instruction, function: Function, lanes: list[Lanes], count: itertools.count[int]
) -> list[Instruction] | None:
    """The access as one of words; None where it stays."""
    type_, address = one.type, one.operands[-1]
    if type_.element not in _BITS or address.type.space not in _SPACES or one.parts.flags:
        return None
    rest = one.parts.rest
    if not rest.startswith(", align ") or not one.text.endswith(rest):
        return None
    if type_.is_vector:
        lines = _vector(one, type_, address, int(rest.removeprefix(", align ")), count)
        return instructions(*lines) if lines else None
    if one.op == "store" or not address.is_name:
        return None
    if not lanes:  # costs time, and most kernels have no such load
        lanes.append(Lanes(function))
    bits = _BITS[type_]
    if lanes[0].step(address.value) in (0, bits // 8):
        return None
    v, pointer = f"%xt.word.{next(count)}", address.type
    return instructions(
        f"  {v}.at = ptrtoint {pointer} {address.value} to i64",
        f"  {v}.aligned = and i64 {v}.at, -4",
        f"  {v}.place = inttoptr i64 {v}.aligned to {pointer}",
        f"  {v} = load i32, {pointer} {v}.place, align 4",
        f"  {v}.low = trunc i64 {v}.at to i32",
        f"  {v}.bytes = shl i32 {v}.low, 3",
        f"  {v}.bits = and i32 {v}.bytes, 24",
        f"  {v}.moved = lshr i32 {v}, {v}.bits",
        f"  {v}.cut = trunc i32 {v}.moved to i{bits}",
        # without it LLVM 22 makes one operation of this and a later extension, and gives it
        # operands of two types
        f"  {v}.kept = freeze i{bits} {v}.cut",
        f"{one.indented}bitcast i{bits} {v}.kept to {type_}",
    )


def _vector(
    one: Instruction, type_: Type, address: Operand, align: int, count: itertools.count[int]
) -> list[str]:
    """The lines for a vector; none where it is not made of words."""
    loaded = one.op == "load"
    words, rest = divmod(type_.length * _BITS[type_.element], 32)
    if rest or align < 4 or words not in (1, 2, 3, 4, 8):
        return []
    if not loaded and not one.operands[0].is_name:
        return []
    v, at = f"%xt.word.{next(count)}", f"{address.type} {address.value}"
    made = "i32" if words == 1 else f"<{words} x i32>"
    done = [] if loaded else [f"  {v} = bitcast {type_} {one.values[0]} to {made}"]
    value = "poison" if loaded else v
    for word in range(words):
        done.append(f"  {v}.at{word} = getelementptr i8, {at}, i64 {4 * word}")
        if loaded:
            done.append(f"  {v}.{word} = load i32, {address.type} {v}.at{word}, align 4")
            if words > 1:
                parts = f"{made} {value}, i32 {v}.{word}, i64 {word}"
                done.append(f"  {v}.to{word} = insertelement {parts}")
            value = f"{v}.to{word}" if words > 1 else f"{v}.{word}"
        else:
            if words > 1:
                done.append(f"  {v}.{word} = extractelement {made} {v}, i64 {word}")
            part = f"{v}.{word}" if words > 1 else v
            done.append(f"  store i32 {part}, {address.type} {v}.at{word}, align 4")
    return [*done, f"{one.indented}bitcast {made} {value} to {type_}"] if loaded else done
