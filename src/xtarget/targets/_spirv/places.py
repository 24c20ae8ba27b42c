"""From a name in Triton's LLVM IR to the line of the kernel that it comes from."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

__all__ = ["place_of", "place_of_operation"]

_ATTACHED = re.compile(r"!dbg !(\d+)")
_SCOPED = re.compile(
    r"^!(\d+) = (?:distinct )?!DI(?:Subprogram|LexicalBlock\w*)\(.*file: !(\d+)", re.M
)


def place_of(symbol: str, llvm_ir: str) -> str:
    """` (file.py:12: v = tl.load(...))` for the first use of `symbol` in LLVM IR with debug
    information; empty where it is not known.
    """
    if not symbol:
        return ""
    for line in llvm_ir.splitlines():
        if symbol in line and line.startswith(" ") and (match := _ATTACHED.search(line)):
            return _described(match[1], llvm_ir)
    return ""


def _described(number: str, llvm_ir: str) -> str:
    location = re.search(
        rf"^!{number} = (?:distinct )?!DILocation\(line: (\d+), .*?scope: !(\d+)", llvm_ir, re.M
    )
    if not location or location[1] == "0":
        return ""
    files = dict(_SCOPED.findall(llvm_ir))
    file = re.search(
        rf'^!{files.get(location[2], "none")} = !DIFile\(filename: "([^"]*)", directory: "([^"]*)"',
        llvm_ir,
        re.M,
    )
    if not file:
        return ""
    source = linecache.getline(str(Path(file[2]) / file[1]), int(location[1])).strip()
    return f" ({file[1]}:{location[1]}" + (f": {source})" if source else ")")


_LOCATION = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.M)
_FILE_LINE = re.compile(r'"([^"]*)":(\d+):\d+')
_REFERENCE = re.compile(r"loc\((#loc\d*)\)|(#loc\d+)")
_OPERATION = re.compile(r"^\s+(?:%[^=]*= )?\"?(\w+\.\w+)")


def place_of_operation(pattern: re.Pattern[str], mlir: str) -> str:
    """` (tt.load in file.py:12: ...)` for the first operation that the pattern matches; empty where
    there is none.
    """
    known = dict(_LOCATION.findall(mlir))
    for line in mlir.splitlines():
        operation = _OPERATION.match(line)
        if not operation or not pattern.search(line):
            continue
        text = line
        for _ in range(8):  # names and calls lead to a place by a few steps
            if place := _FILE_LINE.search(text):
                source = linecache.getline(place[1], int(place[2])).strip()
                name = Path(place[1]).name
                return f" ({operation[1]} in {name}:{place[2]}" + (
                    f": {source})" if source else ")"
                )
            reference = _REFERENCE.search(text)
            if not reference:
                break
            text = known.get(reference[1] or reference[2], "")
        return f" ({operation[1]})"
    return ""
