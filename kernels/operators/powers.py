"""Powers, roots, exponentials and logarithms."""

from __future__ import annotations

from functools import partial

from xtarget.spec import KernelSpec

from .references import numpy, written
from .row import elementwise
from .rules import FLOAT64, FLOATING, FLOATS, NUMBERS, PROMOTED

__all__ = ["ROWS"]

_row = partial(elementwise, file="powers", rule=FLOATING, tolerance=(8, 0))

ROWS: tuple[KernelSpec, ...] = (
    _row("exp", "x", "e ** x", numpy("exp")),
    _row("exp2", "x", "2 ** x", numpy("exp2")),
    _row("expm1", "x", "e ** x - 1, exact for small x", numpy("expm1")),
    _row("log", "x", "the natural logarithm", numpy("log"), "ln"),
    _row("log2", "x", "the logarithm to base 2", numpy("log2")),
    _row("log10", "x", "the logarithm to base 10", numpy("log10")),
    _row("log1p", "x", "log(1 + x), exact for small x", numpy("log1p")),
    _row("sqrt", "x", "the square root", numpy("sqrt"), tolerance=(0, 0)),
    _row("rsqrt", "x", "1 / sqrt(x)", written("1 / np.sqrt(a)")),
    _row("cbrt", "x", "the cube root", numpy("cbrt")),
    _row("pow", "a b", "a ** b; of integers 0 for b < 0, but for a of 1 and -1", numpy("power"),
         "power", function="pow_", rule=PROMOTED, dtypes=NUMBERS, tolerance=(32, 0)),
    _row("float_power", "a b", "a ** b in float64", numpy("float_power"), function="pow_",
         rule=FLOAT64, tolerance=(32, 0)),
    _row("hypot", "a b", "sqrt(a * a + b * b) without overflow", numpy("hypot")),
    _row("logaddexp", "a b", "log(e**a + e**b) without overflow", numpy("logaddexp"),
         tolerance=(8, 8)),
    _row("logaddexp2", "a b", "log2(2**a + 2**b) without overflow", numpy("logaddexp2"),
         tolerance=(8, 8)),
    _row("xlogy", "a b", "a log b; 0 for a = 0", written(
        "np.where((a == 0) & (b == b), 0.0, a * np.log(b))"), dtypes=FLOATS),
    _row("xlog1py", "a b", "a log(1 + b); 0 for a = 0", written(
        "np.where((a == 0) & (b == b), 0.0, a * np.log1p(b))"), dtypes=FLOATS),
    _row("entr", "x", "-x log x; 0 for 0, -inf below", written(
        "np.where(a < 0, -np.inf, np.where(a == 0, 0.0, -a * np.log(a)))"), dtypes=FLOATS),
    _row("rel_entr", "a b", "a log(a / b); 0 for a = 0, inf where a or b is negative", written(
        "np.where((a != a) | (b != b), np.nan, np.where((a > 0) & (b > 0), a * np.log(a / b),"
        " np.where((a == 0) & (b >= 0), 0.0, np.inf)))"), dtypes=FLOATS, tolerance=(16, 16)),
    _row("logit", "x", "log(x / (1 - x)), with x within eps and 1 - eps unless eps < 0", written(
        "np.log((lambda p: p / (1 - p))(np.where(eps >= 0, np.clip(a, eps, 1 - eps), a)))"),
        dtypes=FLOATS, numbers={"eps": -1.0}, tolerance=(8, 8)),
)  # fmt: skip
