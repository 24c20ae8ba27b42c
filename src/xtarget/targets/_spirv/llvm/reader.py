"""The reader of LLVM IR.

The text is LLVM's own, as llvmlite prints it: one instruction a line, a switch on several. Lines
are split once and only names and opcodes are read; `operands` reads the rest of an instruction
when a pass asks for it. Whatever is not known here is an `IRError` that names the line: a newer
LLVM may print something else, and to pass it by could give wrong code.
"""

from __future__ import annotations

import re

from .ir import Block, Function, Instruction, Line, Module
from .text import Layout
from .types import BINARY, CASTS, MEMORY, TERMINATORS, IRError
from .words import SYMBOL

__all__ = ["instructions", "read", "read_instruction"]

_INSTRUCTION = re.compile(
    r' *(?:(%(?:[\w.$-]+|"[^"]*")) = )?(?:(?:tail|musttail|notail) )?([a-z]+)(?: |$)'
)
_LABEL = re.compile(r'([\w.$-]+|"[^"]*"):(?:\s*;.*)?$')
_METADATA = re.compile(r"!([\w.]+) = ")
_OPCODES = (
    BINARY
    | CASTS
    | MEMORY
    | TERMINATORS
    | {
        "fneg", "icmp", "fcmp", "select", "freeze", "phi", "call", "getelementptr",
        "extractelement", "insertelement", "shufflevector", "extractvalue", "insertvalue",
    }
)  # fmt: skip
_WITHOUT_RESULT = TERMINATORS | {"store", "fence", "call"}
_WITH_RESULT = _OPCODES - TERMINATORS - {"store", "fence"}
_KINDS = {"@": "global", "!": "metadata", ";": "comment", "%": "type", "$": "comdat", "": "blank"}
_LINES = {"declare": "declare", "attributes": "attributes", "target": "target",
          "source_filename": "target", "module": "target"}  # fmt: skip


def read(text: str, entry: str = "", layout: Layout | None = None) -> Module:
    """Read the module of a text.

    Raises:
        IRError: a line is not known, or a function does not end.
    """
    items: list[Function | Line] = []
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    number, count = 0, len(lines)
    while number < count:
        line = lines[number]
        number += 1
        if line.startswith("define "):
            number = _read_function(lines, number, items)
        else:
            items.append(_read_line(line, number))
    module = Module(items, entry=entry)
    if layout is not None:
        module.layout = layout
    return module


def _read_line(line: str, number: int) -> Line:
    kind = _KINDS.get(line[:1])
    if kind is None:
        kind = _LINES.get(line.partition(" ")[0])
    name = ""
    if kind in ("global", "declare"):
        match = SYMBOL.search(line)
        if match is None:
            raise IRError("a line without the name that it declares", line, number)
        name = match[1] or match[2]
        if kind == "global" and (match.start() or line[match.end() : match.end() + 3] != " = "):
            raise IRError("a global in an unknown form", line, number)
    elif kind == "metadata":
        match = _METADATA.match(line)
        if match is None:
            raise IRError("metadata in an unknown form", line, number)
        name = match[1]
    elif kind == "type" and " = type " not in line:
        raise IRError("a type in an unknown form", line, number)
    elif kind is None:
        raise IRError("an unknown word", line, number)
    return Line(kind, line, name)


def _read_function(lines: list[str], number: int, items: list[Function | Line]) -> int:
    """Read the function whose first line is the one before `number`; where it ends."""
    head = lines[number - 1]
    symbol = SYMBOL.search(head)
    if symbol is None or not head.endswith("{"):
        raise IRError("a function in an unknown form", head, number)
    block = Block([], "")
    blocks = [block]
    add = block.code.append
    pending: list[str] = []  # empty lines and comments before a label
    count = len(lines)
    while number < count:
        line = lines[number]
        number += 1
        if line[:2] == "  ":
            if pending:
                raise IRError("a line between two instructions", pending[0], number - 1)
            if line[-1] == "[" and line.startswith("  switch "):
                while number < count and not lines[number].startswith("  ]"):
                    line += "\n" + lines[number]
                    number += 1
                if number == count:
                    raise IRError("a switch without an end", line, number)
                line += "\n" + lines[number]
                number += 1
            add(read_instruction(line, number))
        elif line == "}":
            if pending or not blocks[-1].code:
                raise IRError("a block without code", line, number)
            if not blocks[0].code:
                del blocks[0]
            items.append(Function(head, symbol[1] or symbol[2], blocks))
            return number
        elif label := _LABEL.match(line):
            if not block.code and len(blocks) > 1:
                raise IRError("a block without code", line, number)
            block = Block([*pending, line], label[1])
            pending = []
            blocks.append(block)
            add = block.code.append
        elif line == "" or line[0] == ";":
            pending.append(line)
        else:
            raise IRError("an unknown line of a function", line, number)
    raise IRError("a function without an end", head, number)


def read_instruction(text: str, number: int = 0) -> Instruction:
    """Name and opcode of an instruction.

    Raises:
        IRError: it is none, or one that passes do not know.
    """
    match = _INSTRUCTION.match(text)
    if match is None:
        raise IRError("an instruction in an unknown form", text, number)
    name, op = match.groups("")
    if op not in (_WITH_RESULT if name else _WITHOUT_RESULT):
        raise IRError(f"the operation {op!r}, which xtarget does not know,", text, number)
    return Instruction(text, name, op, match.end())


def instructions(*texts: str) -> list[Instruction]:
    """The instructions of these lines."""
    return [read_instruction(text) for text in texts]
