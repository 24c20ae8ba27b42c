"""Operators of three and more operands, and of one and limits."""

from __future__ import annotations

from functools import partial
from typing import Any

from xtarget.spec import KernelSpec

from .references import numpy, written
from .row import elementwise, moving
from .rules import AS_IT_IS, FILLED, FLOATS, NUMBERS, SELECTED, SELECTED_BY_BOOL

__all__ = ["ROWS"]

_row = partial(elementwise, file="selection", category="ternary")
_float = partial(_row, dtypes=FLOATS)


def _clip(x: Any, low: Any = None, high: Any = None) -> Any:
    import numpy as np

    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _nan_to_num(x: Any, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    import ml_dtypes
    import numpy as np

    most = float(ml_dtypes.finfo(x.dtype).max)
    top, bottom = (m if given is None else given for given, m in ((posinf, most), (neginf, -most)))
    wide = np.asarray(x, np.float64)
    found = np.where(np.isinf(wide), np.where(wide > 0, top, bottom), wide)
    return np.where(np.isnan(wide), nan, found)


ROWS: tuple[KernelSpec, ...] = (
    *moving((
        _row("where", "condition a b", "a where condition, else b", numpy("where"),
             "where_np WhereNp", rule=SELECTED, apart=("condition",), masks=("a",)),
        _row("select", "condition a b", "where, of a condition that is bool. torch's select(x, "
             "dim, index) is a view, of x.select(dim, index) or x[:, index]", numpy("where"),
             function="where", rule=SELECTED_BY_BOOL, apart=("condition",), masks=("a",)),
    )),
    _row("masked_fill", "x condition value", "value where condition, else x, of the dtype of x",
         written("np.where(b, c, a)"), "masked_fill_", function="fill", rule=FILLED,
         apart=("condition",), masks=("b",)),
    _row("clip", "x low? high?", "min(max(x, low), high), with one limit or both; nan if one is "
         "nan", _clip, "clamp ClipByValue clip_by_value", dtypes=NUMBERS, by_given={
             (True, True, True): "selection:clip", (True, True, False): "arithmetic:maximum",
             (True, False, True): "arithmetic:minimum"}),
    _float("lerp", "a b weight", "a + weight (b - a), from the nearer end, so that both are exact",
           written("np.where(np.abs(c) < 0.5, a + c * (b - a), b - (b - a) * (1 - c))"),
           tolerance=(8, 8)),
    _row("fma", "a b c", "a * b + c, of floating numbers with one rounding", written(
        "a * b + c if np.result_type(a, b, c).kind != 'f' else"
        " (np.longdouble(a) * b + c).astype(np.float64)"), "multiply_add", dtypes=NUMBERS,
        tolerance=(1, 0)),
    _float("addcmul", "a b c", "a + value b c", written("a + value * b * c"),
           numbers={"value": 1.0}, tolerance=(8, 8)),
    _float("addcdiv", "a b c", "a + value b / c", written("a + value * b / c"),
           numbers={"value": 1.0}, tolerance=(8, 8)),
    _float("nan_to_num", "x", "x; other values for nan and the infinities (None: the largest)",
           _nan_to_num, rule=AS_IT_IS, exact=True,
           numbers={"nan": 0.0, "posinf": None, "neginf": None}),
)  # fmt: skip
