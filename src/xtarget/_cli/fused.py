"""Fused functions that a command line names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from .._bundle.builder.classes import KnownCall
from .._fuse.fused import Fused
from .._values.errors import ArgumentError

__all__ = ["calls_of"]


def calls_of(text: str, dtypes: Sequence[str]) -> list[KnownCall]:
    """The launches of a fused function's examples, on arrays of each of the dtypes that it takes.

    Args:
        text: `MODULE:NAME` or `FILE.py:NAME`.

    Raises:
        ArgumentError: there is no such function, it has no examples, or takes none of the dtypes.
    """
    place, _, name = text.rpartition(":")
    found = getattr(_module(place, text), name, None) if place else None
    if not isinstance(found, Fused):
        raise ArgumentError(
            f"--fuse {text}: that is not a fused function. Give MODULE:NAME or FILE.py:NAME of a "
            "function under @xtarget.fuse."
        )
    calls: dict[KnownCall, None] = {}
    refused: ArgumentError | None = None
    for dtype in dtypes:
        try:
            made = found.ahead_calls(dtype)
        except ArgumentError as error:
            refused = error
            continue
        for kernel, args, options in made:
            calls[KnownCall(kernel, args, tuple(sorted(options.items())))] = None
    if not calls and refused is not None:
        raise refused
    return list(calls)


def _module(place: str, text: str) -> ModuleType:
    path = Path(place)
    try:
        if path.suffix != ".py":
            return importlib.import_module(place)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ArgumentError(
            f"--fuse {text}: {place} cannot be imported: {type(error).__name__}: {error}."
        ) from error
    return module
