"""The function of pairs of bfloat16 (`library.pairs`), defined where a kernel calls it."""

from __future__ import annotations

from ..library.pairs import SCALAR, VECTOR, definition
from .ir import Function, Module
from .reader import read

__all__ = ["define_pairs"]


def define_pairs(module: Module) -> None:
    """Define what is declared of it."""
    wanted = {line.name for line in module.lines("declare")} & {SCALAR, VECTOR}
    module.drop(lambda line: line.kind == "declare" and line.name in wanted)
    there = {line.name for line in module.lines("declare")}
    for name in sorted(wanted):
        for item in read(definition(name)).items:
            if isinstance(item, Function) or (item.kind == "declare" and item.name not in there):
                module.items.append(item)
