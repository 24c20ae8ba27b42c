"""Reader of the text of Triton's IR, for facts that Triton's bindings do not give.

MLIR prints each operation on a line of its own; an operation with regions goes on up to the line
that closes the last of them. `read` makes a `Statement` of each operation, with its tokens and the
statement around it. A line in any other form is an error that shows the line. `edited` writes the
text with some of its tokens replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ...._values.errors import CompileError
from ...._values.value_classes import value_class

__all__ = ["Statement", "Token", "attribute", "edited", "function_named", "parameters", "read"]

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"'  # a string
    r"|->|::"
    r"|[%#!@^]?[A-Za-z_][\w.$-]*(?:#\d+)?|%\d+(?:#\d+)?|@\"(?:[^\"\\]|\\.)*\""  # names
    r"|-?\d+(?:\.\d*(?:[eE][-+]?\d+)?)?(?:x(?=[\w?!]))?|-?0x[0-9A-Fa-f]+"  # numbers, dimensions
    r"|[][(){}<>,=:*+?|;/-]"
)
_SPACE = re.compile(r"\s*")
_DIALECT = re.compile(r"[A-Za-z_]\w*(?:\.[\w$]+)+")


@value_class(frozen=True, slots=True)
class Token:
    """A token and its place in the text."""

    text: str
    start: int
    end: int


@value_class(frozen=True, slots=True, eq=False)
class Statement:
    """An operation in the text.

    Attributes:
        name: with the dialect: `tt.load`.
        tokens: of the operation's first line.
        parent: the operation around it.
    """

    name: str
    tokens: tuple[Token, ...]
    parent: Statement | None

    @property
    def around(self) -> Iterator[Statement]:
        """The statements around this one, from the inside to the outside."""
        at = self.parent
        while at is not None:
            yield at
            at = at.parent

    def attribute(self, name: str) -> str:
        """The word behind `name =`; empty where there is none."""
        return attribute(self.tokens, name)

    def strings(self) -> list[Token]:
        return [token for token in self.tokens if token.text.startswith('"')]

    def symbols(self) -> list[str]:
        """Names of functions in the line."""
        return [token.text for token in self.tokens if token.text.startswith("@")]


def attribute(words: Sequence[Token], name: str) -> str:
    """The word behind `name =`; empty where there is none."""
    for at in range(len(words) - 2):
        if words[at].text == name and words[at + 1].text == "=":
            return words[at + 2].text
    return ""


def function_named(text: str, name: str, symbol: str) -> Statement:
    """The operation that defines a function, in the text of a module. The text after it is not
    read.

    Args:
        name: of the operation.
        symbol: of the function, without `@`.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith(f"{name} ") and f"@{symbol}" in line:
            try:
                statement = Statement(name, tokens(line), None)
            except ValueError as error:
                raise unreadable(line, number) from error
            if statement.symbols()[:1] in ([f"@{symbol}"], [f'@"{symbol}"']):
                return statement
    raise unreadable(f"{name} @{symbol}: there is none", text.count("\n") + 1)


def unreadable(line: str, number: int) -> CompileError:
    return CompileError(
        f"xtarget cannot read line {number} of Triton's IR: {line.strip()[:200]!r}. Install a "
        "version of Triton that xtarget was tested with."
    )


def tokens(text: str, start: int = 0, end: int | None = None) -> tuple[Token, ...]:
    """The tokens of a part of a text.

    Raises:
        ValueError: there is something else.
    """
    found, at, end = [], start, len(text) if end is None else end
    while (at := _after_space(text, at)) < end:
        match = _TOKEN.match(text, at, end)
        if match is None:
            raise ValueError(text[at:end])
        found.append(Token(match[0], at, match.end()))
        at = match.end()
    return tuple(found)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def read(text: str) -> list[Statement]:
    """The operations of a module, as printed.

    Raises:
        CompileError: a line that this reader does not know.
    """
    found: list[Statement] = []
    open_: list[Statement] = []
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        start, at = at, at + len(line) + 1
        stripped = line.strip()
        if not stripped or stripped.startswith(("//", "#", "!")):  # an alias
            continue
        try:
            words = tokens(text, start, at - 1)
        except ValueError as error:
            raise unreadable(line, number) from error
        first, depth = words[0].text, _depth(words)
        if first == "}":
            closed = _pop(open_, line, number)
            if depth == 0:  # another region follows
                open_.append(closed)
            elif depth != -1:
                raise unreadable(line, number)
            continue
        if first.startswith("^"):  # the head of a block
            if depth:
                raise unreadable(line, number)
            continue
        statement = Statement(_name(words, line, number), words, open_[-1] if open_ else None)
        found.append(statement)
        if depth == 1:
            open_.append(statement)
        elif depth:
            raise unreadable(line, number)
    if open_:
        raise unreadable("the end, inside of " + open_[-1].name, text.count("\n") + 1)
    return found


def _pop(open_: list[Statement], line: str, number: int) -> Statement:
    if not open_:
        raise unreadable(line, number)
    return open_.pop()


def _depth(words: tuple[Token, ...]) -> int:
    """The number of braces that a line opens, less those that it closes."""
    return sum((token.text == "{") - (token.text == "}") for token in words)


def _name(words: tuple[Token, ...], line: str, number: int) -> str:
    at = 0
    if words[0].text.startswith("%"):
        at = next((n + 1 for n, token in enumerate(words) if token.text == "="), len(words))
    name = words[at].text if at < len(words) else ""
    if name == "module":
        return "builtin.module"
    name = name.strip('"')
    if _DIALECT.fullmatch(name) is None:
        raise unreadable(line, number)
    return name


def parameters(statement: Statement) -> list[tuple[Token, ...]]:
    """The tokens of each parameter of a function."""
    found: list[list[Token]] = []
    depth = 0
    words = iter(statement.tokens)
    for token in words:
        if token.text.startswith("@"):
            break
    for token in words:
        opens, closes = token.text in "([{<", token.text in ")]}>"
        if opens:
            depth += 1
            if depth == 1:
                continue
        elif closes:
            depth -= 1
            if not depth:
                break
        if depth == 1 and token.text == ",":
            found.append([])
        else:
            if not found:
                found.append([])
            found[-1].append(token)
    return [tuple(parameter) for parameter in found]


def edited(text: str, changes: Mapping[Token, str]) -> str:
    """The text with some tokens replaced."""
    parts, at = [], 0
    for token in sorted(changes, key=lambda token: token.start):
        parts += [text[at : token.start], changes[token]]
        at = token.end
    return "".join([*parts, text[at:]])
