"""Reader of MLIR's types and attributes, as Triton's bindings print them.

The bindings give a value's type as text only. This module makes objects of it: shape, element and
layout. Together with `reader` it is the one place with patterns over Triton's IR; what it does not
know is an error that shows the text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeAlias

from ...._values.errors import CompileError
from ...._values.value_classes import value_class

__all__ = ["Layout", "Type", "read_type"]

#: A number, a word, a list, or a layout.
Attribute: TypeAlias = "int | str | tuple[Attribute, ...] | Layout"

_TOKEN = re.compile(
    r"\s*(?P<token>->|<\{|\}>|[#!]?[A-Za-z_][\w.$-]*|-?\d+|\"(?:[^\"\\]|\\.)*\"|[][(){}<>,=:*+?])"
)
_DIMENSIONS = re.compile(r"((?:\d+x)*)")


@value_class(frozen=True, slots=True)
class Layout:
    """The distribution of a tensor's elements over the threads of a block.

    Attributes:
        kind: `ttg.blocked`, `ttg.slice`, `ttg.dot_op`...
        parameters: by name, in the order of the text.
    """

    kind: str
    parameters: tuple[tuple[str, Attribute], ...]

    def __getitem__(self, name: str) -> Any:
        """The value of a parameter; KeyError if the layout lacks it."""
        return dict(self.parameters)[name]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.parameters)


@value_class(frozen=True, slots=True)
class Type:
    """A type of a value.

    Attributes:
        element: of a tensor, or the type itself: `f32`, `!tt.ptr<f32>`...
        shape: of a tensor; None for other types.
        layout: of a tensor, once Triton has chosen one.
    """

    element: str
    shape: tuple[int, ...] | None = None
    layout: Layout | None = None

    @property
    def scalar(self) -> str:
        """The element type; for a pointer, the type that it points to."""
        if not self.element.startswith("!tt.ptr<"):
            return self.element
        return self.element.removeprefix("!tt.ptr<").removesuffix(">").partition(",")[0]


class _Scanner:
    """Tokens of a text, from the front to the back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def error(self, expected: str) -> CompileError:
        """An error that shows the text and the place in it."""
        before, after = self.text[: self.at], self.text[self.at :]
        return CompileError(
            f"xtarget cannot read Triton's IR: expected {expected} at {after[:40]!r} in "
            f"{(before[-80:] + after)[:200]!r}. This Triton prints it in another way; install a "
            "version that xtarget was tested with."
        )

    def peek(self) -> str:
        """The next token; empty at the end."""
        match = _TOKEN.match(self.text, self.at)
        return match["token"] if match else ""

    def take(self, expected: str = "") -> str:
        """The next token, which has to be `expected` if that is given."""
        match = _TOKEN.match(self.text, self.at)
        if match is None or (expected and match["token"] != expected):
            raise self.error(repr(expected) if expected else "a token")
        self.at = match.end()
        return match["token"]

    def accept(self, token: str) -> bool:
        """Take the next token if it is this one."""
        if self.peek() != token:
            return False
        self.take()
        return True

    def is_at_end(self) -> bool:
        return not self.text[self.at :].strip()

    def up_to_end_of_element(self) -> str:
        """The text before a `,` or `>` that is not inside of brackets."""
        start, depth = self.at, 0
        while self.at < len(self.text):
            character = self.text[self.at]
            if not depth and character in ",>":
                break
            depth += (character == "<") - (character == ">")
            self.at += 1
        return self.text[start : self.at].strip()


@lru_cache(maxsize=4096)
def read_type(text: str) -> Type:
    """The type that this text describes.

    Raises:
        CompileError: a tensor in a form that is not known.
    """
    if not text.startswith("tensor<"):
        return Type(text)
    scanner = _Scanner(text)
    scanner.take("tensor")
    scanner.take("<")
    dimensions = _DIMENSIONS.match(text, scanner.at)
    assert dimensions is not None
    scanner.at = dimensions.end()
    shape = tuple(int(size) for size in dimensions[1].split("x") if size)
    element = scanner.up_to_end_of_element()
    if not element or element[0] in "?*":
        raise scanner.error("an element type")
    layout = _layout(scanner) if scanner.accept(",") else None
    scanner.take(">")
    if not scanner.is_at_end():
        raise scanner.error("the end")
    return Type(element, shape, layout)


def _layout(scanner: _Scanner) -> Layout:
    kind = scanner.peek()
    if not kind.startswith("#"):
        raise scanner.error("a layout")
    scanner.take()
    parameters: list[tuple[str, Attribute]] = []
    if scanner.accept("<{"):
        while not scanner.accept("}>"):
            name = scanner.take()
            scanner.take("=")
            parameters.append((name, _attribute(scanner)))
            if scanner.peek() != "}>":
                scanner.take(",")
    return Layout(kind.removeprefix("#"), tuple(parameters))


def _attribute(scanner: _Scanner) -> Attribute:
    token = scanner.peek()
    if token.startswith("#"):
        return _layout(scanner)
    scanner.take()
    if token == "[":
        items: list[Attribute] = []
        while not scanner.accept("]"):
            items.append(_attribute(scanner))
            if scanner.peek() != "]":
                scanner.take(",")
        return tuple(items)
    if token.lstrip("-").isdigit():
        return int(token)
    if token[0].isalpha() or token[0] in '"_':
        return token
    raise scanner.error("a number, a word, a list or a layout")
