"""The reader's position in the text of an instruction, for `operands`."""

from __future__ import annotations

import re

from .types import IRError, Operand, Type, type_named
from .words import ATTACHMENTS, BRACKET, NAME, marks

__all__ = ["SCALAR", "Cursor"]

#: Words before the first type of an instruction.
_FLAGS = frozenset({
    "fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc", "nuw", "nsw", "exact",
    "disjoint", "nneg", "samesign", "inbounds", "nusw", "tail", "notail", "musttail", "volatile",
    "atomic", "weak", "inalloca",
})  # fmt: skip
SCALAR = re.compile(
    r"(?:i\d+|half|bfloat|float|double|fp128|void|label|metadata|token|ptr(?: addrspace\(\d+\))?)"
    r"(?![\w.])"
)
#: Most operands: a plain type with a name or a number, and most values.
_SIMPLE = re.compile(
    r"(i\d+|half|float|double|ptr(?: addrspace\(\d+\))?|<\d+ x \w+>) ([%@][\w.$-]+|-?\d+)(?=, |$)"
)
_PLAIN = re.compile(r"(?:[%@][\w.$-]+|-?\w+)(?=, |$)")
#: What a parameter or an argument may have between its type and its value.
_ATTRIBUTE = re.compile(
    r"(?:(?:noundef|nonnull|readonly|readnone|writeonly|nocapture|noalias|inreg|signext|zeroext"
    r"|immarg|returned|nofree|noext|writable|allocptr)"
    r"|align \d+|(?:captures|range|nofpclass|dereferenceable|dereferenceable_or_null|initializes"
    r"|byval|byref|sret)\((?:[^()]|\([^()]*\))*\)) "
)


class Cursor:
    """A position in an instruction's text. `stop` is the latest end of its operands."""

    __slots__ = ("at", "stop", "text")

    def __init__(self, text: str, start: int) -> None:
        self.text, self.at = text, start
        found = ATTACHMENTS.search(text) if ", !" in text else None
        self.stop = found.start() if found else len(text)

    def error(self, what: str) -> IRError:
        return IRError(what, self.text)

    def flags(self) -> list[str]:
        found: list[str] = []
        while True:
            end = self.text.find(" ", self.at, self.stop)
            word = self.text[self.at : end]
            if end < 0 or word not in _FLAGS:
                return found
            found.append(word)
            self.at = end + 1

    def word(self) -> str:
        end = self.text.find(" ", self.at, self.stop)
        if end < 0:
            raise self.error("an instruction that is too short")
        word = self.text[self.at : end]
        self.at = end + 1
        return word

    def type(self) -> Type:
        """Read the type here, and skip the space after it."""
        match = SCALAR.match(self.text, self.at, self.stop)
        end = match.end() if match else -1
        if end < 0:
            if self.text[self.at : self.at + 1] in ("<", "{", "["):
                end = self.closing(self.at)
            elif name := NAME.match(self.text, self.at, self.stop):
                end = name.end()
            else:
                raise self.error("an unknown type")
        found = type_named(self.text[self.at : end])
        self.at = end
        if self.text[end : end + 1] == " ":
            self.at += 1
        return found

    def closing(self, start: int) -> int:
        """The position after the bracket that closes the one at `start`."""
        for match, depth in marks(self.text, start, self.stop):
            if depth == 0:
                return match.end()
        raise self.error("a bracket that does not close")

    def value(self, type_: Type, type_start: int = -1) -> Operand:
        """The value up to the next comma."""
        start = self.at
        if simple := _PLAIN.match(self.text, start, self.stop):
            self.at = simple.end()
            return Operand(type_, simple[0], start, self.at, type_start)
        end = self.text.find(",", start, self.stop)
        end = self.stop if end < 0 else end
        if BRACKET.search(self.text, start, end):
            end = self.stop
            depth = 0
            for match, depth in marks(self.text, start, self.stop):
                if depth == 0 and match[0] == ",":
                    end = match.start()
                    break
                if depth < 0:
                    raise self.error("a bracket that was not opened")
            if depth:
                raise self.error("a bracket that does not close")
        value = self.text[start:end]
        if not value or value != value.strip():
            raise self.error("an operand in an unknown form")
        self.at = end
        return Operand(type_, value, start, end, type_start)

    def comma(self) -> bool:
        """Skip a comma, if there is one here."""
        if self.text.startswith(", ", self.at) and self.at < self.stop:
            self.at += 2
            return True
        return False

    def typed(self) -> Operand:
        start = self.at
        if simple := _SIMPLE.match(self.text, start, self.stop):
            self.at = simple.end()
            return Operand(type_named(simple[1]), simple[2], simple.start(2), self.at, start)
        type_ = self.type()
        while self.attribute():
            pass
        return self.value(type_, start)

    def attribute(self) -> bool:
        """Skip an attribute of a parameter, if there is one here."""
        match = _ATTRIBUTE.match(self.text, self.at, self.stop)
        if match:
            self.at = match.end()
        return match is not None

    def typed_list(self) -> list[Operand]:
        """`type value` operands with commas between them."""
        found = [self.typed()]
        while self.comma():
            found.append(self.typed())
        return found

    def typed_upto(self, count: int) -> list[Operand]:
        """Exactly so many `type value` operands."""
        found = [self.typed()]
        while len(found) < count:
            if not self.comma():
                raise self.error("an operand is missing")
            found.append(self.typed())
        return found

    def done(self) -> None:
        if self.at != self.stop:
            raise self.error("something behind the operands")

    def rest(self) -> str:
        rest = self.text[self.at : self.stop]
        self.at = self.stop
        return rest
