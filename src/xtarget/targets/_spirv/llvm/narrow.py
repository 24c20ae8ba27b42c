"""Restrict calls to the OpenCL functions of a run time that lacks some of them, or passes wide
vectors wrongly.

PoCL 6.0: llvm-spirv, which reads SPIR-V for it, makes calls of built-in functions of all
conversions of vectors; there are no functions of halves; and a vector with more bytes than a
register is passed as a value to functions that expect its address (`max` of 16 integers of 64 bits
then computes with whatever is there). Arithmetic is the device's own compiler's work, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from ...._values.value_classes import value_class
from .ir import Instruction, Line, Module
from .reader import instructions, read_instruction
from .types import type_named

__all__ = ["narrow"]

_CASTS = frozenset({
    "fpext", "fptrunc", "sitofp", "uitofp", "fptosi", "fptoui", "sext", "zext", "trunc",
})  # fmt: skip
#: Functions of numbers alone. `is.fpclass` is not among them: a denormal half is a normal float.
_INTRINSIC = (
    r"llvm\.(?:fma|fmuladd|fabs|sqrt|exp2?|exp10|log2?|log10|sin|cos|tan|pow|powi|ldexp|floor|ceil"
    r"|trunc|rint|nearbyint|round|roundeven|copysign|minnum|maxnum|minimumnum|maximumnum|canonicalize"
    r"|[us]min|[us]max|abs|ctpop|ctlz|cttz|fsh[lr]|bitreverse|bswap|[us](?:add|sub)\.sat)"
    r"\.(?:v\d+)?[if]\d+(?:\.i32)?"
)
_NAME = re.compile(rf"{_INTRINSIC}|_Z\d+\w*D[hv]\w*")
#: These round once, and a float is too short for what halves give before that.
_FUSED = ("llvm.fma.", "llvm.fmuladd.", "_Z3fma", "_Z3mad")
_BITS = {"half": 16, "float": 32, "double": 64}


def narrow(module: Module) -> None:
    """Leave only calls of functions that the device has."""
    layout = module.layout
    writer = _Writer(layout.half_math, layout.function_bytes)
    module.rewrite(
        lambda one: writer.call(one) if one.op == "call" else writer.cast_of(one),
        ops={*_CASTS, "call"},
    )
    declared = {line.name: line for line in module.lines("declare") if _NAME.fullmatch(line.name)}
    module.drop(lambda line: line.kind == "declare" and line.name in declared)
    for name, line in declared.items():
        if name in writer.called:
            module.append(line)
    for name, text in writer.called.items():
        if name not in declared:
            module.append(Line("declare", text, name))


def _split(type_: str) -> tuple[int, str]:
    """The number of elements of a type (0 for a scalar), and the element type."""
    type_ = type_named(type_)
    return type_.length, type_.element


def _bytes(type_: str) -> int:
    size, element = _split(type_)
    bits = _BITS.get(element) or (int(element[1:]) if element[1:].isdigit() else 0)
    return size * bits // 8


@value_class(frozen=True, slots=True)
class _Call:
    """A call that is written.

    Attributes:
        result: the name of the result.
        prefix: flags and calling convention, with a space behind each.
        type: of the result.
        name: of the function, without `@`.
        types, values: of the operands.
    """

    result: str
    prefix: str
    type: str
    name: str
    types: Sequence[str]
    values: Sequence[str]


class _Writer:
    """Writes the lines that stand for one.

    Attributes:
        called: declarations of the functions that are called, by name.
    """

    def __init__(self, half_math: bool, function_bytes: int) -> None:
        self.called: dict[str, str] = {}
        self._half_math = half_math
        self._most = function_bytes
        self._names = (f"%xt.narrow.{number}" for number in count())

    def _fresh(self) -> str:
        return next(self._names)

    def cast_of(self, one: Instruction) -> list[Instruction] | None:
        """A cast of vectors, of parts where it is too wide; None where it stays."""
        lines = self._cast(one)
        return None if lines == [one.text] else instructions(*lines)

    def _cast(self, one: Instruction) -> list[str]:
        (operand,), flags = one.operands, "".join(f"{flag} " for flag in one.parts.flags)
        (size, source), type_ = _split(operand.type), one.type.element
        whole, value, kind = operand.type, operand.value, f"{one.op} {flags}"
        if not size or "i1" in (source, type_):
            return [one.text]  # one of bits is a selection in SPIR-V
        part = self._part(size, [whole])
        if not self._half_math and "half" in (source, type_):
            part = 1
        if part == size:
            return [one.text]
        lines, pieces = [], []
        for at in range(0, size, part):
            piece, converted = self._fresh(), self._fresh()
            lines.append(_taken(piece, whole, value, at, part))
            lines.append(f"  {converted} = {kind}{_of(part, source)} {piece} to {_of(part, type_)}")
            pieces.append(converted)
        return lines + list(self._joined(one.name, type_, pieces, part))

    def call(self, one: Instruction) -> list[Instruction] | None:
        """Return calls of functions that the device has; None if the call stays as it is."""
        name = one.callee
        if not _NAME.fullmatch(name):
            return None
        lines = self._called(one, name) if one.name else []
        if lines:
            return instructions(*lines)
        self.called[name] = ""  # declared as it was
        return None

    def _called(self, one: Instruction, name: str) -> list[str]:
        """The lines for a call; none where it stays."""
        result, type_ = one.name, str(one.type)
        prefix = "".join(f"{flag} " for flag in one.parts.flags) + one.parts.convention
        types, values = [str(operand.type) for operand in one.operands], one.values
        lines: list[str] = []
        outcome, given_type = result, type_
        halves = not self._half_math and any("half" in t for t in (type_, *types))
        size = max([_split(t)[0] for t in types], default=0)
        if not halves and self._part(size, types) == size:
            return []
        if halves:
            wide = "double" if name.startswith(_FUSED) else "float"
            for index, operand in enumerate(types):
                if "half" in operand:
                    into, value = operand.replace("half", wide), self._fresh()
                    lines += self._converted(value, "fpext", operand, values[index], into)
                    types[index], values[index] = into, value
            name, type_ = _renamed(name, wide), type_.replace("half", wide)
            if type_ != given_type:
                outcome = self._fresh()
        lines += self._call(_Call(outcome, prefix, type_, name, types, values))
        if outcome != result:
            lines += self._converted(result, "fptrunc", type_, outcome, given_type)
        return lines

    def _converted(self, result: str, kind: str, source: str, value: str, type_: str) -> list[str]:
        line = f"  {result} = {kind} {source} {value} to {type_}"
        return self._cast(read_instruction(line))

    def _call(self, whole_call: _Call) -> list[str]:
        """A call; several calls of parts, if its vectors are too wide."""
        types = whole_call.types
        size = max([_split(t)[0] for t in types], default=0)
        part = self._part(size, types)
        if part == size:
            return [self._line(whole_call)]
        element = _split(whole_call.type)[1]
        part_call = replace(
            whole_call,
            type=_of(part, element),
            name=_shortened(whole_call.name, size, part),
            types=[_of(part, _split(t)[1]) if _split(t)[0] else t for t in types],
        )
        lines, pieces = [], []
        for at in range(0, size, part):
            given = []
            for value, whole in zip(whole_call.values, types, strict=True):
                given.append(self._fresh() if _split(whole)[0] else value)
                if _split(whole)[0]:
                    lines.append(_taken(given[-1], whole, value, at, part))
            pieces.append(self._fresh())
            lines.append(self._line(replace(part_call, result=pieces[-1], values=given)))
        return lines + list(self._joined(whole_call.result, element, pieces, part))

    def _line(self, call: _Call) -> str:
        """The text of a call, whose function is then declared."""
        type_, name, types = call.type, call.name, call.types
        convention = "spir_func " if name.startswith("_Z") else ""
        pure = " nounwind willreturn memory(none)" if name.startswith("_Z") else ""
        self.called[name] = f"declare {convention}{type_} @{name}({', '.join(types)}){pure}"
        pairs = ", ".join(f"{t} {v}".strip() for t, v in zip(types, call.values, strict=True))
        return f"  {call.result} = call {call.prefix}{type_} @{name}({pairs})"

    def _part(self, size: int, types: Sequence[str]) -> int:
        """Return the elements of each part in which a vector must be passed."""
        part = size
        while self._most and part > 1 and part % 2 == 0:
            if all(_bytes(t) * part <= self._most * size for t in types):
                break
            part //= 2
        return part

    def _joined(self, result: str, element: str, pieces: list[str], part: int) -> Iterator[str]:
        """The whole of its parts."""
        if part == 1:
            whole, type_ = "poison", _of(len(pieces), element)
            for index, piece in enumerate(pieces):
                into = result if index == len(pieces) - 1 else self._fresh()
                yield f"  {into} = insertelement {type_} {whole}, {element} {piece}, i32 {index}"
                whole = into
            return
        while len(pieces) > 1:
            type_, both = _of(part, element), []
            order = ", ".join(f"i32 {n}" for n in range(2 * part))
            for first, second in zip(pieces[::2], pieces[1::2], strict=True):
                both.append(result if len(pieces) == 2 else self._fresh())
                yield (
                    f"  {both[-1]} = shufflevector {type_} {first}, {type_} {second}, "
                    f"<{2 * part} x i32> <{order}>"
                )
            pieces, part = both, 2 * part


def _of(size: int, element: str) -> str:
    return element if size == 1 else f"<{size} x {element}>"


def _taken(result: str, type_: str, value: str, at: int, part: int) -> str:
    """Extract a part of a vector."""
    if part == 1:
        return f"  {result} = extractelement {type_} {value}, i32 {at}"
    order = ", ".join(f"i32 {n}" for n in range(at, at + part))
    return f"  {result} = shufflevector {type_} {value}, {type_} poison, <{part} x i32> <{order}>"


def _shortened(name: str, size: int, part: int) -> str:
    """A function of vectors as one of shorter vectors."""
    if name.startswith("_Z"):
        return name.replace(f"Dv{size}_", f"Dv{part}_")
    whole = f"v{size}"
    return ".".join(
        f"v{part}{word[len(whole) :]}"
        if word.startswith((f"{whole}i", f"{whole}f")) and word[len(whole) + 1 :].isdigit()
        else word
        for word in name.split(".")
    )


def _renamed(name: str, wide: str) -> str:
    """A function of halves as one of a wider type."""
    if name.startswith("_Z"):
        return name.replace("Dh", "d" if wide == "double" else "f")
    return name.replace("f16", "f64" if wide == "double" else "f32")
