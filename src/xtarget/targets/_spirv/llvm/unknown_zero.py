"""A zero that the device's compiler cannot recognise as one."""

from __future__ import annotations

from collections.abc import Sequence

from .ir import Function, Line, Module
from .reader import instructions

__all__ = ["ZERO", "add_zero", "has_barrier"]

#: Its name, an `i64`.
ZERO = "%xt.zero"
_BLOCKS = "_Z14get_num_groupsj"
_DEFINITION = (
    f"  %xt.blocks = tail call spir_func i64 @{_BLOCKS}(i32 0)",
    f"  {ZERO} = lshr i64 %xt.blocks, 63",  # a number of blocks has no sign
)


def has_barrier(function: Function) -> bool:
    """Return whether the threads of a block meet in a function."""
    return any("@_Z7barrierj(" in one.text for one in function.code())


def add_zero(module: Module, function: Function, further: Sequence[str] = ()) -> None:
    """Define `ZERO` in a function, unless it is, and behind it the lines `further`."""
    code = function.blocks[0].code
    at = next((n for n, one in enumerate(code) if one.name == ZERO), -1) + 1
    code[at:at] = instructions(*(() if at else _DEFINITION), *further)
    if not any(line.name == _BLOCKS for line in module.lines("declare")):
        module.append(Line("declare", f"declare spir_func i64 @{_BLOCKS}(i32)", _BLOCKS))
