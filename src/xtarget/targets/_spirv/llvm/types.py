"""The elements of LLVM IR: opcodes, types, operands; and the error of the reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

__all__ = [
    "BINARY",
    "CASTS",
    "MEMORY",
    "TERMINATORS",
    "IRError",
    "Operand",
    "Operands",
    "Parameter",
    "Type",
    "type_named",
]

BINARY = frozenset({
    "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor",
    "fadd", "fsub", "fmul", "fdiv", "frem",
})  # fmt: skip
CASTS = frozenset({
    "trunc", "zext", "sext", "fptrunc", "fpext", "fptosi", "fptoui", "sitofp", "uitofp", "bitcast",
    "inttoptr", "ptrtoint", "addrspacecast",
})  # fmt: skip
#: Operations that read or write memory, or order accesses of it; calls may do so too.
MEMORY = frozenset({"load", "store", "atomicrmw", "cmpxchg", "fence", "alloca"})
TERMINATORS = frozenset({"br", "switch", "ret", "unreachable"})


class IRError(Exception):
    """LLVM IR that the reader does not know.

    Args:
        what: the reason.
        line: the text of the line.
        number: its number in the module, from 1; 0 where it is not known.
    """

    def __init__(self, what: str, line: str, number: int = 0) -> None:
        place = f"line {number}" if number else "a line"
        super().__init__(f"{what} in {place} of LLVM IR: {line.strip()[:200]}")
        self.line, self.number = line, number


class Type(str):
    """A type: its text, and its parts. `type_named` makes them."""

    __slots__ = ("element", "length", "space")

    #: Elements of a vector; 0 of any other type.
    length: int
    #: Type of a vector's elements; of any other type the type itself.
    element: str
    #: Address space of a pointer; -1 of any other type.
    space: int

    @property
    def is_vector(self) -> bool:
        return self.length > 0

    @property
    def is_pointer(self) -> bool:
        return self.space >= 0

    @property
    def integer_bits(self) -> int:
        """Width of an integer, or of the integers in a vector; 0 of any other type."""
        element = self.element
        return int(element[1:]) if element[0] == "i" and element[1:].isdigit() else 0

    def like(self, element: str) -> str:
        """The type with as many elements of another type."""
        return f"<{self.length} x {element}>" if self.length else element


@cache
def type_named(text: str) -> Type:
    """The type of this text."""
    type_ = Type(text)
    type_.length, type_.element, type_.space = 0, text, -1
    if text.startswith("<"):
        count, x, element = text[1:-1].partition(" x ")
        if x and count.isdigit():
            type_.length, type_.element = int(count), element
    elif text == "ptr":
        type_.space = 0
    elif text.startswith("ptr addrspace("):
        type_.space = int(text[14:-1])
    return type_


class Operand(NamedTuple):
    """A value that an instruction takes.

    Attributes:
        type: of the value.
        value: its text: a name or a constant.
        start, end: where the value's text is in that of the instruction.
        type_start: where its type is, -1 where an earlier operand's type holds for it too.
    """

    type: Type
    value: str
    start: int
    end: int
    type_start: int = -1

    @property
    def is_name(self) -> bool:
        return self.value[:1] == "%"


@dataclass(slots=True)
class Operands:
    """The parts of an instruction.

    Attributes:
        type: of the result; of a store and a comparison that of the value.
        values: the operands.
        flags: words such as `nsw` and `volatile` before the first type.
        extra: the predicate of a comparison, the operation of an atomicrmw, the callee of a call
            (with its `@`), the element type of a getelementptr, the indices of a struct's field.
        labels: the blocks of a phi or a terminator, with their `%`.
        convention: all words of a call between its flags and its result's type.
        rest: what follows the operands: orderings, alignment, attributes of a call.
    """

    type: Type
    values: list[Operand]
    flags: list[str]
    extra: str = ""
    labels: list[str] = field(default_factory=list)
    convention: str = ""
    rest: str = ""


@dataclass(slots=True)
class Parameter:
    """A parameter of a function: its type, its attributes as text, and its name with `%`."""

    type: Type
    attributes: str
    name: str
