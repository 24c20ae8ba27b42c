"""In a child that compiles: kernels of the program's own modules, imported again."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .._kernels.decorator import loaded_source
from .._values.errors import CompileError
from .._values.types import KernelSource

__all__ = ["source_of"]


def source_of(asked: dict[str, Any]) -> KernelSource:
    """In the child: the kernel of a module.

    Raises:
        CompileError: it is not what the parent has.
    """
    what = f"the kernel {asked['name']} of the module {asked['module']}"
    sys.path += [p for p in asked["path"] if p not in sys.path]
    try:
        found: Any = importlib.import_module(asked["module"])
        for part in asked["name"].split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise CompileError(
            f"{what} cannot be imported by the process that compiles it: {type(error).__name__}: "
            f"{error}. Unset XTARGET_COMPILE_SECONDS to compile it in the program."
        ) from error
    while not hasattr(found, "starting_line_number") and hasattr(found, "fn"):
        found = found.fn  # autotuned, or with heuristics
    source = loaded_source(found, getattr(found.fn.__code__, "co_filename", ""))
    if source.digest != asked["digest"]:
        raise CompileError(
            f"{what} is another one in the process that compiles it: its file has changed, or it "
            "reads values that the program has set. Start the program again, set them where the "
            "module is imported, or unset XTARGET_COMPILE_SECONDS."
        )
    return source
