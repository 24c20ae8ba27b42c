"""A kernel's text as instructions, for `vectors`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .irtext import VALUE, split_list

__all__ = [
    "CASTS",
    "FLOAT_FLAGS",
    "LANES",
    "LANE_CALL",
    "WARP_CALL",
    "Block",
    "Instruction",
    "NotVectorizableError",
    "parse",
    "size_of",
]

#: Lanes of a warp; SPIR-V's vectors have at most 16 elements.
LANES = 16
#: What an instruction may say of the numbers it computes with.
FLOAT_FLAGS = frozenset({"fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc"})
_FLAGS = FLOAT_FLAGS | {
    "nuw", "nsw", "exact", "disjoint", "nneg", "samesign", "inbounds", "nusw", "tail", "notail",
    "musttail", "volatile", "atomic",
}  # fmt: skip
_BINARY = frozenset({
    "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor",
    "fadd", "fsub", "fmul", "fdiv", "frem",
})  # fmt: skip
CASTS = frozenset({
    "trunc", "zext", "sext", "fptrunc", "fpext", "fptosi", "fptoui", "sitofp", "uitofp", "bitcast",
    "inttoptr", "ptrtoint", "addrspacecast",
})  # fmt: skip
_SCALAR = re.compile(r"(?:i(?:16|1|8|32|64)|half|float|double|ptr(?: addrspace\(\d+\))?)(?!\w)")
_ATTRIBUTE = re.compile(r"(?:noundef|nonnull|readonly|captures\(none\)|align \d+|signext|zeroext) ")
_ASSIGNED = re.compile(rf"  ({VALUE}) = (\w+) (.*)")
_ATTACHMENTS = re.compile(r"(?:, ![\w.]+ !\d+)+$")
_NONTEMPORAL = re.compile(r", !nontemporal !\d+")
#: Between threads of a block, of which there is one.
_FENCE = re.compile(r'  fence syncscope\("(?:subgroup|workgroup|wavefront|singlethread)')
_LABEL = re.compile(r'("?[\w.$-]+"?):')
_CALL = re.compile(
    r"((?:[\w() ,]|<\d+ x \w+>)*?)(\S+(?: addrspace\(\d+\))?) @([\w.$]+)\((.*?)\)(?: #\d+)?$"
)
LANE_CALL = "_Z22get_sub_group_local_idv"
WARP_CALL = "_Z16get_sub_group_idv"


class NotVectorizableError(Exception):
    """The kernel has to stay one of many lanes; the text says why."""


@dataclass(slots=True)
class Instruction:
    """One line.

    Attributes:
        name: of the result, empty without one.
        op: LLVM's opcode, `store`, `br`, `ret` and `call` among them.
        type: of the result; for a store that of the value.
        operands: values as text.
        types: of the operands.
        flags: such as nsw.
        extra: predicate, callee, or element type of a getelementptr.
        labels: of a phi's or a branch's blocks.
        align: of memory operations, as text.
        hint: that memory is not needed again soon, as text.
    """

    name: str
    op: str
    type: str
    operands: list[str]
    types: list[str]
    flags: list[str]
    extra: str = ""
    labels: list[str] = field(default_factory=list)
    align: str = ""
    hint: str = ""


@dataclass(slots=True)
class Block:
    """Straight code up to a branch."""

    label: str
    code: list[Instruction] = field(default_factory=list)
    before: list[str] = field(default_factory=list)

    @property
    def end(self) -> Instruction:
        return self.code[-1]

    @property
    def after(self) -> list[str]:
        return self.end.labels


def _typed(text: str) -> tuple[str, str]:
    """(type, value) of an operand with its type and attributes."""
    match = _SCALAR.match(text)
    if not match:
        raise NotVectorizableError(f"an operand of another type: {text}")
    value = text[match.end() :].strip()
    while " " in value and (word := _ATTRIBUTE.match(value)):
        value = value[word.end() :]
    return match[0], value


def _instruction(line: str) -> Instruction:
    hint = ""
    if ", !" in line and (attachments := _ATTACHMENTS.search(line)):
        hint = "".join(_NONTEMPORAL.findall(attachments[0]))
        line = line[: attachments.start()]
    match = _ASSIGNED.match(line)
    name, text = (match[1], f"{match[2]} {match[3]}") if match else ("", line.strip())
    op, _, rest = text.partition(" ")
    flags = []
    while (word := rest.partition(" ")[0]) in _FLAGS:
        flags.append(word)
        rest = rest[len(word) + 1 :]
    if op in ("tail", "notail"):
        op, _, rest = rest.partition(" ")
    if op in _BINARY or op == "fneg":
        given, *others = split_list(rest)
        type_, first = _typed(given)
        values = [first, *others]
        return Instruction(name, op, type_, values, [type_] * len(values), flags)
    if op in ("icmp", "fcmp"):
        while (word := rest.partition(" ")[0]) in _FLAGS:
            flags.append(word)
            rest = rest[len(word) + 1 :]
        predicate, _, rest = rest.partition(" ")
        parts = split_list(rest)
        type_, value = _typed(parts[0])
        return Instruction(name, op, "i1", [value, parts[1]], [type_] * 2, flags, predicate)
    if op == "select":
        pairs = [_typed(part) for part in split_list(rest)]
        return Instruction(
            name, op, pairs[1][0], [v for _, v in pairs], [t for t, _ in pairs], flags
        )
    if op == "freeze":
        type_, value = _typed(rest)
        return Instruction(name, op, type_, [value], [type_], flags)
    if op in CASTS:
        given, _, type_ = rest.rpartition(" to ")
        if not _SCALAR.fullmatch(type_):
            raise NotVectorizableError(f"a cast to {type_}")
        source, value = _typed(given)
        return Instruction(name, op, type_, [value], [source], flags)
    if op == "getelementptr":
        element, *parts = split_list(rest)
        if not _SCALAR.fullmatch(element) or len(parts) != 2:
            raise NotVectorizableError(f"an address inside {element}")
        pairs = [_typed(part) for part in parts]
        return Instruction(
            name, op, pairs[0][0], [v for _, v in pairs], [t for t, _ in pairs], flags, element
        )
    if op in ("load", "store") and not {"volatile", "atomic"} & set(flags):
        parts = split_list(rest)
        first, second = parts[0], parts[1]
        align = next((part for part in parts[2:] if part.startswith("align ")), "")
        if op == "load":
            if not _SCALAR.fullmatch(first):
                raise NotVectorizableError(f"a load of {first}")
            type_, value = _typed(second)
            return Instruction(name, op, first, [value], [type_], flags, align=align)
        (type_, value), (pointer, address) = _typed(first), _typed(second)
        return Instruction(
            name, op, type_, [value, address], [type_, pointer], flags, align=align, hint=hint
        )
    if op == "phi":
        match = _SCALAR.match(rest)
        if not match:
            raise NotVectorizableError(f"a phi of {rest}")
        values = re.findall(r"\[ (.*?), %[\w.$-]+ \]", rest)
        sources = re.findall(r", %([\w.$-]+) \]", rest)
        types = [match[0]] * len(values)
        return Instruction(name, op, match[0], values, types, flags, labels=sources)
    if op == "br":
        labels = re.findall(r"label %([\w.$-]+)", rest)
        condition = [_typed(split_list(rest)[0])[1]] if len(labels) == 2 else []
        return Instruction("", op, "void", condition, ["i1"] * len(condition), [], labels=labels)
    if op == "ret" and rest.strip() == "void":
        return Instruction("", op, "void", [], [], [])
    if op == "call" and (match := _CALL.match(rest)):
        pairs = [_typed(part) for part in split_list(match[4])]
        type_ = match[2]
        if type_ != "void" and not _SCALAR.fullmatch(type_):
            raise NotVectorizableError(f"a call of {match[3]}, which gives {type_}")
        return Instruction(
            name, op, type_, [v for _, v in pairs], [t for t, _ in pairs], flags, match[3]
        )
    raise NotVectorizableError(line.strip())


def parse(lines: Sequence[str]) -> list[Block]:
    """The blocks of a function, from the lines between its braces."""
    blocks: list[Block] = []
    for line in lines:
        if match := _LABEL.match(line):
            blocks.append(Block(match[1]))
        elif line.strip() and not line.lstrip().startswith(";") and not _FENCE.match(line):
            blocks[-1].code.append(_instruction(line))
    by_label = {block.label: block for block in blocks}
    for block in blocks:
        for label in dict.fromkeys(block.after):
            by_label[label].before.append(block.label)
    return blocks


def size_of(type_: str) -> int:
    """Bytes in memory."""
    return {"i1": 1, "half": 2, "float": 4, "double": 8}.get(type_) or (
        8 if type_.startswith("ptr") else int(type_[1:]) // 8
    )
