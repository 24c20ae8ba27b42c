"""The text that `vectors` writes: each value as the scalar or vector that is requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from .code import LANES, Block, NotVectorizableError
from .shapes import Shapes

__all__ = ["Text"]

_Line: TypeAlias = "str | list[str]"
_EMPTY = {"poison", "undef", "zeroinitializer"}


class Text:
    """Blocks in the order in which they are written.

    A value may be wanted in a form that nobody made yet, a scalar as a vector for instance; it is
    then made right behind its definition, where it serves all uses.
    """

    def __init__(self, blocks: Sequence[Block], shapes: Shapes) -> None:
        self._shapes = shapes
        self._types = {one.name: one.type for block in blocks for one in block.code if one.name}
        self._lines: list[_Line] = []
        self._later: list[tuple[int, Callable[[], str]]] = []
        self._behind: dict[str, list[str]] = {}
        self._first: list[str] = []
        self._vectors: dict[tuple[str, str], str] = {}
        self._aliases: dict[str, str] = {}
        self._declarations: dict[str, str] = {}
        self._count = 0
        self._current = ""
        self._exits: dict[str, str] = {}

    # ------------------------------------------------------------------ places

    def open(self, label: str) -> None:
        """Begin a block."""
        self._lines.append(f"{label}:")
        if not self._current:
            self._lines.append(self._first)
        self._current = label

    def close(self, label: str) -> None:
        """The code of the block `label` of the source ends here."""
        self._exits[label] = self._current

    def exit(self, label: str) -> str:
        """The label to name in a phi for the source's block `label`."""
        return self._exits[label]

    @property
    def current(self) -> str:
        return self._current

    def emit(self, line: str | Callable[[], str]) -> None:
        """Add a line; pass a function for a line that depends on code not yet written."""
        if callable(line):
            self._later.append((len(self._lines), line))
            line = ""
        self._lines.append(f"  {line}")

    def place_behind(self, *names: str) -> None:
        """Reserve this place for code that is made from these values later."""
        place: list[str] = []
        self._lines.append(place)
        for name in names:
            self._behind[name] = place

    def declare(self, line: str) -> None:
        self._declarations[line] = line

    def declarations(self) -> list[str]:
        return list(self._declarations)

    def lines(self) -> list[str]:
        """All text."""
        for index, line in self._later:  # it may add to what is behind other lines
            self._lines[index] = f"  {line()}"
        self._later.clear()
        result: list[str] = []
        for text in self._lines:
            if isinstance(text, str):
                result.append(text)
            else:
                result += text
        return result

    # ------------------------------------------------------------------ values

    def fresh(self, prefix: str = "") -> str:
        """A name; that of a vector begins with `%xv.`, of a scalar with `%xs.`."""
        self._count += 1
        return f"{prefix}{self._count}"

    def alias(self, name: str, value: str) -> None:
        """`name` is another word for `value`."""
        self._aliases[name] = value

    def resolved(self, value: str) -> str:
        while value in self._aliases:
            value = self._aliases[value]
        return value

    def assign(self, line: str, type_: str, name: str = "") -> str:
        """A new vector; `type_` is that of its elements."""
        name = name or self.fresh("%xv.")
        self.emit(f"{name} = {line}")
        self._types[name] = type_
        return name

    def scalar_behind(self, value: str, line: str) -> str:
        """A new scalar, made behind the definition of `value` (at the start for an argument)."""
        name = self.fresh("%xs.")
        self._place(value).append(f"  {name} = {line}")
        self._behind[name] = self._place(value)
        return name

    def scalar_here(self, line: str) -> str:
        """A new scalar."""
        name = self.fresh("%xs.")
        self.emit(f"{name} = {line}")
        self.place_behind(name)
        return name

    def _place(self, value: str) -> list[str]:
        return self._behind.get(value, self._first)

    def scalar(self, value: str) -> str:
        """The value of the first lane, which is that of all where lanes do not differ."""
        value = self.resolved(value)
        if not value.startswith("%") or value.startswith("%xs."):
            return value
        shape = self._shapes.get(value)
        if value.startswith("%xv.") or shape.step is None:
            raise NotVectorizableError(f"{value} as a scalar")
        if shape.known is not None:
            return self._literal(shape.known[0], self._types[value])
        return value

    @staticmethod
    def _literal(number: int, type_: str) -> str:
        return ("true" if number else "false") if type_ == "i1" else str(number)

    @staticmethod
    def vector_type(type_: str) -> str:
        return f"<{LANES} x {type_}>"

    def constant(self, values: Iterable[int], type_: str) -> str:
        """A vector of numbers."""
        return f"<{', '.join(f'{type_} {self._literal(v, type_)}' for v in values)}>"

    def vector(self, value: str, type_: str) -> str:
        """The value as a vector with elements of `type_`."""
        value = self.resolved(value)
        if value.startswith("%xv.") or value in _EMPTY:
            return value
        if not value.startswith("%"):
            return f"<{', '.join([f'{type_} {value}'] * LANES)}>"
        shape = self._shapes.get(value)
        if not value.startswith("%xs."):
            if shape.known is not None:
                return self.constant(shape.known, type_)
            if shape.step is None:
                return value
        known = self._vectors.get((value, type_))
        if known is None:
            known = self._vectors[value, type_] = self._spread(value, type_, shape.step or 0)
        return known

    def _spread(self, value: str, type_: str, step: int) -> str:
        place, vector = self._place(value), self.vector_type(type_)
        one, name = self.fresh("%xv."), self.fresh("%xv.")
        place.append(f"  {one} = insertelement {vector} poison, {type_} {value}, i32 0")
        place.append(
            f"  {name} = shufflevector {vector} {one}, {vector} poison, "
            f"<{LANES} x i32> zeroinitializer"
        )
        if not step:
            return name
        steps = self.constant((_signed(step * lane, type_) for lane in range(LANES)), type_)
        stepped = self.fresh("%xv.")
        place.append(f"  {stepped} = add {vector} {name}, {steps}")
        return stepped


def _signed(value: int, type_: str) -> int:
    bits = int(type_[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
