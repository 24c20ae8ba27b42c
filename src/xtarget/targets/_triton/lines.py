"""Lines of Triton functions: in a file, and from the function's `def` on, where they stay right
while the file around the function changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

__all__ = ["def_line", "functions_of", "line_in_file", "line_in_function"]


def functions_of(fn: Any) -> Iterator[Any]:
    """A `@triton.jit` function, and those of its file's names that are such functions."""
    yield fn
    for one in list(fn.__globals__.values()):  # another thread may set some
        if type(one).__module__.startswith("triton.") and hasattr(one, "raw_src"):
            yield one


def def_line(function: Any) -> int:
    """The line of its `def`."""
    before = next(i for i, text in enumerate(function.raw_src) if text.lstrip().startswith("def "))
    line: int = function.starting_line_number + before
    return line


def line_in_function(fn: Any, place: str) -> str:
    """A place of a kernel (`kernels.py:12`) as `kernels.py:scale+2`; as it is where the function is
    none that the kernel's file names."""
    file, _, number = place.rpartition(":")
    line = int(number) if number.isdecimal() else 0
    for function in functions_of(fn):
        first = def_line(function)
        if _file(function) == file and first <= line < first + len(function.src.splitlines()):
            return f"{file}:{function.__name__}+{line - first}"
    return place


def line_in_file(fn: Any, place: str) -> str | None:
    """Where that is now; None where no function of that name is found."""
    file, _, inside = place.rpartition(":")
    name, plus, number = inside.partition("+")
    for function in functions_of(fn) if plus else ():
        if function.__name__ == name and _file(function) == file:
            return f"{file}:{def_line(function) + int(number)}"
    return None


def _file(function: Any) -> str:
    return PurePath(function.fn.__code__.co_filename).name
