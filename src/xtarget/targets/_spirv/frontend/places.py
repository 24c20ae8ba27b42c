"""From a name in Triton's LLVM IR to the line of the kernel that it comes from."""

from __future__ import annotations

import linecache
from pathlib import Path

from ..llvm.ir import Module
from ..llvm.reader import read
from ..llvm.types import IRError

__all__ = ["place_of"]


def place_of(symbol: str, llvm_ir: str) -> str:
    """` (file.py:12: v = tl.load(...))` for the first use of `symbol` in LLVM IR with debug
    information; empty where it is not known.
    """
    if not symbol:
        return ""
    try:
        module = read(llvm_ir)
    except IRError:  # the message that this is for says more
        return ""
    for instruction in module.code():
        if symbol in instruction.text and (node := instruction.attachments()[1].get("dbg")):
            return _described(node.removeprefix("!"), module)
    return ""


def _described(number: str, module: Module) -> str:
    nodes = {line.name: line.text for line in module.lines("metadata")}
    location = nodes.get(number, "")
    line = _field(location, "line")
    scope = nodes.get(_field(location, "scope").removeprefix("!"), "")
    file = nodes.get(_field(scope, "file").removeprefix("!"), "")
    name, folder = _field(file, "filename"), _field(file, "directory")
    if not line.isdigit() or line == "0" or not name:
        return ""
    source = linecache.getline(str(Path(folder) / name), int(line)).strip()
    return f" ({name}:{line}" + (f": {source})" if source else ")")


def _field(node: str, name: str) -> str:
    """The value of a field of a metadata node; empty if the node lacks the field."""
    inside = node.partition("(")[2]
    rest = f", {inside}".partition(f", {name}: ")[2]
    if rest.startswith('"'):
        return rest[1:].partition('"')[0]
    return rest.partition(",")[0].partition(")")[0]
