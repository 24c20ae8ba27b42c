"""Values that a loop hands from one variable to another, where Intel's CPU compiler cannot follow.

`q, p = p + 1, q` makes a phi of a loop take another phi of the same loop. With barriers in the loop
the compiler (2026.2, pass `vplan-vec`) asks of each of them what the other one needs, without end,
and dies of a stack that is too small. An operation between the two ends that: the value is combined
with a zero that the compiler does not know.
"""

from __future__ import annotations

import re

from .irtext import VALUE

__all__ = ["separate_recurrences"]

_LABEL = re.compile(r"([\w.$-]+):")
_PHI = re.compile(rf"  ({VALUE}) = phi (\w+) (\[ .*\])$")
_INCOMING = re.compile(rf"\[ ({VALUE}), ({VALUE}) \]")
_TERMINATOR = re.compile(r"  (?:br|switch) ")
_BARRIER = "@_Z7barrierj(i32 "  # a call, not the declaration
#: The integer of a type's size.
_WORDS = {"float": "i32", "double": "i64", "half": "i16"}
_INTEGERS = ("i1", "i8", "i16", "i32", "i64")
#: A number of blocks has no sign.
_ZERO = """\
  %xt.blocks = tail call spir_func i64 @_Z14get_num_groupsj(i32 0)
  %xt.zero = lshr i64 %xt.blocks, 63"""
_DECLARATION = "declare spir_func i64 @_Z14get_num_groupsj(i32)"


def separate_recurrences(text: str) -> str:
    """LLVM IR of one function in which no phi takes another one of its block from a loop."""
    if _BARRIER not in text:
        return text
    lines = text.split("\n")
    phis: dict[str, tuple[str, str]] = {}  # type and block by name
    block = ""
    for line in lines:
        if match := _LABEL.match(line):
            block = match[1]
        elif match := _PHI.match(line):
            phis[match[1]] = match[2], block
    copies: dict[tuple[str, str], str] = {}  # by value and the block that it comes from

    def incoming(match: re.Match[str]) -> str:
        value, label = match[1], match[2]
        if phis.get(value, ("", ""))[1] != block or phis[value][0] not in (*_WORDS, *_INTEGERS):
            return match[0]
        copy = copies.setdefault((value, label), f"%xt.own.{len(copies)}")
        return f"[ {copy}, {label} ]"

    for number, line in enumerate(lines):
        if match := _LABEL.match(line):
            block = match[1]
        elif match := _PHI.match(line):
            lines[number] = line[: match.start(3)] + _INCOMING.sub(incoming, match[3])
    if not copies:
        return text
    result: list[str] = []
    zero = [_ZERO]  # behind the label of the first block
    for line in lines:
        match = _LABEL.match(line)
        if match:
            block = match[1]
        elif _TERMINATOR.match(line):
            for (value, label), copy in copies.items():
                if label == f"%{block}":
                    result += _copied(copy, value, phis[value][0])
        result.append(line)
        if match and zero:
            result.append(zero.pop())
    if _DECLARATION not in text:
        result.append(_DECLARATION)
    return "\n".join(result)


def _copied(copy: str, value: str, type_: str) -> list[str]:
    """Operations that make `copy` of a value."""
    word = _WORDS.get(type_, type_)
    zero, lines = "%xt.zero", []
    if word != "i64":
        zero = f"{copy}.zero"
        lines.append(f"  {zero} = trunc i64 %xt.zero to {word}")
    if word == type_:
        return [*lines, f"  {copy} = or {word} {value}, {zero}"]
    return [
        *lines,
        f"  {copy}.bits = bitcast {type_} {value} to {word}",
        f"  {copy}.same = or {word} {copy}.bits, {zero}",
        f"  {copy} = bitcast {word} {copy}.same to {type_}",
    ]
