"""The alignment of addresses in bytes, for stores past the caches.

A CPU has such stores for aligned vectors only; of others it makes several smaller ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..llvm.ir import Function
from .code import CASTS, LANE_CALL, WARP_CALL, Block, Instruction, is_number, size_of

__all__ = ["Alignments", "of_parameters"]

#: More than any store wants to know.
_MOST = 64


def of_parameters(function: Function) -> dict[str, int]:
    """By name, from a function's parameters."""
    found = {}
    for parameter in function.parameters():
        words = parameter.attributes.split(" ")
        if "align" in words:
            found[parameter.name] = min(int(words[words.index("align") + 1]), _MOST)
    return found


class Alignments:
    """Of each number and address, seen from lane 0, the power of two that it is a multiple of.

    Powers of two stay so when a number wraps around.
    """

    def __init__(self, blocks: Sequence[Block], parameters: Mapping[str, int]) -> None:
        self._blocks, self._parameters = blocks, parameters
        self._of: dict[str, int] = {}

    def get(self, value: str) -> int:
        """At most 64."""
        if not self._of:
            self._find()
        return self._operand(value)

    def _find(self) -> None:
        """Start from the best alignment of all values, and lower those that contradict their
        operands until none does."""
        self._of = dict(self._parameters)
        self._of |= {one.name: _MOST for block in self._blocks for one in block.code if one.name}
        changed = True
        while changed:
            changed = False
            for block in self._blocks:
                for one in block.code:
                    if one.name and (found := self._result(one)) != self._of[one.name]:
                        self._of[one.name], changed = found, True

    def _operand(self, value: str) -> int:
        if is_number(value):
            number = int(value)
            return min(number & -number, _MOST) if number else _MOST
        return self._of.get(value, 1)

    def _result(self, one: Instruction) -> int:
        given = [self._operand(value) for value in one.operands]
        if one.op in ("add", "sub", "or", "xor", "phi"):
            return min(given)
        if one.op == "select":
            return min(given[1:])
        if one.op == "and":
            return max(given)
        if one.op == "mul":
            return min(given[0] * given[1], _MOST)
        if one.op == "shl":
            by = one.operands[1]
            return min(given[0] << int(by), _MOST) if by.isdigit() else given[0]
        if one.op == "getelementptr":
            return min(given[0], given[1] * size_of(one.extra))
        if one.op in CASTS or one.op == "freeze":
            return given[0]
        return _MOST if one.op == "call" and one.extra in (LANE_CALL, WARP_CALL) else 1
