"""LLVM IR as objects: modules, functions, blocks, instructions, operands, types.

An object keeps the text that it was read from, and a printed module is the text of its objects: an
instruction that no pass touched is printed as it came. Operands are parsed when a pass asks for
them, because most instructions of a kernel are never looked at. An instruction does not change: a
pass puts another one in its place in the list of its block.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .operands import read_operands, read_parameters, type_at
from .text import Layout
from .types import Operand, Operands, Parameter, Type
from .words import has_word, names_in, split_attachments, symbols_in

__all__ = [
    "Block",
    "Change",
    "Function",
    "Instruction",
    "Line",
    "Module",
]


class Instruction:
    """One instruction.

    Attributes:
        text: as it is printed, with its indentation.
        name: of the result with its `%`, empty without one.
        op: LLVM's opcode.
        start: where the text behind the opcode begins.
    """

    __slots__ = ("_operands", "name", "op", "start", "text")

    def __init__(self, text: str, name: str, op: str, start: int) -> None:
        self.text, self.name, self.op, self.start = text, name, op, start
        self._operands: Operands | None = None

    @property
    def parts(self) -> Operands:
        """The operands, parsed at the first use.

        Raises:
            IRError: they are in a form that the reader does not know.
        """
        if self._operands is None:
            self._operands = read_operands(self.op, self.text, self.start)
        return self._operands

    @property
    def type(self) -> Type:
        return self.parts.type

    @property
    def operands(self) -> list[Operand]:
        return self.parts.values

    @property
    def values(self) -> list[str]:
        """The operands' texts."""
        return [operand.value for operand in self.parts.values]

    @property
    def callee(self) -> str:
        """The name of the called function, without `@`; empty if this is not such a call."""
        if self.op != "call" or "@" not in self.text:
            return ""
        extra = self.parts.extra
        return extra[1:] if extra[:1] == "@" else ""

    def names(self) -> list[str]:
        """All local names that it mentions, those of blocks included, without its own."""
        return names_in(self.text, self.start)

    def symbols(self) -> list[str]:
        """All global names that it mentions, with their `@`."""
        return symbols_in(self.text)

    def mentions(self, type_: str) -> bool:
        """Return whether the text has this word, such as a type."""
        return type_ in self.text and has_word(self.text, type_)

    def attachments(self) -> tuple[str, dict[str, str]]:
        """The text without metadata, and the metadata by kind."""
        return split_attachments(self.text)

    def with_values(self, values: Iterable[str]) -> Instruction:
        """The instruction with other operands of the same types."""
        text = self.text
        for operand, value in zip(reversed(self.operands), reversed(list(values)), strict=True):
            if value != operand.value:
                text = text[: operand.start] + value + text[operand.end :]
        return self if text == self.text else Instruction(text, self.name, self.op, self.start)

    def with_types(self, types: Mapping[str, str]) -> Instruction:
        """The instruction with other types of the operands of these names."""
        text = self.text
        for operand in reversed(self.operands):
            type_ = types.get(operand.value)
            if type_ is not None and operand.type_start >= 0:
                end = operand.type_start + len(operand.type)
                text = text[: operand.type_start] + type_ + text[end:]
        return self if text == self.text else Instruction(text, self.name, self.op, self.start)

    @property
    def assembly(self) -> str | None:
        """The text of inline assembly; None for other instructions."""
        if self.op != "call" or " asm " not in self.text:
            return None
        extra = self.parts.extra
        return extra.split('"')[1] if extra.startswith("asm ") else None

    @property
    def indented(self) -> str:
        """The text up to the opcode's place behind `=`: indentation, name and `=`."""
        return f"  {self.name} = " if self.name else "  "

    def __repr__(self) -> str:
        return f"Instruction({self.text!r})"


#: What stands in an instruction's place; None leaves it.
Change = Callable[[Instruction], "list[Instruction] | None"]


@dataclass(slots=True)
class Block:
    """Straight code up to a terminator.

    Attributes:
        head: the lines before the code: an empty one, and the label.
        label: its name without `%`; empty if it has none.
        code: the instructions.
    """

    head: list[str]
    label: str
    code: list[Instruction] = field(default_factory=list)

    def phis(self) -> int:
        """The number of phis at the start of the block."""
        return next((n for n, one in enumerate(self.code) if one.op != "phi"), len(self.code))


@dataclass
class Function:
    """A function with a body.

    Attributes:
        head: its first line.
        name: without `@`.
        blocks: its code.
    """

    head: str
    name: str
    blocks: list[Block] = field(default_factory=list)

    def code(self) -> Iterator[Instruction]:
        for block in self.blocks:
            yield from block.code

    def rewrite(
        self, change: Change, *, ops: Container[str] | None = None, having: str = ""
    ) -> None:
        """Replace each instruction by the result of `change`; None keeps it.

        Args:
            change: is asked for each instruction.
            ops: only for these opcodes.
            having: only where the instruction's text has this.
        """
        for block in self.blocks:
            code, start = block.code, 0
            done: list[Instruction] = []
            for number, one in enumerate(code):
                if (ops is not None and one.op not in ops) or having not in one.text:
                    continue
                made = change(one)
                if made is not None:
                    done += code[start:number]
                    done += made
                    start = number + 1
            if start:
                block.code = done + code[start:]

    def parameters(self) -> list[Parameter]:
        return read_parameters(self.head)

    @cached_property
    def definitions(self) -> dict[str, Instruction]:
        """Instructions by the name of their result. A pass that changes the code takes a new
        dictionary by `forget`.
        """
        return {one.name: one for one in self.code() if one.name}

    @cached_property
    def users(self) -> dict[str, list[Instruction]]:
        """The instructions that mention each local name."""
        found: dict[str, list[Instruction]] = {}
        for one in self.code():
            for name in dict.fromkeys(one.names()):
                found.setdefault(name, []).append(one)
        return found

    def forget(self) -> None:
        """Forget `definitions` and `users`, after a change."""
        self.__dict__.pop("definitions", None)
        self.__dict__.pop("users", None)


@dataclass(slots=True)
class Line:
    """A line outside of functions.

    Attributes:
        kind: `global`, `declare`, `attributes`, `metadata`, `target`, `comment`, `blank`, `type`,
            `comdat`.
        text: the line.
        name: of a global or a declared function, without `@`; the number or name of metadata.
    """

    kind: str
    text: str
    name: str = ""


_NOTHING_KNOWN = Layout(num_warps=1, warp_size=1, shared_bytes=0)


@dataclass
class Module:
    """A module while passes rewrite it.

    Attributes:
        items: functions and the lines between them, in order.
        layout: what is known of the kernel; nothing where no pass asks.
        entry: the kernel's name.
        declarations: `declare` lines that passes added, by function name.
        asserts: the kernel got a parameter for the message of a failed assertion.
        parameters: types of the kernel's parameters, as the host gives them.
    """

    items: list[Function | Line]
    layout: Layout = _NOTHING_KNOWN
    entry: str = ""
    declarations: dict[str, str] = field(default_factory=dict)
    asserts: bool = False
    parameters: tuple[str, ...] = ()
    _count: int = 0

    @property
    def kernel(self) -> Function:
        """The function of the kernel."""
        return next(function for function in self.functions if function.name == self.entry)

    @property
    def functions(self) -> list[Function]:
        return [item for item in self.items if isinstance(item, Function)]

    def code(self) -> Iterator[Instruction]:
        """All instructions of all functions."""
        for function in self.functions:
            yield from function.code()

    def lines(self, kind: str) -> Iterator[Line]:
        """The lines of a kind outside of functions."""
        return (item for item in self.items if isinstance(item, Line) and item.kind == kind)

    def rewrite(
        self, change: Change, *, ops: Container[str] | None = None, having: str = ""
    ) -> None:
        """`Function.rewrite` of all functions."""
        for function in self.functions:
            function.rewrite(change, ops=ops, having=having)

    def drop(self, unwanted: Callable[[Line], bool]) -> None:
        """Remove lines outside of functions."""
        self.items = [
            item for item in self.items if isinstance(item, Function) or not unwanted(item)
        ]

    def append(self, line: Line) -> None:
        """Add a line at the end, in place of empty ones."""
        while self.items and isinstance(last := self.items[-1], Line) and last.kind == "blank":
            self.items.pop()
        self.items.append(line)

    def temporary(self) -> str:
        """A fresh value name."""
        self._count += 1
        return f"%xt.{self._count}"

    def call(self, result: str, function: str, *arguments: str) -> str:
        """The text of a call of one of our helpers, which gets declared.

        Args:
            result: LLVM type.
            function: name without `@`.
            arguments: each `type value`.
        """
        types = ", ".join(map(type_at, arguments))
        self.declarations[function] = f"declare {result} @{function}({types})"
        return f"call {result} @{function}({', '.join(arguments)})"
