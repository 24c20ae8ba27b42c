"""Find how each value of a kernel differs between the lanes of a warp, for `vectors`.

A value that is the same in all lanes stays a scalar. A value that grows by the same step from lane
to lane is known by its first lane. Only the rest become vectors.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from itertools import pairwise

from ...._values.value_classes import value_class
from .code import CASTS, LANE_CALL, LANES, Block, Instruction, is_number, size_of

__all__ = ["Shape", "Shapes"]


@value_class(frozen=True, slots=True)
class Shape:
    """The way in which a value differs between lanes.

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


def _bits(type_: str) -> int:
    return int(type_[1:])


def _wrap(values: Iterable[int], bits: int) -> tuple[int, ...]:
    """Numbers of so many bits, with a sign unless there is but one."""
    mask = (1 << bits) - 1
    if bits == 1:
        return tuple(value & mask for value in values)
    sign = 1 << (bits - 1)
    return tuple(((value & mask) ^ sign) - sign for value in values)


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


#: From two numbers with signs.
_SIGNED: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
#: From a number, and one without a sign: by how far to shift it.
_SHIFT: dict[str, Callable[[int, int], int]] = {
    "shl": operator.lshift,
    "lshr": operator.rshift,
    "ashr": operator.rshift,
}


def _evaluate(one: Instruction, values: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Compute the results of all lanes from their operands; None for other operations."""
    first, type_ = values[0], one.types[0]
    if one.op in CASTS or one.op == "freeze":
        if one.op == "zext":
            first = _unsigned(first, type_)
        elif one.op == "sext" and type_ == "i1":
            first = [-value for value in first]
        return _wrap(first, _bits(one.type))
    if one.op == "select":
        return tuple(b if a else c for a, b, c in zip(*values, strict=True))
    second = values[1]
    if one.op == "icmp":
        kind = one.extra
        if kind[0] == "u":
            first, second = _unsigned(first, type_), _unsigned(second, type_)
        compare = _COMPARE[kind if kind in _COMPARE else kind[1:]]
        return tuple(int(compare(a, b)) for a, b in zip(first, second, strict=True))
    operation = _SIGNED.get(one.op)
    if operation is None:
        operation = _SHIFT.get(one.op)
        second = _unsigned(second, type_)
        if operation is None or (one.op == "shl" and max(second) >= 64):
            return None
        if one.op != "ashr":
            first = _unsigned(first, type_)
    return _wrap(map(operation, first, second), _bits(one.type))


def _unsigned(values: Iterable[int], type_: str) -> list[int]:
    mask = (1 << _bits(type_)) - 1
    return [value & mask for value in values]


def _of_lanes(type_: str, known: tuple[int, ...]) -> Shape:
    steps = {b - a for a, b in pairwise(known)}
    step = steps.pop() if len(steps) == 1 else None
    exact = step is not None and min(known) >= 0
    return Shape(None if type_ == "i1" and step else step, exact, exact, known)


@cache
def _of_constant(value: str, type_: str) -> Shape:
    if type_[:1] == "i":
        number = {"true": 1, "false": 0}.get(value)
        if number is None and is_number(value):
            number = int(value)
        if number is not None:
            return Shape(0, known=(number,) * LANES)
    return UNIFORM


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
        values = [(block, one) for block in blocks for one in block.code if one.name]
        self._defined = {one.name for _, one in values}
        self._settle(values)

    def _settle(self, values: Sequence[tuple[Block, Instruction]]) -> None:
        """Compute the shapes of all values in their order, then again those whose operands have
        changed, until none changes."""
        users: dict[str, list[int]] = {}
        for index, (_, one) in enumerate(values):
            for operand in one.operands:
                if operand in self._defined:
                    users.setdefault(operand, []).append(index)
        following = set(range(len(values)))
        while following:
            now, following = sorted(following), set()  # sorted, it is a heap
            waiting = set(now)
            while now:
                index = heapq.heappop(now)
                block, one = values[index]
                shape = self._shape(block, one)
                if shape is None or shape == self._of.get(one.name):
                    continue
                self._of[one.name] = shape
                for user in users.get(one.name, ()):
                    if user <= index:
                        following.add(user)
                    elif user not in waiting:
                        waiting.add(user)
                        heapq.heappush(now, user)

    def get(self, value: str, type_: str = "") -> Shape:
        """Return an operand's shape; one that is not a block's value is the same in all lanes."""
        if value.startswith("%"):
            return self._of.get(value, UNIFORM)
        return _of_constant(value, type_)

    def _shape(self, block: Block, one: Instruction) -> Shape | None:
        """None while it depends on a value not seen yet."""
        if one.op == "phi":
            return self._phi(block, one)
        if one.op == "call" and one.extra == LANE_CALL:
            return Shape(1, known=tuple(range(LANES)))
        shapes = list(map(self.get, one.operands, one.types))
        if one.op == "call" and "shuffle" in one.extra:
            return VARYING if shapes[0].step != 0 else UNIFORM
        if not any(shape.step != 0 for shape in shapes):
            return VARYING if one.op == "load" and block.label in self._apart else UNIFORM
        known = [shape.known for shape in shapes if shape.known]
        if one.type[:1] == "i" and len(known) == len(shapes) and one.op not in ("call", "load"):
            lanes = _evaluate(one, known)
            if lanes is not None:
                return _of_lanes(one.type, lanes)
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
