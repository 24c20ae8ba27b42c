"""The distance between the memory accesses of a sub-group's lanes, found by computing the values of
some lanes.

Values that a kernel does not compute itself, such as its arguments, get arbitrary numbers. So the
result may be wrong where these happen to suit; use it only where a wrong result costs no more than
time.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from ..vectors.code import LANE_CALL
from .ir import Function, Instruction

__all__ = ["Lanes"]

#: Lanes that are looked at.
_LANES = (0, 1, 2, 7, 15)
_SIZES = {"i1": 1, "half": 2, "float": 4, "double": 8}
_Values = tuple[int, ...]
_COMPUTE: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << (b & 63),
    "lshr": lambda a, b: a >> (b & 63),
    "ashr": lambda a, b: a >> (b & 63),
    "udiv": lambda a, b: a // (b or 1),
    "urem": lambda a, b: a % (b or 1),
}
_COPIES = ("zext", "sext", "trunc", "freeze", "inttoptr", "ptrtoint", "addrspacecast", "bitcast")
#: Uses of values that are looked through; the code of a kernel is not deep.
_DEEP = 200


class Lanes:
    """The values that the lanes of a kernel compute."""

    def __init__(self, function: Function) -> None:
        self._code = {one.name: one for one in function.code() if one.name}
        self._known: dict[str, _Values | None] = {}

    def step(self, address: str) -> int | None:
        """Bytes from each lane to the next; None where that varies or is not known."""
        values = self._of(address, 0)
        if values is None:
            return None
        step = values[1] - values[0]
        even = all(
            value - values[0] == step * lane for lane, value in zip(_LANES, values, strict=True)
        )
        return step if even else None

    def _of(self, value: str, depth: int) -> _Values | None:
        """The lanes' values; None where they are not computed here and may differ."""
        if value not in self._known:
            self._known[value] = _same(value)  # within a loop, what it was before
            self._known[value] = self._computed(value, depth) if depth < _DEEP else None
        return self._known[value]

    def _computed(self, value: str, depth: int) -> _Values | None:
        if not value.startswith("%"):
            number = value.removeprefix("-").isdigit()
            return (int(value),) * len(_LANES) if number else _same(value)
        one = self._code.get(value)
        if one is None:
            return _same(value)  # an argument
        if one.op == "call":
            if one.callee == LANE_CALL:
                return _LANES
            given = [self._of(name, depth + 1) for name in one.names()]
            return _same(value) if all(map(_uniform, given)) else None
        if one.op == "getelementptr":
            return self._address(one, depth)
        if one.op in _COPIES or one.op == "phi":
            return self._of(one.values[0], depth + 1)
        operands = [self._of(name, depth + 1) for name in one.values]
        if all(map(_uniform, operands)):
            return _same(value)
        if one.op not in _COMPUTE or len(operands) != 2:
            return None
        first, second = operands
        if first is None or second is None:
            return None
        compute = _COMPUTE[one.op]
        return tuple(compute(a, b) for a, b in zip(first, second, strict=True))

    def _address(self, one: Instruction, depth: int) -> _Values | None:
        size = _size(one.parts.extra)
        if len(one.values) != 2 or size is None:
            return None
        base, index = (self._of(name, depth + 1) for name in one.values)
        if base is None or index is None:
            return None
        return tuple(a + b * size for a, b in zip(base, index, strict=True))


def _size(element: str) -> int | None:
    """Bytes of an element; None of an aggregate or a vector."""
    if element.startswith("ptr"):
        return 8
    return _SIZES.get(element) or (int(element[1:]) // 8 if element[1:].isdigit() else None)


def _uniform(values: _Values | None) -> bool:
    return values is not None and len(set(values)) == 1


def _same(value: str) -> _Values:
    """One arbitrary number for all lanes: small, and no multiple of anything."""
    return (zlib.crc32(value.encode()) % 4093 | 1,) * len(_LANES)
