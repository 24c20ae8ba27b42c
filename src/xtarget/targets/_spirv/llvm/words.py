"""The reader's part for pieces of a line: lists, names, words, types, strings.

Regular expressions over LLVM IR stand in `reader`, `operands` and here, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from .types import Type, type_named

__all__ = [
    "ATTACHMENTS",
    "BRACKET",
    "NAME",
    "SYMBOL",
    "fields_of",
    "has_word",
    "map_literals",
    "map_names",
    "map_pointers",
    "map_vectors",
    "map_words",
    "marks",
    "names_in",
    "split_attachments",
    "split_list",
    "string_of",
    "symbols_in",
    "vectors_in",
]

NAME = re.compile(r'%(?:[\w.$-]+|"[^"]*")')
SYMBOL = re.compile(r'@(?:([\w.$-]+)|"([^"]*)")')
ATTACHMENTS = re.compile(r"(?:, ![\w.]+ !(?:\d+|\w*\([^()]*\)|\{\}))+$")
_ATTACHMENT = re.compile(r", !([\w.]+) (!(?:\d+|\w*\([^()]*\)|\{\}))")
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[(<\[{)>\]},]')
BRACKET = re.compile(r'[<\[{"]|\((?!\d+\))')
_STRING = re.compile(r'\bc"((?:[^"\\]|\\\\|\\[0-9A-F]{2})*)"')
#: Names, strings and words of a line, of which only words have a meaning of their own.
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[%@!#$][\w.$-]+|\b\w+\b')
_POINTER = re.compile(
    r'"(?:[^"\\]|\\.)*"|[%@!#$][\w.$-]+|\bptr\b(?: addrspace\((\d+)\))?( @[\w.$-]+)?'
)
_VECTOR = re.compile(r"<\d+ x [^<>]+>")
_FLOAT_TYPE = re.compile(r"\b(half|bfloat|float|double)\b")
#: Floating-point literals of LLVM 23: the value's bits, or a sign with a word or a decimal.
_FLOAT = re.compile(
    r"(?<![\w.%@#-])(?:f0x(?P<bits>[0-9A-F]+)|(?P<sign>[+-])?(?P<number>inf|qnan|\d+\.\d*(?:e[+-]?\d+)?))"
    r"(?![\w.])"
)


def marks(text: str, start: int, stop: int) -> Iterator[tuple[re.Match[str], int]]:
    """Each bracket, comma and string, and how many brackets are open behind it."""
    depth = 0
    for match in _MARK.finditer(text, start, stop):
        mark = match[0]
        if mark in "(<[{":
            depth += 1
        elif mark in ")>]}":
            depth -= 1
        yield match, depth


def split_list(text: str) -> list[str]:
    """The parts of a comma-separated list, leaving commas inside brackets and strings alone."""
    if not BRACKET.search(text):
        return [part for part in map(str.strip, text.split(",")) if part]
    parts, start = [], 0
    for match, depth in marks(text, 0, len(text)):
        if depth == 0 and match[0] == ",":
            parts.append(text[start : match.start()].strip())
            start = match.end()
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def fields_of(type_: str) -> list[str]:
    """Types of a struct's fields; none of another type."""
    return split_list(type_[1:-1]) if type_[:1] == "{" else []


def split_attachments(text: str) -> tuple[str, dict[str, str]]:
    """An instruction's text without the metadata at its end, and that by kind."""
    match = ATTACHMENTS.search(text) if ", !" in text else None
    if match is None:
        return text, {}
    return text[: match.start()], dict(_ATTACHMENT.findall(match[0]))


def names_in(text: str, start: int = 0) -> list[str]:
    """The local names of a text."""
    return NAME.findall(text, start)


def string_of(text: str) -> str | None:
    """The bytes of a constant string, one character each; None of another global."""
    match = _STRING.search(text) if " constant " in text else None
    if match is None:
        return None
    pieces = match[1].split("\\")
    found, rest = pieces[0], iter(pieces[1:])
    for piece in rest:
        # an escape is two digits, or another backslash, which leaves an empty piece here
        found += chr(int(piece[:2], 16)) + piece[2:] if piece else "\\" + next(rest, "")
    return found


def map_literals(line: str, change: Callable[[str, re.Match[str]], str]) -> str:
    """A line with other floating-point literals. `change` gets the type of each, and its parts
    `bits`, `sign` and `number`.
    """
    if not _FLOAT_TYPE.search(line):
        return line

    def changed(match: re.Match[str]) -> str:
        types = _FLOAT_TYPE.findall(line, 0, match.start())
        return change(types[-1], match) if types else match[0]

    return _FLOAT.sub(changed, line)


def map_names(text: str, names: Mapping[str, str]) -> str:
    """A line with other values in place of these local names."""
    return NAME.sub(lambda match: names.get(match[0], match[0]), text)


def symbols_in(text: str) -> list[str]:
    """The global names of a text, with their `@`."""
    return [f"@{plain or quoted}" for plain, quoted in SYMBOL.findall(text)]


def has_word(text: str, word: str) -> bool:
    """Return whether a text has this word, outside of names and strings."""
    return any(match[0] == word for match in _WORD.finditer(text))


def map_words(text: str, change: Callable[[str], str]) -> str:
    """A line with other words: types, flags, numbers. Names and strings stay."""
    return _WORD.sub(lambda match: match[0] if match[0][0] in '"%@!#$' else change(match[0]), text)


def map_vectors(text: str, change: Callable[[Type], str]) -> str:
    """A line with other types in place of its vectors of scalars."""
    return _VECTOR.sub(lambda match: change(type_named(match[0])), text)


def vectors_in(text: str) -> list[Type]:
    """The vectors of scalars that a text mentions, as types."""
    return [type_named(found) for found in _VECTOR.findall(text)]


def map_pointers(
    text: str, spaces: Mapping[int, int], symbols: Mapping[str, str] | None = None
) -> str:
    """A line with other address spaces of pointers; names and strings stay.

    Args:
        text: the line.
        spaces: the new ones by the old ones.
        symbols: what stands in place of a type and the global name behind it, by that name with
            its `@`.
    """

    def renamed(match: re.Match[str]) -> str:
        if match[0][:3] != "ptr":
            return match[0]
        space, symbol = int(match[1] or 0), match[2] or ""
        if symbols and symbol and symbol[1:] in symbols:
            return symbols[symbol[1:]]
        space = spaces.get(space, space)
        return f"ptr addrspace({space}){symbol}" if space else f"ptr{symbol}"

    return _POINTER.sub(renamed, text)
