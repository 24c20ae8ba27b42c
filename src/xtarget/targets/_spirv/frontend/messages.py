"""Messages of `tl.device_print` and `tl.device_assert` in Triton's IR, made fit for SPIR-V.

Triton's bindings cannot change an attribute of an operation without results, nor erase it. So this
edits the text, through `reader`.
"""

from __future__ import annotations

from typing import Any

from ..llvm.text import ALONE
from .reader import Statement, Token, edited, read
from .structure import operations

__all__ = ["adapted"]

_COMBINERS = ("tt.reduce", "tt.scan", "tt.map_elementwise")


def adapted(module: Any, *, debug: bool) -> str | None:
    """The text of Triton's IR with changed messages; None if there are none to change.

    Args:
        module: stays as it is.
        debug: whether the kernel's assertions are checked.
    """
    names = {operation.name for operation in operations(module)}
    if "tt.print" not in names and not (debug and "tt.assert" in names):
        return None
    text = str(module.str())
    statements = read(text)
    changes = plain_prefixes(statements)
    if debug:
        changes |= marks_in_regions(statements)
    return edited(text, changes) if changes else None


def plain_prefixes(statements: list[Statement]) -> dict[Token, str]:
    """Double percent signs in the words before printed values: the words become a part of a format,
    and are not formats themselves.
    """
    prefixes = [s.strings()[0] for s in statements if s.name == "tt.print"]
    return {token: token.text.replace("%", "%%") for token in prefixes if "%" in token.text}


def marks_in_regions(statements: list[Statement]) -> dict[Token, str]:
    """Mark assertions inside of reductions and scans, and of functions that these call: they
    combine values where only some threads have one, so a block cannot meet at a barrier there.
    """
    asserting: list[tuple[Token, str, bool]] = []  # message, function, inside of a region
    calls: list[tuple[str, str, bool]] = []  # to, from, inside of a region
    for statement in statements:
        if statement.name not in ("tt.assert", "tt.call"):
            continue
        within = any(around.name in _COMBINERS for around in statement.around)
        functions = (a.symbols()[0] for a in statement.around if a.name == "tt.func")
        function = next(functions, "")
        if statement.name == "tt.assert":
            asserting.append((statement.strings()[0], function, within))
        else:
            calls.append((statement.symbols()[0], function, within))
    alone = {to for to, _, within in calls if within}
    while more := {to for to, caller, _ in calls if caller in alone} - alone:
        alone |= more
    return {
        message: f'"{ALONE}{message.text[1:]}'
        for message, function, within in asserting
        if within or function in alone
    }
