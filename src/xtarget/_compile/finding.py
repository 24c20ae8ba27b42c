"""Where another process finds the source of a kernel."""

from __future__ import annotations

import os
import sys
from typing import Any

from .._values.errors import CompileError
from .._values.types import KernelSource

__all__ = ["can_be_found", "where_found"]


def can_be_found(source: KernelSource) -> bool:
    """Whether another process finds a kernel."""
    try:
        where_found(source, source.name)
    except CompileError:
        return False
    return True


def where_found(source: KernelSource, what: str) -> dict[str, Any]:
    """Return the origin and source by which another process finds a kernel.

    Raises:
        CompileError: no other process can find it.
    """
    if source.library is not None:
        return dict(zip(("origin", "source"), source.library, strict=True))
    function = source.load().fn
    module, name = function.__module__, function.__qualname__
    why = ""
    if module == "__main__":
        why = "it is defined in the program itself (__main__), which that process would have to run"
    elif "<locals>" in name:
        why = "it is defined inside a function"
    elif not os.path.isfile(function.__code__.co_filename):
        why = f"its text is in no file ({function.__code__.co_filename})"
    if why:
        raise CompileError(
            f"{what} cannot be compiled under a limit of time, because no other process finds it: "
            f"{why}. Put it at the top level of a module, or unset XTARGET_COMPILE_SECONDS."
        )
    return {
        "module": module,
        "name": name,
        "path": [os.path.abspath(p) for p in sys.path if isinstance(p, str)],
    }
