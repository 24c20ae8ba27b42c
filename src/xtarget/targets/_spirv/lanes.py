"""How far apart the lanes of a sub-group access memory, found by computing for some lanes.

What a kernel does not compute itself, such as its arguments, gets arbitrary numbers. So the answer
may be wrong where these happen to suit; it must only be used where a wrong one costs time.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence

from .irtext import VALUE, split_list
from .vector_code import LANE_CALL

__all__ = ["Lanes"]

#: Lanes that are looked at.
_LANES = (0, 1, 2, 7, 15)
_DEFINED = re.compile(rf"  ({VALUE}) = (?:tail )?(\w+) (.*)$")
_ADDRESS = re.compile(r"(?:[\w ]+ )?(i\d+|half|float|double|ptr[^,]*), (.*)$")
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
    """What the lanes of a module's kernel compute."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._code = {
            match[1]: (match[2], match[3]) for line in lines if (match := _DEFINED.match(line))
        }
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
            return (int(value),) * len(_LANES) if re.fullmatch(r"-?\d+", value) else _same(value)
        if value not in self._code:
            return _same(value)  # an argument
        op, rest = self._code[value]
        if op == "call":
            if f"@{LANE_CALL}(" in rest:
                return _LANES
            given = [self._of(name, depth + 1) for name in re.findall(VALUE, rest)]
            return _same(value) if all(map(_uniform, given)) else None
        if op == "getelementptr":
            return self._address(rest, depth)
        if op in _COPIES:
            return self._of(rest.split(" to ")[0].split()[-1], depth + 1)
        if op == "phi":
            return self._of(rest.split("[ ")[1].split(",")[0], depth + 1)
        names = [part.split()[-1] for part in split_list(rest)]
        operands = [self._of(name, depth + 1) for name in names if "align" not in name]
        if all(map(_uniform, operands)):
            return _same(value)
        first, second = operands[0], operands[-1]
        if op not in _COMPUTE or len(operands) != 2 or first is None or second is None:
            return None
        compute = _COMPUTE[op]
        return tuple(compute(a, b) for a, b in zip(first, second, strict=True))

    def _address(self, rest: str, depth: int) -> _Values | None:
        match = _ADDRESS.match(rest)
        parts = split_list(match[2]) if match else []
        if match is None or len(parts) != 2:
            return None
        base, index = (self._of(part.split()[-1], depth + 1) for part in parts)
        if base is None or index is None:
            return None
        size = _SIZES.get(match[1]) or (8 if match[1][0] == "p" else int(match[1][1:]) // 8)
        return tuple(a + b * size for a, b in zip(base, index, strict=True))


def _uniform(values: _Values | None) -> bool:
    return values is not None and len(set(values)) == 1


def _same(value: str) -> _Values:
    """One arbitrary number for all lanes: small, and no multiple of anything."""
    return (zlib.crc32(value.encode()) % 4093 | 1,) * len(_LANES)
