"""Masks of lanes, and scalars that tell when one is full or empty."""

from __future__ import annotations

from collections.abc import Sequence

from .code import LANES, Block, Instruction, NotVectorizableError
from .shapes import Shapes
from .text import Text

__all__ = ["Masks"]

#: Known facts of a mask: a scalar that is true only if it is full, one only if it is empty.
_Facts = tuple[str, str]
_UNKNOWN: _Facts = ("false", "false")
#: Predicates that hold for all lanes if they hold for the last one of a growing left side.
_BELOW = {"slt": "s", "sle": "s", "ult": "u", "ule": "u"}
_ABOVE = {"sgt": "s", "sge": "s", "ugt": "u", "uge": "u"}
_SWAPPED = {
    "slt": "sgt", "sle": "sge", "ult": "ugt", "ule": "uge",
    "sgt": "slt", "sge": "sle", "ugt": "ult", "uge": "ule",
}  # fmt: skip


class Masks:
    """Masks are values of type i1, by name."""

    def __init__(self, text: Text, blocks: Sequence[Block], shapes: Shapes) -> None:
        self._text, self._shapes = text, shapes
        self._definitions = {one.name: one for block in blocks for one in block.code if one.name}
        self._facts: dict[str, _Facts] = {}
        self._negated: dict[str, str] = {}

    def facts(self, mask: str) -> _Facts:
        """(full, empty): scalars as text."""
        mask = self._text.resolved(mask)
        if mask not in self._facts:
            self._facts[mask] = self._found(mask)
        return self._facts[mask]

    def only_lane(self, mask: str) -> int | None:
        """The one lane that may be on; None where there may be others, or none is known."""
        mask = self._text.resolved(mask)
        known = self._shapes.get(mask).known
        if known is not None:
            return known.index(1) if sum(known) == 1 else None
        one = self._definitions.get(mask)
        if one is None or not (
            one.op == "and" or (one.op == "select" and one.operands[2] == "false")
        ):
            return None
        lanes = [self.only_lane(operand) for operand in one.operands[:2]]
        return next((lane for lane in lanes if lane is not None), None)

    def _found(self, mask: str) -> _Facts:
        if mask in ("true", "false"):
            return (mask, "true" if mask == "false" else "false")
        shape = self._shapes.get(mask)
        if mask.startswith("%xs.") or (not mask.startswith("%xv.") and shape.step == 0):
            return (mask, self._text.scalar_behind(mask, f"xor i1 {mask}, true"))
        if shape.known is not None:
            return (
                "true" if all(shape.known) else "false",
                "false" if any(shape.known) else "true",
            )
        one = self._definitions.get(mask)
        if one is None:
            return _UNKNOWN
        if one.op == "icmp":
            return self._comparison(one)
        if one.op == "and" or (one.op == "select" and one.operands[2] == "false"):
            (full, empty), (full2, empty2) = (self.facts(v) for v in one.operands[:2])
            return (self._and(mask, full, full2), self._or(mask, empty, empty2))
        if one.op == "or" or (one.op == "select" and one.operands[1] == "true"):
            (full, empty), (full2, empty2) = (
                self.facts(v) for v in (one.operands[0], one.operands[-1])
            )
            return (self._or(mask, full, full2), self._and(mask, empty, empty2))
        if one.op == "xor" and one.operands[1] == "true":
            return self.facts(one.operands[0])[::-1]
        return _UNKNOWN

    def _comparison(self, one: Instruction) -> _Facts:
        left, right, predicate, type_ = *one.operands, one.extra, one.types[0]
        if self._shapes.get(left, type_).step == 0 and predicate in _SWAPPED:
            left, right, predicate = right, left, _SWAPPED[predicate]
        shape, other = self._shapes.get(left, type_), self._shapes.get(right, type_)
        kind = _BELOW.get(predicate) or _ABOVE.get(predicate)
        step = shape.step
        exact = shape.signed if kind == "s" else shape.unsigned
        if kind is None or not step or step < 0 or other.step != 0 or not exact:
            return _UNKNOWN
        name, text = one.name, self._text
        first, end = text.scalar(left), text.scalar(right)
        if first.startswith("%"):
            last = text.scalar_behind(name, f"add {type_} {first}, {step * (LANES - 1)}")
        else:
            last = str(int(first) + step * (LANES - 1))
        low = text.scalar_behind(name, f"icmp {predicate} {type_} {first}, {end}")
        high = text.scalar_behind(name, f"icmp {predicate} {type_} {last}, {end}")
        full, some = (high, low) if predicate in _BELOW else (low, high)
        return (full, text.scalar_behind(name, f"xor i1 {some}, true"))

    def _and(self, at: str, one: str, other: str) -> str:
        return self._joined(at, "and", one, other, decides="false", changes_nothing="true")

    def _or(self, at: str, one: str, other: str) -> str:
        return self._joined(at, "or", one, other, decides="true", changes_nothing="false")

    def _joined(
        self, at: str, op: str, one: str, other: str, *, decides: str, changes_nothing: str
    ) -> str:
        if decides in (one, other):
            return decides
        if changes_nothing in (one, other):
            return other if one == changes_nothing else one
        return self._text.scalar_behind(at, f"{op} i1 {one}, {other}")

    # ------------------------------------------------------------------ new masks, made here

    def negated(self, mask: str) -> str:
        text = self._text
        all_lanes = f"<{', '.join(['i1 true'] * LANES)}>"
        name = text.assign(f"xor <{LANES} x i1> {text.vector(mask, 'i1')}, {all_lanes}", "i1")
        text.place_behind(name)
        self._facts[name] = self.facts(mask)[::-1]
        return name

    def both(self, mask: str | None, other: str) -> str:
        """`and`; None is the mask of all lanes."""
        return other if mask is None else self._combined("and", mask, other)

    def either(self, masks: Sequence[str | None]) -> str:
        """`or`."""
        given = [mask for mask in masks if mask is not None]
        if len(given) != len(masks):
            raise NotVectorizableError("a block that all lanes reach, among those of some lanes")
        result = given[0]
        for mask in given[1:]:
            result = self._combined("or", result, mask)
        return result

    def _combined(self, op: str, mask: str, other: str) -> str:
        text = self._text
        name = text.assign(
            f"{op} <{LANES} x i1> {text.vector(mask, 'i1')}, {text.vector(other, 'i1')}", "i1"
        )
        text.place_behind(name)
        (full, empty), (full2, empty2) = self.facts(mask), self.facts(other)
        if op == "and":
            self._facts[name] = (self._and(name, full, full2), self._or(name, empty, empty2))
        else:
            self._facts[name] = (self._or(name, full, full2), self._and(name, empty, empty2))
        return name
