"""How each value of a kernel differs between the lanes of a warp, for `vectors`.

What is the same in all lanes stays a scalar, what grows by the same step from lane to lane is known
by its first lane, and only the rest becomes a vector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .vector_code import CASTS, LANE_CALL, LANES, Block, Instruction, size_of

__all__ = ["Shape", "Shapes"]


@dataclass(frozen=True, slots=True)
class Shape:
    """How a value differs between lanes.

    Attributes:
        step: what each lane adds to the one before (0: all are the same), None if that varies.
        signed, unsigned: no lane wraps around, seen as a number of that kind.
        known: the lanes' values, where they depend on nothing else.
    """

    step: int | None
    signed: bool = True
    unsigned: bool = True
    known: tuple[int, ...] | None = None


UNIFORM, VARYING = Shape(0), Shape(None, False, False)


def _wrapped(value: int, type_: str) -> int:
    bits = int(type_[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def _bits(value: int, type_: str) -> int:
    return value & ((1 << int(type_[1:])) - 1)


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


#: From two numbers, and the same two without signs.
_COMPUTE: dict[str, Callable[[int, int, int, int], int | None]] = {
    "add": lambda a, b, ua, ub: a + b,
    "sub": lambda a, b, ua, ub: a - b,
    "mul": lambda a, b, ua, ub: a * b,
    "and": lambda a, b, ua, ub: a & b,
    "or": lambda a, b, ua, ub: a | b,
    "xor": lambda a, b, ua, ub: a ^ b,
    "shl": lambda a, b, ua, ub: ua << ub if ub < 64 else None,
    "lshr": lambda a, b, ua, ub: ua >> ub,
    "ashr": lambda a, b, ua, ub: a >> ub,
}


def _evaluate(one: Instruction, values: Sequence[int]) -> int | None:
    """What one lane computes, None for what is not evaluated here."""
    a, type_ = values[0], one.types[0]
    if one.op in CASTS or one.op == "freeze":
        if one.op == "zext":
            return _wrapped(_bits(a, type_), one.type)
        return _wrapped(-a if one.op == "sext" and type_ == "i1" else a, one.type)
    if one.op == "select":
        return values[1] if a else values[2]
    b = values[1]
    ua, ub = _bits(a, type_), _bits(b, type_)
    if one.op == "icmp":
        kind = one.extra
        if kind[0] == "u" and kind != "une":
            return int(_COMPARE[kind[1:]](ua, ub))
        return int(_COMPARE[kind if kind in _COMPARE else kind[1:]](a, b))
    operation = _COMPUTE.get(one.op)
    result = operation(a, b, ua, ub) if operation else None
    return None if result is None else _wrapped(result, one.type)


def _of_lanes(type_: str, known: tuple[int, ...]) -> Shape:
    steps = {b - a for a, b in pairwise(known)}
    step = steps.pop() if len(steps) == 1 else None
    exact = step is not None and min(known) >= 0
    return Shape(None if type_ == "i1" and step else step, exact, exact, known)


class Shapes:
    """The shapes of all values, found by going round until nothing changes."""

    def __init__(
        self,
        blocks: Sequence[Block],
        joins: Collection[str] = (),
        apart: Collection[str] = (),
        doubtful: Collection[str] = (),
    ) -> None:
        """Look at all blocks.

        Args:
            blocks: of a kernel.
            joins: blocks where lanes come together that went different ways.
            apart: blocks that not all lanes go through.
            doubtful: those of them where what is said of an overflow need not hold for lane 0.
        """
        self._of: dict[str, Shape] = {}
        self._joins, self._apart, self._doubtful = joins, apart, doubtful
        self._defined = {one.name for block in blocks for one in block.code if one.name}
        changed = True
        while changed:
            changed = False
            for block in blocks:
                for one in block.code:
                    shape = self._shape(block, one) if one.name else None
                    if shape is not None and shape != self._of.get(one.name):
                        self._of[one.name] = shape
                        changed = True

    def get(self, value: str, type_: str = "") -> Shape:
        """The shape of an operand; what is no value of a block is the same in all lanes."""
        if value.startswith("%"):
            return self._of.get(value, UNIFORM)
        if type_[:1] == "i":
            number = {"true": 1, "false": 0}.get(value)
            if number is None and re.fullmatch(r"-?\d+", value):
                number = int(value)
            if number is not None:
                return Shape(0, known=(number,) * LANES)
        return UNIFORM

    def _shape(self, block: Block, one: Instruction) -> Shape | None:
        """None while it depends on a value not seen yet."""
        if one.op == "phi":
            return self._phi(block, one)
        if one.op == "call" and one.extra == LANE_CALL:
            return Shape(1, known=tuple(range(LANES)))
        shapes = [self.get(v, t) for v, t in zip(one.operands, one.types, strict=True)]
        if one.op == "call" and "shuffle" in one.extra:
            return VARYING if shapes[0].step != 0 else UNIFORM
        if all(shape.step == 0 for shape in shapes):
            return VARYING if one.op == "load" and block.label in self._apart else UNIFORM
        if one.type[:1] == "i" and all(s.known for s in shapes) and one.op not in ("call", "load"):
            lanes = [_evaluate(one, [s.known[i] for s in shapes if s.known]) for i in range(LANES)]
            if None not in lanes:
                return _of_lanes(one.type, tuple(v for v in lanes if v is not None))
        flags = [] if block.label in self._doubtful else one.flags
        return self._affine(one, shapes, flags)

    def _phi(self, block: Block, one: Instruction) -> Shape | None:
        seen = [
            self.get(v, t)
            for v, t in zip(one.operands, one.types, strict=True)
            if not v.startswith("%") or v in self._of or v not in self._defined
        ]
        if not seen:
            return None
        if block.label in self._joins and len(set(one.operands)) > 1:
            return VARYING
        steps = {s.step for s in seen}
        if len(steps) > 1 or None in steps:
            return VARYING
        return Shape(seen[0].step, all(s.signed for s in seen), all(s.unsigned for s in seen))

    def _affine(self, one: Instruction, shapes: list[Shape], flags: list[str]) -> Shape:
        steps = [s.step for s in shapes]
        if None in steps or one.type in ("half", "float", "double", "i1"):
            return VARYING
        step: int | None = None
        if one.op == "or" and "disjoint" in flags:
            step = sum(s for s in steps if s is not None)
            return Shape(step, all(s.signed for s in shapes), all(s.unsigned for s in shapes))
        constant = shapes[-1].known[0] if shapes[-1].known and steps[-1] == 0 else None
        if one.op == "mul" and shapes[0].known and steps[0] == 0:
            constant, steps = shapes[0].known[0], [steps[1], 0]
        first, second = steps[0] or 0, steps[1] or 0 if len(steps) > 1 else 0
        if one.op == "add":
            step = first + second
        elif one.op == "sub":
            step = first - second
        elif one.op == "mul" and constant is not None:
            step = first * constant
        elif one.op == "shl" and constant is not None:
            step = first << constant
        elif (one.op == "sext" and shapes[0].signed) or one.op == "freeze":
            return Shape(first, shapes[0].signed, shapes[0].unsigned)
        elif one.op == "zext" and (shapes[0].unsigned or ("nneg" in flags and shapes[0].signed)):
            return Shape(first)
        elif one.op == "getelementptr" and (one.types[1] == "i64" or shapes[1].signed):
            return Shape(first + second * size_of(one.extra), False, False)
        else:
            return VARYING
        return Shape(
            step,
            "nsw" in flags and all(s.signed for s in shapes),
            "nuw" in flags and all(s.unsigned for s in shapes),
        )
