"""Indices in 64 bits, so that a CPU's run time sees which accesses are of neighbours.

LLVM shrinks arithmetic on indices to 32 bits and widens the result: `zext (add nuw %lane, 16)`.
What it knows of overflow gets lost on the way, and Intel's CPU compiler then takes a load of 16
neighbouring bytes for 16 loads from anywhere: a gather, or for 8 and 16 bits branches for each
lane. A transpose of 64 x 32 bits takes its compiler 4.3 s so, and 0.6 s with the sum in 64 bits.
"""

from __future__ import annotations

import re

from .irtext import VALUE

__all__ = ["widen_indices"]

_WIDENED = re.compile(rf"\s+({VALUE}) = (zext|sext) (nneg )?i32 ({VALUE}) to i64$")
_SUM = re.compile(rf"\s+({VALUE}) = (add|sub|mul|shl) ([\w ]*?)i32 (\S+), (\S+)$")
_KINDS = {"zext": "nuw", "sext": "nsw"}


def widen_indices(text: str) -> str:
    """LLVM IR in which sums and products that cannot overflow are widened before, not after."""
    lines = text.split("\n")
    result: list[str] = []
    start = 0
    for number, line in enumerate(lines):
        if line == "}":
            result += _Function(lines[start:number]).widened()
            start = number
    return "\n".join(result + lines[start:])


class _Function:
    """The lines up to a function's end."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._sums = {match[1]: match for line in lines if (match := _SUM.match(line))}
        self._wanted: set[tuple[str, str]] = set()
        self._made: list[str] = []
        self._count = 0

    def widened(self) -> list[str]:
        for line in self._lines:
            if match := _WIDENED.match(line):
                self._want(self._kind(match), match[4])
        if not self._wanted:
            return self._lines
        result = []
        for line in self._lines:
            match = _WIDENED.match(line)
            if match and (kind := self._kind(match)) and (kind, match[4]) in self._wanted:
                result += self._written(kind, match[4], match[1])
                continue
            result.append(line)
            if match := _SUM.match(line):
                for kind in _KINDS:
                    if (kind, match[1]) in self._wanted:
                        result += self._written(kind, match[1], _name(kind, match[1]))
        return result

    def _kind(self, match: re.Match[str]) -> str:
        """How an operand is widened. A number that is not negative may be taken either way, and
        what is known of its sum may be one of them only.
        """
        flags = self._sums[match[4]][3].split() if match[4] in self._sums else []
        if match[2] == "zext" and match[3] and "nuw" not in flags and "nsw" in flags:
            return "sext"
        return match[2]

    def _want(self, kind: str, value: str) -> None:
        todo = [value]
        while todo:
            match = self._sums.get(todo.pop())
            if match is None or (kind, match[1]) in self._wanted:
                continue
            if _KINDS[kind] not in match[3].split() or not _is_plain(match):
                continue
            self._wanted.add((kind, match[1]))
            todo += [match[4], match[5]]

    def _written(self, kind: str, value: str, name: str) -> list[str]:
        """The lines that compute a sum in 64 bits."""
        match = self._sums[value]
        done: list[str] = []
        operands = []
        for place in (4, 5):
            operand = match[place]
            if not operand.startswith("%"):
                number = int(operand)
                operands.append(str(number % 2**32 if kind == "zext" else number))
            elif (kind, operand) in self._wanted:
                operands.append(_name(kind, operand))
            else:
                self._count += 1
                wide = f"%xt.wide.{self._count}"
                done.append(f"  {wide} = {kind} i32 {operand} to i64")
                operands.append(wide)
        done.append(f"  {name} = {match[2]} nsw i64 {operands[0]}, {operands[1]}")
        return done


def _is_plain(match: re.Match[str]) -> bool:
    """Whether the operands are values and numbers, and a shift is by a number."""
    operands = (match[4], match[5])
    if match[2] == "shl" and match[5].startswith("%"):
        return False
    return all(re.fullmatch(rf"{VALUE}|-?\d+", operand) for operand in operands)


def _name(kind: str, value: str) -> str:
    return f"%xt.{kind}.{value[1:]}"
