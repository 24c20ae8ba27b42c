"""Floats of 8 bits: kernels take their bits as uint8, and read them in Triton's types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["FLOAT8", "way_out"]

#: NumPy's (ml_dtypes) and torch's names, with those of `triton.language`.
FLOAT8: Final[Mapping[str, str]] = {
    "float8_e4m3fn": "float8e4nv",
    "float8_e4m3fnuz": "float8e4b8",
    "float8_e5m2": "float8e5",
    "float8_e5m2fnuz": "float8e5b16",
}


def way_out(dtype: str, view: str, otherwise: str) -> str:
    """What to do with an array of this dtype, which kernels do not take."""
    kind = FLOAT8.get(dtype)
    if kind is None:
        return otherwise
    return f"Give its bits, {view}; a kernel reads them by .to(tl.{kind}, bitcast=True)."
