"""Tables and sentences for people: as wide as the terminal, or as COLUMNS says."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence

import click

from .._values.text import one_line
from .base import echo

__all__ = ["echo_wrapped", "print_table"]

#: Between two columns.
_GAP, _FOLDED_GAP = 2, 3
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
        for part in [line] if limit is None else _wrapped(line, limit, "  "):
            echo(part)


def _wrapped(line: str, limit: int, indent: str) -> list[str]:
    kept = _COPIED.sub(lambda found: found[0].replace(" ", _KEPT_SPACE), line)
    parts = textwrap.wrap(
        kept, max(limit, 20), subsequent_indent=indent,
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
    fits = limit is None or sum(widths) + _GAP * (len(widths) - 1) <= limit
    folds = limit is None or sum(longest) + _FOLDED_GAP * (len(longest) - 1) <= limit
    if limit is None or (fits and not (folds and sys.stdout.isatty())):
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            echo((" " * _GAP).join(cells).rstrip())
    elif folds:
        _print_folded(columns, rows, limit)
    else:
        _print_blocks(columns, rows, limit)


def _longest_word(cell: str) -> int:
    return max(map(len, cell.split()), default=0)


def _print_folded(columns: Sequence[str], rows: Sequence[Sequence[str]], limit: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column, *cells in zip(columns, *rows, strict=True):
        table.add_column(column, min_width=max(map(_longest_word, [column, *cells])))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(highlight=False, width=limit)
    with console.capture() as shown:
        console.print(table)
    for line in shown.get().splitlines():
        click.echo(line.rstrip())


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
                for part in _wrapped(line, limit, indent):
                    echo(part)
