"""Special functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from xtarget.spec import KernelSpec

from .references import of_math, special, written
from .row import elementwise
from .rules import FLOATING, FLOATS

__all__ = ["ROWS"]

_row = partial(
    elementwise,
    file="special",
    category="special",
    rule=FLOATING,
    dtypes=FLOATS,
    tolerance=(16, 0),
)


def _at_infinity(name: str, limit: str) -> Callable[..., Any]:
    """The special function; at the infinities, where libraries differ, its limit."""
    function, at = special(name), written(limit)

    def reference(x: Any) -> Any:
        import numpy as np

        return np.where(np.isinf(x), at(x), function(x))

    return reference


def _digamma(x: Any) -> Any:
    """Below 0 by reflection: next to the pole at -1, SciPy's own loses eight bits."""
    import numpy as np

    of_scipy, part = special("digamma"), np.pi * (x - np.rint(x))
    with np.errstate(all="ignore"):
        below = (x < 0) & (part != 0) & np.isfinite(x)
        return np.where(below, of_scipy(1 - x) - np.pi / np.tan(part), of_scipy(x))


def _ndtr(x: Any) -> Any:
    """With what the quotient loses to rounding put back by the derivative."""
    import numpy as np

    exact = -np.longdouble(x) / np.sqrt(np.longdouble(2))
    z = exact.astype(np.float64)
    with np.errstate(all="ignore"):
        lost = np.where(abs(z) < 50, (exact - z).astype(np.float64), 0)
        return 0.5 * of_math("erfc")(z) - np.exp(-z * z) / math.sqrt(math.pi) * lost


def _log_ndtr(x: Any) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        return np.where(x < -1, special("log_ndtr")(x), np.log1p(-_ndtr(-x)))


_LGAMMA = written(
    "np.where((a <= 0) & (a == np.floor(a)), np.inf, of_math('lgamma')(a))"  # its poles
)

ROWS: tuple[KernelSpec, ...] = (
    _row("erf", "x", "2 / sqrt(pi) times the integral of e**-t**2 from 0 to x", of_math("erf")),
    _row("erfc", "x", "1 - erf(x), exact for large x", of_math("erfc")),
    _row("erfcx", "x", "e**x**2 erfc(x)", special("erfcx"), tolerance=(128, 0)),
    _row("erfinv", "x", "the y with erf(y) = x", special("erfinv")),
    _row("lgamma", "x", "log |gamma(x)|", _LGAMMA, "gammaln",
         tolerance=(32, 32)),
    _row("digamma", "x", "the derivative of lgamma", _digamma, "psi",
         tolerance=(32, 32)),
    _row("ndtr", "x", "the normal distribution: erfc(-x / sqrt 2) / 2",
         _ndtr, "normcdf"),
    _row("log_ndtr", "x", "log of the normal distribution", _log_ndtr,
         tolerance=(32, 0)),
    _row("i0", "x", "the modified Bessel function of order 0",
         _at_infinity("i0", "np.inf"),
         tolerance=(32, 0)),
    _row("i1", "x", "the modified Bessel function of order 1",
         _at_infinity("i1", "a"),
         tolerance=(32, 0)),
)  # fmt: skip
