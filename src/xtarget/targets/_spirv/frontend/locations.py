"""From a location of Triton's IR to the line of the kernel's source."""

from __future__ import annotations

import linecache
from pathlib import Path

__all__ = ["described", "source_line"]


def described(name: str, location: str) -> str:
    """` (tt.load in file.py:12: v = tl.load(p))` for an operation's name and location.

    Args:
        location: as MLIR prints it. It may have names, and calls around calls; the innermost file
            and line counts, which comes first.
    """
    found = source_line(location)
    if found is None:
        return f" ({name})"
    path, line = found
    source = linecache.getline(path, line).strip()
    return f" ({name} in {Path(path).name}:{line}" + (f": {source})" if source else ")")


def source_line(location: str) -> tuple[str, int] | None:
    """File and line of the first `"FILE":LINE:COLUMN` in a location."""
    parts = location.split('"')
    for path, rest in zip(parts[1::2], parts[2::2], strict=False):
        number = rest.removeprefix(":").partition(":")[0]
        if rest.startswith(":") and number.isdigit():
            return path, int(number)
    return None
