"""From a location of Triton's IR, as MLIR prints it, to lines of the kernel's source."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from pathlib import Path

__all__ = ["described", "source_line", "source_lines"]


def described(name: str, location: str) -> str:
    """` (tt.load in file.py:12: v = tl.load(p))` for an operation's name and location.

    Args:
        location: it may have names, and calls around calls; the innermost file and line counts.
    """
    found = source_line(location)
    if found is None:
        return f" ({name})"
    path, line = found
    source = linecache.getline(path, line).strip()
    return f" ({name} in {Path(path).name}:{line}" + (f": {source})" if source else ")")


def source_line(location: str) -> tuple[str, int] | None:
    """The innermost file and line of a location."""
    return next(source_lines(location), None)


def source_lines(location: str) -> Iterator[tuple[str, int]]:
    """Each `"FILE":LINE:COLUMN` of a location, from the inside to the outside."""
    parts = location.split('"')
    for path, rest in zip(parts[1::2], parts[2::2], strict=False):
        number = rest.removeprefix(":").partition(":")[0]
        if rest.startswith(":") and number.isdigit():
            yield path, int(number)
