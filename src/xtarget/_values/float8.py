"""Floats of 8 bits: what Triton calls them, and what to do where they are not taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["FLOAT8", "first_cast", "way_out"]

#: NumPy's (ml_dtypes) and torch's names, with those of `triton.language`.
FLOAT8: Final[Mapping[str, str]] = {
    "float8_e4m3fn": "float8e4nv",
    "float8_e4m3fnuz": "float8e4b8",
    "float8_e5m2": "float8e5",
    "float8_e5m2fnuz": "float8e5b16",
}


def way_out(dtype: str, view: str, otherwise: str) -> str:
    """The advice for an array of this dtype, which kernels do not take."""
    kind = FLOAT8.get(dtype)
    if kind is None:
        return otherwise
    return f"Give its bits, {view}; a kernel reads them by .to(tl.{kind}, bitcast=True)."


def first_cast(dtype: str) -> str:
    """The advice for an array of this dtype, with which a kernel does not compute."""
    if dtype in FLOAT8:
        return 'Cast it to float16 first: xtarget.run("cast", x, dtype="float16").'
    return "Convert the array first."
