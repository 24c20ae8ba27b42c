"""A kernel's text as instructions, for `vectors`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..llvm import ir
from ..llvm.types import BINARY, CASTS, Type, type_named

__all__ = [
    "CASTS",
    "FLOAT_FLAGS",
    "LANES",
    "LANE_CALL",
    "WARP_CALL",
    "Block",
    "Instruction",
    "NotVectorizableError",
    "is_number",
    "parse",
    "size_of",
]

#: Lanes of a warp; SPIR-V's vectors have at most 16 elements.
LANES = 16
#: What an instruction may say of the numbers it computes with.
FLOAT_FLAGS = frozenset({"fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc"})
_SCALARS = frozenset({"i1", "i8", "i16", "i32", "i64", "half", "float", "double"})
#: Between threads of a block, of which there is one.
_FENCES = tuple(
    f'syncscope("{scope}")' for scope in ("subgroup", "workgroup", "wavefront", "singlethread")
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


def _scalar(type_: Type, one: ir.Instruction) -> str:
    """The type, which lanes can have one of each."""
    if type_ not in _SCALARS and not type_.is_pointer:
        raise NotVectorizableError(f"a value of another type: {one.text.strip()}")
    return type_


def _instruction(one: ir.Instruction) -> Instruction:
    parts, op = one.parts, one.op
    made = Instruction(
        one.name,
        op,
        parts.type,
        [operand.value for operand in parts.values],
        [_scalar(operand.type, one) for operand in parts.values],
        parts.flags,
        parts.extra,
    )
    if op in BINARY or op in CASTS or op in ("fneg", "icmp", "fcmp", "select", "freeze"):
        _scalar(parts.type, one)
    elif op == "getelementptr":
        if len(parts.values) != 2:
            raise NotVectorizableError(f"an address inside {parts.extra}")
        _scalar(type_named(parts.extra), one)
    elif op in ("load", "store") and not {"volatile", "atomic"} & set(parts.flags):
        _scalar(parts.type, one)
        words = parts.rest.removeprefix(", ").split(", ")
        made.align = next((word for word in words if word.startswith("align ")), "")
        hint = one.attachments()[1].get("nontemporal") if op == "store" else None
        made.hint = f", !nontemporal {hint}" if hint else ""
    elif op in ("phi", "br"):
        if op == "phi":
            _scalar(parts.type, one)
        made.labels = [label[1:] for label in parts.labels]
    elif op == "call" and parts.extra.startswith("@"):
        if parts.type != "void":
            _scalar(parts.type, one)
        made.extra = one.callee
    elif op != "ret" or parts.type != "void":
        raise NotVectorizableError(one.text.strip())
    return made


def parse(function: ir.Function) -> list[Block]:
    """The blocks of a function, as this package looks at them."""
    blocks: list[Block] = []
    for block in function.blocks:
        code = [
            _instruction(one)
            for one in block.code
            if one.op != "fence" or not one.parts.rest.startswith(_FENCES)
        ]
        blocks.append(Block(block.label, code))
    by_label = {block.label: block for block in blocks}
    for made in blocks:
        for label in dict.fromkeys(made.after):
            by_label[label].before.append(made.label)
    return blocks


def is_number(value: str) -> bool:
    """Return whether a value is an integer constant."""
    return value.removeprefix("-").isdigit()


def size_of(type_: str) -> int:
    """Bytes in memory."""
    return {"i1": 1, "half": 2, "float": 4, "double": 8}.get(type_) or (
        8 if type_.startswith("ptr") else int(type_[1:]) // 8
    )
