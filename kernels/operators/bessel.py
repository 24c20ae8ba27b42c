"""Bessel functions of orders 0 and 1.

SciPy's below 25, or where SciPy is not installed, the power series; above, Hankel's expansion,
since SciPy loses digits of a large argument. Not torch's: its `torch.special.bessel_*` of version
2.11 on a CPU are off by up to 8e-7 between 2 and 12 in float64.

Source of the series: Abramowitz and Stegun, 9.1.10, 9.1.11, 9.2.5 to 9.2.10.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from xtarget.spec import KernelSpec

from .row import elementwise
from .rules import FLOATING, FLOATS

__all__ = ["ROWS", "first_kind", "second_kind"]

_EULER = 0.57721566490153286
#: From where on the expansion for large arguments has an error below 1e-17.
_FAR = 25.0
#: Terms of the power series below `_FAR`, of the expansion above; bits of the series' sums.
_TERMS, _FAR_TERMS, _BITS = 80, 12, 256


def _sums(order: int, x: float) -> tuple[float, float]:
    """The sums of (-x*x/4)**k / (k! (k + order)!) without and with the weights H(k) + H(k + order),
    which are harmonic numbers. In whole numbers: the terms are up to 1e9 times as large as a sum.
    """
    one = 1 << _BITS
    numerator, denominator = x.as_integer_ratio()
    square = numerator * numerator * one // (4 * denominator * denominator)
    term, weight = one, one * order
    plain, weighted = term, weight
    for k in range(1, _TERMS):
        term = -term * square // (one * k * (k + order))
        weight += one // k + one // (k + order)
        plain += term
        weighted += term * weight // one
    return plain / one, weighted / one


def _first_near(order: int, x: float) -> float:
    return float((x / 2) ** order * _sums(order, x)[0])


def _second_near(order: int, x: float) -> float:
    if x <= 0:
        return -math.inf if x == 0 else math.nan
    plain, weighted = _sums(order, x)
    log = 2 * (math.log(x) - math.log(2) + _EULER)
    near = (x / 2) ** order * (log * plain - weighted) / math.pi
    return near - 2 / math.pi / x if order else near


def _far(order: int, x: Any) -> tuple[Any, Any]:
    """J and Y of arguments of `_FAR` or more."""
    import numpy as np

    sums, factor = [np.zeros_like(x), np.zeros_like(x)], np.ones_like(x)
    for k in range(2 * _FAR_TERMS):
        sums[k % 2] += factor * (-1) ** (k // 2)
        factor = factor * (4 * order**2 - (2 * k + 1) ** 2) / (8 * (k + 1) * x)
    p, q = sums
    sine, cosine = np.sin(x), np.cos(x)
    along, across = (sine - cosine, -(sine + cosine)) if order else (cosine + sine, sine - cosine)
    size = 1 / np.sqrt(np.pi * x)
    return size * (p * along - q * across), size * (p * across + q * along)


def _joined(name: str, near: Callable[[float], float], kind: int, x: Any) -> Any:
    """One of the functions: by `near`, or SciPy's, below `_FAR`, and its limit at infinity."""
    import numpy as np

    x = np.asarray(x, np.float64)
    try:
        function = getattr(importlib.import_module("scipy.special"), name)
    except ImportError:
        function = np.vectorize(near, otypes=[np.float64])
    with np.errstate(all="ignore"):
        size = np.abs(x) if kind == 0 else x
        far = _far(int(name[1]), np.where((size >= _FAR) & np.isfinite(x), size, _FAR))[kind]
        far = np.where(np.isinf(x), 0.0, far)
        if name == "j1":
            far = np.copysign(1, x) * far
        value = np.where(size < _FAR, function(np.where(size < _FAR, x, 1.0)), far)
        return np.where(np.isnan(x), np.nan, value)


def first_kind(order: int) -> Callable[[Any], Any]:
    """J of order 0 or 1."""
    return partial(_joined, f"j{order}", partial(_first_near, order), 0)


def second_kind(order: int) -> Callable[[Any], Any]:
    """Y of order 0 or 1: -inf at 0, NaN below."""
    return partial(_joined, f"y{order}", partial(_second_near, order), 1)


def _row(name: str, kind: str, reference: Callable[[Any], Any]) -> KernelSpec:
    return elementwise(
        name,
        "x",
        f"the Bessel function of the {kind} kind, order {name[1]}",
        reference,
        f"bessel_{name}",
        file="bessel",
        category="special",
        rule=FLOATING,
        dtypes=FLOATS,
        tolerance=(32, 32),
    )


ROWS: tuple[KernelSpec, ...] = (
    *(_row(f"j{order}", "first", first_kind(order)) for order in (0, 1)),
    *(_row(f"y{order}", "second", second_kind(order)) for order in (0, 1)),
)
