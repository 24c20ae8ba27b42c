"""Indices in 64 bits, so that a CPU's run time sees which accesses are of neighbours.

LLVM shrinks arithmetic on indices to 32 bits and widens the result: `zext (add nuw %lane, 16)`.
What it knows of overflow gets lost on the way, and Intel's CPU compiler then takes a load of 16
neighbouring bytes for 16 loads from anywhere: a gather, or for 8 and 16 bits branches for each
lane. A transpose of 64 x 32 bits takes its compiler 4.3 s so, and 0.6 s with the sum in 64 bits.
"""

from __future__ import annotations

from .ir import Function, Instruction, Module
from .reader import instructions

__all__ = ["widen_indices"]

_SUMS = ("add", "sub", "mul", "shl")
_KINDS = {"zext": "nuw", "sext": "nsw"}


def widen_indices(module: Module) -> None:
    """Widen sums and products that cannot overflow before, not after."""
    for function in module.functions:
        _Widening(function).run()


class _Widening:
    """A function while its indices are widened."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._sums = {
            one.name: one
            for one in function.code()
            if one.op in _SUMS and "i32 " in one.text and one.type == "i32"
        }
        self._wanted: set[tuple[str, str]] = set()
        self._count = 0

    def run(self) -> None:
        for one in self._function.code():
            if self._is_widened(one):
                self._want(self._kind(one), one.values[0])
        if self._wanted:
            self._function.rewrite(self._change)

    @staticmethod
    def _is_widened(one: Instruction) -> bool:
        if one.op not in _KINDS or not one.text.endswith(" to i64"):
            return False
        return one.operands[0].type == "i32" and one.operands[0].is_name

    def _change(self, one: Instruction) -> list[Instruction] | None:
        if self._is_widened(one):
            kind, value = self._kind(one), one.values[0]
            if (kind, value) in self._wanted:
                return instructions(*self._written(kind, value, one.name))
            return None
        kinds = [kind for kind in _KINDS if (kind, one.name) in self._wanted]
        if not kinds:
            return None
        return [
            one,
            *(
                made
                for kind in kinds
                for made in instructions(*self._written(kind, one.name, _name(kind, one.name)))
            ),
        ]

    def _kind(self, one: Instruction) -> str:
        """Return how an operand is widened. A number that is not negative may be widened either
        way, but its sum may be known to allow only one of them.
        """
        known = self._sums.get(one.values[0])
        flags = known.parts.flags if known else []
        if one.op == "zext" and "nneg" in one.parts.flags and "nuw" not in flags and "nsw" in flags:
            return "sext"
        return one.op

    def _want(self, kind: str, value: str) -> None:
        todo = [value]
        while todo:
            one = self._sums.get(todo.pop())
            if one is None or (kind, one.name) in self._wanted:
                continue
            if _KINDS[kind] not in one.parts.flags or not _is_plain(one):
                continue
            self._wanted.add((kind, one.name))
            todo += one.values

    def _written(self, kind: str, value: str, name: str) -> list[str]:
        """The lines that compute a sum in 64 bits."""
        one = self._sums[value]
        done: list[str] = []
        operands = []
        for operand in one.values:
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
        done.append(f"  {name} = {one.op} nsw i64 {operands[0]}, {operands[1]}")
        return done


def _is_plain(one: Instruction) -> bool:
    """Return whether all operands are values or numbers, and a shift is by a number."""
    if one.op == "shl" and one.operands[1].is_name:
        return False
    return all(o.is_name or o.value.removeprefix("-").isdigit() for o in one.operands)


def _name(kind: str, value: str) -> str:
    return f"%xt.{kind}.{value[1:]}"
