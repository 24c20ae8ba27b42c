"""The words for dtypes in annotations: NumPy's names, groups of them, and free names that arrays of
one dtype share."""

from __future__ import annotations

from typing import Final

from .._values.float8 import FLOAT8, way_out
from .._values.types import COMPUTED, DTYPES

__all__ = ["GROUPS", "no_dtype"]

GROUPS: Final = {
    "floating": frozenset(name for name in COMPUTED if DTYPES[name].kind == "f"),
    "integer": frozenset(d.name for d in DTYPES.values() if d.kind in "iu"),
    "any": frozenset(DTYPES),
}


def no_dtype(word: str) -> str:
    """Why a word is neither a dtype nor a free name, to follow it in a sentence; "": it is one."""
    if word in DTYPES or word in GROUPS:
        return ""
    if word in FLOAT8:
        return f"which kernels do not take. {way_out(word, 'uint8', '')}"
    import difflib

    near = difflib.get_close_matches(word, [*DTYPES, *GROUPS], 1, 0.8)
    return f"which is none. Did you mean {near[0]}?" if near else ""
