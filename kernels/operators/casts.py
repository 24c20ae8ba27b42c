"""Conversions between dtypes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from xtarget.spec import Call, KernelSpec

from ..plans.elementwise import Elementwise as _plan
from .row import elementwise
from .rules import CAST, CASTABLE, FLOATS_OF_8_BITS

__all__ = ["ROWS"]

_row = partial(elementwise, file="arithmetic", category="cast", function="positive")


def _cast(x: Any, dtype: Any = "float32") -> Any:
    import ml_dtypes
    import numpy as np

    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    wanted = np.dtype(getattr(ml_dtypes, name, name))
    with np.errstate(all="ignore"):
        if name == "float8_e4m3fn":  # which has no infinity
            most = np.float32(448)
            return np.clip(np.asarray(x).astype(np.float32), -most, most).astype(wanted)
        return np.asarray(x).astype(wanted)


def _function(call: Call) -> str:
    """The device function: floats of 8 bits are there as their bits."""
    dtypes = (call.args[0].dtype, CAST(call.rules, [call.args[0].dtype], call.options)[0][0])
    narrow = [d.removeprefix("float8_") if d in FLOATS_OF_8_BITS else "" for d in dtypes]
    if narrow[0] == narrow[1]:
        return "functions.arithmetic:positive"
    if all(narrow):
        return "functions.casts:" + "_to_".join(narrow)
    return f"functions.casts:{f'from_{narrow[0]}' if narrow[0] else f'to_{narrow[1]}'}"


_CAST = _row(
    "cast", "x",
    "x as another dtype; a number beyond an integer dtype gives any value, one beyond "
    "float8_e4m3fn its largest one",
    _cast, "astype convert_element_type to to_copy", rule=CAST, words={"dtype": "float32"},
    exact=True, dtypes=CASTABLE,
)  # fmt: skip

ROWS: tuple[KernelSpec, ...] = (replace(_CAST, plan=_plan(_function, CAST, CASTABLE)),)
