"""The reader's part for operands, which are read when a pass asks for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .cursor import SCALAR, Cursor
from .types import BINARY, CASTS, IRError, Operand, Operands, Parameter, Type, type_named
from .words import NAME, SYMBOL, fields_of, split_list

__all__ = ["parameters_end", "read_operands", "read_parameters", "type_at"]

_CALLEE = re.compile(r'(@(?:[\w.$-]+|"[^"]*")|%[\w.$-]+)\(')
_ASSEMBLY = re.compile(r'asm (?:\w+ )*"(?:[^"\\]|\\.)*", "[^"]*"\(')
_PHI = re.compile(r'\[ (.+?), (%(?:[\w.$-]+|"[^"]*")) \]')
_CASE = re.compile(r'(i\d+) (-?\d+), label (%(?:[\w.$-]+|"[^"]*"))')
_LABELS = re.compile(r'label (%(?:[\w.$-]+|"[^"]*"))')

_CONVENTIONS = frozenset({"spir_func", "spir_kernel", "fastcc", "coldcc", "ccc"})
_VOID = type_named("void")
_BIT = type_named("i1")


def read_operands(op: str, text: str, start: int) -> Operands:
    """The operands of an instruction, which begin at `start`.

    Raises:
        IRError: they are in an unknown form.
    """
    cursor = Cursor(text, start)
    if op in BINARY:
        flags, type_ = cursor.flags(), cursor.type()
        values = [cursor.value(type_)]
        if not cursor.comma():
            raise cursor.error("an operand is missing")
        values.append(cursor.value(type_))
        found = Operands(type_, values, flags)
    elif op in CASTS:
        found = _cast(cursor)
    elif op in ("fneg", "freeze"):
        flags, type_ = cursor.flags(), cursor.type()
        found = Operands(type_, [cursor.value(type_)], flags)
    elif op in ("icmp", "fcmp"):
        flags, predicate = cursor.flags(), cursor.word()
        type_ = cursor.type()
        values = [cursor.value(type_)]
        if not cursor.comma():
            raise cursor.error("an operand is missing")
        values.append(cursor.value(type_))
        found = Operands(type_named(type_.like("i1")), values, flags, predicate)
    elif op == "select":
        flags, values = cursor.flags(), cursor.typed_upto(3)
        found = Operands(values[1].type, values, flags)
    elif op in _READERS:
        return _READERS[op](cursor)
    else:
        raise cursor.error(f"operands of {op}")
    cursor.done()
    return found


def _cast(cursor: Cursor) -> Operands:
    flags, start = cursor.flags(), cursor.at
    source = cursor.type()
    end = cursor.text.rfind(" to ", cursor.at, cursor.stop)
    if end < 0:
        raise cursor.error("a cast without its type")
    value = Operand(source, cursor.text[cursor.at : end], cursor.at, end, start)
    cursor.at = end + 4
    return Operands(cursor.type(), [value], flags)


def _getelementptr(cursor: Cursor) -> Operands:
    flags = cursor.flags()
    if cursor.text.startswith("inrange(", cursor.at):
        cursor.at = cursor.closing(cursor.at + 7) + 1
    element = cursor.type()
    if not cursor.comma():
        raise cursor.error("an operand is missing")
    values = cursor.typed_list()
    cursor.done()
    return Operands(values[0].type, values, flags, element)


def _load(cursor: Cursor) -> Operands:
    flags, type_ = cursor.flags(), cursor.type()
    if not cursor.comma():
        raise cursor.error("an operand is missing")
    address = _address(cursor, "atomic" in flags)
    return Operands(type_, [address], flags, rest=cursor.rest())


def _store(cursor: Cursor) -> Operands:
    flags, value = cursor.flags(), cursor.typed()
    if not cursor.comma():
        raise cursor.error("an operand is missing")
    values = [value, _address(cursor, "atomic" in flags)]
    return Operands(value.type, values, flags, rest=cursor.rest())


def _address(cursor: Cursor, ordered: bool) -> Operand:
    """The last operand of a memory operation; the scope and order of an atomic one follow it."""
    operand = cursor.typed()
    return _cut(cursor, operand) if ordered else operand


def _cut(cursor: Cursor, operand: Operand) -> Operand:
    """An operand that words follow without a comma."""
    start, text = operand.start, cursor.text
    if text[start] in "%@":
        end = text.find(" ", start, operand.end)
    else:
        end = text.rfind(")", start, operand.end) + 1 or text.find(" ", start, operand.end)
        if "syncscope" in operand.value:
            end = text.find(" syncscope", start)
    if end < 0 or end >= operand.end:
        return operand
    cursor.at = end
    return Operand(operand.type, text[start:end], start, end, operand.type_start)


def _atomicrmw(cursor: Cursor) -> Operands:
    flags, operation = cursor.flags(), cursor.word()
    values = cursor.typed_upto(2)
    values[1] = _cut(cursor, values[1])
    return Operands(values[1].type, values, flags, operation, rest=cursor.rest())


def _cmpxchg(cursor: Cursor) -> Operands:
    flags, values = cursor.flags(), cursor.typed_upto(3)
    values[2] = _cut(cursor, values[2])
    type_ = type_named(f"{{ {values[2].type}, i1 }}")
    return Operands(type_, values, flags, rest=cursor.rest())


def _alloca(cursor: Cursor) -> Operands:
    flags, element = cursor.flags(), cursor.type()
    return Operands(type_named("ptr"), [], flags, element, rest=cursor.rest())


def _fence(cursor: Cursor) -> Operands:
    return Operands(_VOID, [], [], rest=cursor.rest())


def _extractelement(cursor: Cursor) -> Operands:
    values = cursor.typed_upto(2)
    cursor.done()
    return Operands(type_named(values[0].type.element), values, [])


def _insertelement(cursor: Cursor) -> Operands:
    values = cursor.typed_upto(3)
    cursor.done()
    return Operands(values[0].type, values, [])


def _shufflevector(cursor: Cursor) -> Operands:
    values = cursor.typed_upto(3)
    cursor.done()
    type_ = type_named(f"<{values[2].type.length} x {values[0].type.element}>")
    return Operands(type_, values, [])


def _extractvalue(cursor: Cursor) -> Operands:
    value = cursor.typed()
    if not cursor.comma():
        raise cursor.error("an operand is missing")
    indices = cursor.rest()
    fields, type_ = fields_of(value.type), value.type
    if indices.isdigit() and int(indices) < len(fields):
        type_ = type_named(fields[int(indices)])
    return Operands(type_, [value], [], indices)


def _insertvalue(cursor: Cursor) -> Operands:
    values = cursor.typed_upto(2)
    if not cursor.comma():
        raise cursor.error("an operand is missing")
    return Operands(values[0].type, values, [], cursor.rest())


def _phi(cursor: Cursor) -> Operands:
    flags, type_ = cursor.flags(), cursor.type()
    values, labels = [], []
    while True:
        match = _PHI.match(cursor.text, cursor.at, cursor.stop)
        if match is None:
            raise cursor.error("a phi in an unknown form")
        values.append(Operand(type_, match[1], match.start(1), match.end(1)))
        labels.append(match[2])
        cursor.at = match.end()
        if not cursor.comma():
            break
    cursor.done()
    return Operands(type_, values, flags, labels=labels)


def _br(cursor: Cursor) -> Operands:
    values = []
    if not cursor.text.startswith("label ", cursor.at):
        values.append(cursor.typed())
        if not cursor.comma():
            raise cursor.error("a branch without a label")
    labels = _LABELS.findall(cursor.text, cursor.at, cursor.stop)
    if len(labels) != 1 + len(values):
        raise cursor.error("a branch in an unknown form")
    return Operands(_VOID, values, [], labels=labels)


def _switch(cursor: Cursor) -> Operands:
    values = [cursor.typed()]
    labels = _LABELS.findall(cursor.text, cursor.at, cursor.stop)
    for _, constant, _ in _CASE.findall(cursor.text, cursor.at, cursor.stop):
        values.append(Operand(values[0].type, constant, -1, -1))
    if len(labels) != len(values):
        raise cursor.error("a switch in an unknown form")
    return Operands(_VOID, values, [], labels=labels)


def _ret(cursor: Cursor) -> Operands:
    type_ = cursor.type()
    values = [] if type_ == "void" else [cursor.value(type_)]
    cursor.done()
    return Operands(type_, values, [])


def _unreachable(cursor: Cursor) -> Operands:
    return Operands(_VOID, [], [])


def _call(cursor: Cursor) -> Operands:
    flags, start = cursor.flags(), cursor.at
    while not (SCALAR.match(cursor.text, cursor.at) or cursor.text[cursor.at] in "<{["):
        if not cursor.attribute() and cursor.word() not in (
            "spir_func",
            "spir_kernel",
            "fastcc",
            "coldcc",
            "ccc",
        ):
            raise cursor.error("a call in an unknown form")
    convention = cursor.text[start : cursor.at]
    type_ = cursor.type()
    if cursor.text.startswith("(", cursor.at):  # the function's type, for a variable number
        cursor.at = cursor.closing(cursor.at) + 1
    callee = _CALLEE.match(cursor.text, cursor.at, cursor.stop)
    if callee is None:
        callee = _ASSEMBLY.match(cursor.text, cursor.at, cursor.stop)
        if callee is None:
            raise cursor.error("a call of an unknown kind")
    opening = callee.end() - 1
    stop, end = cursor.stop, cursor.closing(opening)
    values: list[Operand] = []
    if end - opening > 2:
        cursor.at, cursor.stop = opening + 1, end - 1
        values = cursor.typed_list()
        cursor.done()
    cursor.at, cursor.stop = end, stop
    name = callee[0][:-1]
    if name[:2] == '@"':
        name = "@" + name[2:-1]
    return Operands(type_, values, flags, name, convention=convention, rest=cursor.rest())


_READERS: Mapping[str, Callable[[Cursor], Operands]] = {
    "getelementptr": _getelementptr,
    "load": _load,
    "store": _store,
    "atomicrmw": _atomicrmw,
    "cmpxchg": _cmpxchg,
    "alloca": _alloca,
    "fence": _fence,
    "extractelement": _extractelement,
    "insertelement": _insertelement,
    "shufflevector": _shufflevector,
    "extractvalue": _extractvalue,
    "insertvalue": _insertvalue,
    "phi": _phi,
    "br": _br,
    "switch": _switch,
    "ret": _ret,
    "unreachable": _unreachable,
    "call": _call,
}


def type_at(text: str) -> Type:
    """The type that a text begins with."""
    return Cursor(text, 0).type()


def read_parameters(head: str) -> list[Parameter]:
    """The parameters of a function, from its first line."""
    symbol = SYMBOL.search(head)
    if symbol is None or head[symbol.end() : symbol.end() + 1] != "(":
        raise IRError("a function in an unknown form", head)
    cursor = Cursor(head, symbol.end())
    end = cursor.closing(symbol.end())
    found = []
    for part in split_list(head[symbol.end() + 1 : end - 1]):
        inner = Cursor(part, 0)
        type_ = inner.type()
        attributes, _, name = part[inner.at :].rpartition(" ")
        if not NAME.fullmatch(name):
            raise IRError("a parameter without a name", head)
        found.append(Parameter(type_, attributes, name))
    return found


def parameters_end(head: str) -> int:
    """The place of the parenthesis that closes a function's parameters."""
    symbol = SYMBOL.search(head)
    if symbol is None:
        raise IRError("a function in an unknown form", head)
    return Cursor(head, symbol.end()).closing(symbol.end()) - 1
