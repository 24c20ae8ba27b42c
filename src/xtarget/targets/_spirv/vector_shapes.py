"""How each value of a kernel differs between the lanes of a warp, and the text of its instructions.

For `vectors`: what is the same in all lanes stays a scalar, what grows by the same step from lane to
lane is known by its first lane, and only the rest becomes a vector.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .irtext import VALUE, split_list

__all__ = [
    "LANES",
    "Block",
    "Instruction",
    "NotVectorizableError",
    "Shape",
    "analyse",
    "parse",
]

#: Lanes of a warp; SPIR-V's vectors have at most 16 elements.
LANES = 16
_FLAGS = frozenset(
    ["nuw", "nsw", "exact", "disjoint", "nneg", "samesign", "inbounds", "nusw", "fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc", "tail", "notail", "musttail", "volatile", "atomic"]
)
_BINARY = frozenset(
    ["add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor", "fadd", "fsub", "fmul", "fdiv", "frem"]
)
_CASTS = frozenset(
    ["trunc", "zext", "sext", "fptrunc", "fpext", "fptosi", "fptoui", "sitofp", "uitofp", "bitcast", "inttoptr", "ptrtoint", "addrspacecast"]
)
_SCALAR = re.compile(r"(?:i(?:16|1|8|32|64)|half|float|double|ptr(?: addrspace\(\d+\))?)(?!\w)")
_ASSIGNED = re.compile(rf"  ({VALUE}) = (\w+) (.*)")
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
    while word := re.match(
        r"(?:noundef|nonnull|readonly|captures\(none\)|align \d+|signext|zeroext) ", value
    ):
        value = value[word.end() :]
    return match[0], value


def _instruction(line: str) -> Instruction:
    line = re.sub(r"(?:, ![\w.]+ !\d+)+$", "", line)
    match = _ASSIGNED.match(line)
    name, op, rest = match.groups() if match else ("", *line.strip().partition(" ")[::2])
    flags = []
    while (word := rest.partition(" ")[0]) in _FLAGS:
        flags.append(word)
        rest = rest[len(word) + 1 :]
    if op in ("tail", "notail"):
        op, _, rest = rest.partition(" ")
    if op in _BINARY or op == "fneg":
        type_, first = _typed(split_list(rest)[0])
        values = [first, *split_list(rest)[1:]]
        return Instruction(name, op, type_, values, [type_] * len(values), flags)
    if op in ("icmp", "fcmp"):
        while (word := rest.partition(" ")[0]) in _FLAGS:
            flags.append(word)
            rest = rest[len(word) + 1 :]
        predicate, _, rest = rest.partition(" ")
        left, right = split_list(rest)
        type_, value = _typed(left)
        return Instruction(name, op, "i1", [value, right], [type_] * 2, flags, predicate)
    if op == "select":
        pairs = [_typed(part) for part in split_list(rest)]
        return Instruction(
            name, op, pairs[1][0], [v for _, v in pairs], [t for t, _ in pairs], flags
        )
    if op == "freeze":
        type_, value = _typed(rest)
        return Instruction(name, op, type_, [value], [type_], flags)
    if op in _CASTS:
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
        first, second, *further = split_list(rest)
        align = next((part for part in further if part.startswith("align ")), "")
        if op == "load":
            if not _SCALAR.fullmatch(first):
                raise NotVectorizableError(f"a load of {first}")
            type_, value = _typed(second)
            return Instruction(name, op, first, [value], [type_], flags, align=align)
        (type_, value), (pointer, address) = _typed(first), _typed(second)
        return Instruction(name, op, type_, [value, address], [type_, pointer], flags, align=align)
    if op == "phi":
        match = _SCALAR.match(rest)
        if not match:
            raise NotVectorizableError(f"a phi of {rest}")
        parts = re.findall(r"\[ (.*?), %([\w.$-]+) \](?:, |$)", rest)
        return Instruction(
            name,
            op,
            match[0],
            [v for v, _ in parts],
            [match[0]] * len(parts),
            flags,
            labels=[b for _, b in parts],
        )
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
        elif line.strip() and not line.lstrip().startswith(";"):
            blocks[-1].code.append(_instruction(line))
    by_label = {block.label: block for block in blocks}
    for block in blocks:
        for label in dict.fromkeys(block.after):
            by_label[label].before.append(block.label)
    return blocks


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


_COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _evaluate(one: Instruction, values: Sequence[int]) -> int | None:
    """What one lane computes, None for what is not evaluated here."""
    a, type_ = values[0], one.types[0]
    if one.op in _CASTS or one.op == "freeze":
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
    result = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "shl": lambda: ua << ub if ub < 64 else None,
        "lshr": lambda: ua >> ub,
        "ashr": lambda: a >> ub,
    }.get(one.op, lambda: None)()
    return None if result is None else _wrapped(result, one.type)


class Shapes:
    """The shapes of all values, found by going round until nothing changes."""

    def __init__(self, blocks: Sequence[Block], divergent_joins: set[str]) -> None:
        self.of: dict[str, Shape] = {}
        self._joins = divergent_joins
        changed = True
        while changed:
            changed = False
            for block in blocks:
                for one in block.code:
                    if not one.name:
                        continue
                    shape = self._shape(block, one)
                    if shape is not None and shape != self.of.get(one.name):
                        self.of[one.name] = shape
                        changed = True

    def get(self, value: str, type_: str = "") -> Shape:
        """The shape of an operand; what is no value of a block is the same in all lanes."""
        if value.startswith("%"):
            return self.of.get(value, UNIFORM)
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
            return UNIFORM if one.name not in self._loads_apart else VARYING
        if one.type[:1] == "i" and all(s.known for s in shapes) and one.op not in ("call", "load"):
            lanes = [_evaluate(one, [s.known[i] for s in shapes if s.known]) for i in range(LANES)]
            if None not in lanes:
                return self._with_step(one, shapes, tuple(v for v in lanes if v is not None))
        return self._affine(one, shapes)

    _loads_apart: frozenset[str] = frozenset()

    def _with_step(self, one: Instruction, shapes: list[Shape], known: tuple[int, ...]) -> Shape:
        steps = {b - a for a, b in zip(known, known[1:], strict=False)}
        step = steps.pop() if len(steps) == 1 else None
        exact = step is not None and min(known) >= 0
        return Shape(step if one.type != "i1" else (0 if step == 0 else None), exact, exact, known)

    def _phi(self, block: Block, one: Instruction) -> Shape | None:
        seen = [
            self.get(v, t)
            for v, t in zip(one.operands, one.types, strict=True)
            if not v.startswith("%") or v in self.of or v not in self._defined
        ]
        if not seen:
            return None
        if block.label in self._joins and len(set(one.operands)) > 1:
            return VARYING
        steps = {s.step for s in seen}
        if len(steps) > 1 or None in steps:
            return VARYING
        return Shape(seen[0].step, all(s.signed for s in seen), all(s.unsigned for s in seen))

    _defined: frozenset[str] = frozenset()

    def _affine(self, one: Instruction, shapes: list[Shape]) -> Shape:
        steps = [s.step for s in shapes]
        if None in steps or one.type in ("half", "float", "double", "i1"):
            return VARYING
        step: int | None = None
        flags = one.flags
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


def size_of(type_: str) -> int:
    """Bytes in memory."""
    return {"i1": 1, "half": 2, "float": 4, "double": 8}.get(type_) or (
        8 if type_.startswith("ptr") else int(type_[1:]) // 8
    )


def analyse(
    blocks: Sequence[Block], joins: set[str], apart: frozenset[str] = frozenset()
) -> Shapes:
    """Shapes.

    Args:
        blocks: of a kernel.
        joins: blocks where lanes come together that went different ways.
        apart: loads that not all lanes may execute.
    """
    shapes = object.__new__(Shapes)
    shapes._loads_apart = apart
    shapes._defined = frozenset(one.name for block in blocks for one in block.code if one.name)
    shapes.__init__(blocks, joins)  # type: ignore[misc]
    return shapes
