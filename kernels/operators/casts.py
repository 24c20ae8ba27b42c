"""Conversions between dtypes."""

from __future__ import annotations

from functools import partial
from typing import Any

from xtarget.spec import KernelSpec

from .row import elementwise
from .rules import CAST

__all__ = ["ROWS"]

_row = partial(elementwise, file="arithmetic", category="cast", function="positive")


def _cast(x: Any, dtype: Any = "float32") -> Any:
    import ml_dtypes
    import numpy as np

    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


ROWS: tuple[KernelSpec, ...] = (
    _row("cast", "x", "x as another dtype; a number beyond an integer dtype gives any value",
         _cast, "astype convert_element_type to to_copy", rule=CAST, words={"dtype": "float32"},
         exact=True),
)  # fmt: skip
