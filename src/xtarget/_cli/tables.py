"""Tables and sentences for people: as wide as the terminal, or as COLUMNS says."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

import click

from .._values.text import one_line
from .base import echo

__all__ = ["echo_wrapped", "print_table"]

#: Between two columns.
_GAP = 2
#: What people copy stays on one line: text in backquotes, and an installation.
_COPIED = re.compile(r'`[^`]+`|pip install (?:"[^"]+"|\S+)')
_KEPT_SPACE = "\N{NO-BREAK SPACE}"


def _columns() -> int | None:
    """How many characters a line may have; None: any, as in a pipe without COLUMNS."""
    wish = os.environ.get("COLUMNS", "")
    if wish.isascii() and wish.isdigit() and int(wish):
        return int(wish)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def echo_wrapped(text: str) -> None:
    """Print a sentence, broken between words where the line ends."""
    limit = _columns()
    for line in text.splitlines() or [""]:
        for part in [line] if limit is None else _wrapped(line, max(limit, 20), "  "):
            echo(part)


def _wrapped(line: str, limit: int, indent: str = "") -> list[str]:
    parts = textwrap.wrap(
        _kept(line), max(limit, 1), subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [part.replace(_KEPT_SPACE, " ") for part in parts]


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table as wide as the terminal, or, where that is too narrow for its words, a block of lines
    for each row. In a pipe one whole line for each row, so that grep and awk see them."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    limit = _columns()
    lines = [columns, *rows]
    longest = [max(_longest_word(line[i]) for line in lines) for i in range(len(columns))]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    if limit is not None:
        limit -= _GAP * (len(columns) - 1)
        if sum(longest) > limit:
            _print_blocks(columns, rows, limit + _GAP * (len(columns) - 1))
            return
        widths = _shared(widths, longest, limit)
    bold = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for line in lines:
        cells = [_wrapped(cell, width) or [""] for cell, width in zip(line, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
            text = (" " * _GAP).join(padded).rstrip()
            if bold and line is columns:
                click.secho(text, bold=True)
            else:
                echo(text)


def _shared(widths: Sequence[int], least: Sequence[int], limit: int) -> list[int]:
    """Share `limit` among the columns: each gets its longest word, and of the rest what it needs,
    or the same as others that need more."""
    found, spare = list(least), limit - sum(least)
    order = sorted(range(len(widths)), key=lambda i: widths[i] - least[i])
    for left, i in zip(range(len(order), 0, -1), order, strict=True):
        more = min(widths[i] - least[i], spare // left)
        found[i], spare = found[i] + more, spare - more
    return found


def _longest_word(cell: str) -> int:
    return max(map(len, _kept(cell).split(" ")))


def _kept(text: str) -> str:
    """With the spaces at which it is not broken marked."""
    return _COPIED.sub(lambda found: found[0].replace(" ", _KEPT_SPACE), text)


def _print_blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], limit: int) -> None:
    """The first column that has a name is the head of a block, with what stands before it."""
    first = next(i for i, column in enumerate(columns) if column)
    width = max(map(len, columns))
    for row in rows:
        echo(" ".join(cell for cell in row[: first + 1] if cell))
        for column, cell in list(zip(columns, row, strict=True))[first + 1 :]:
            if cell:
                indent = " " * (2 + width + _GAP)
                line = f"  {column.ljust(width)}{' ' * _GAP}{cell}"
                for part in _wrapped(line, max(limit, 20), indent):
                    echo(part)
