"""Comparisons, tests of one element, logic: their results are bool."""

from __future__ import annotations

from functools import partial
from typing import Any

from xtarget.spec import KernelSpec

from .references import numpy
from .row import elementwise
from .rules import COMPARED, NEAR, PREDICATE

__all__ = ["ROWS"]

_compare = partial(elementwise, file="comparisons", category="comparison", rule=COMPARED)
_test = partial(elementwise, file="comparisons", category="comparison", rule=PREDICATE)
_logic = partial(elementwise, file="comparisons", category="logical", rule=PREDICATE)


def _isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    import numpy as np

    return np.isclose(a, b, rtol, atol, bool(equal_nan))


ROWS: tuple[KernelSpec, ...] = (
    _compare("eq", "a b", "a == b", numpy("equal"), "equal equals Equals"),
    _compare("ne", "a b", "a != b", numpy("not_equal"), "not_equal not_equals NotEquals"),
    _compare("lt", "a b", "a < b", numpy("less"), "less Less"),
    _compare("le", "a b", "a <= b", numpy("less_equal"), "less_equal LessOrEqual"),
    _compare("gt", "a b", "a > b", numpy("greater"), "greater Greater"),
    _compare("ge", "a b", "a >= b", numpy("greater_equal"), "greater_equal GreaterOrEqual"),
    _compare("isclose", "a b", "|a - b| <= atol + rtol |b|, or equal; nan is near to nan with "
             "equal_nan", _isclose, rule=NEAR,
             numbers={"rtol": 1e-5, "atol": 1e-8},
             chosen=("equal_nan", {False: "isclose", True: "isclose_nan"}),
             flags={"equal_nan": "1: nan is near to nan"}),
    _test("isnan", "x", "x is nan", numpy("isnan"), "is_nan IsNaN"),
    _test("isinf", "x", "x is infinite", numpy("isinf"), "is_inf"),
    _test("isposinf", "x", "x is +infinity", numpy("isposinf")),
    _test("isneginf", "x", "x is -infinity", numpy("isneginf")),
    _test("isfinite", "x", "x is neither infinite nor nan", numpy("isfinite"), "is_finite"),
    _test("signbit", "x", "x is negative, -0 and -nan too", numpy("signbit")),
    _logic("logical_and", "a b", "a and b", numpy("logical_and"), "boolean_and And"),
    _logic("logical_or", "a b", "a or b", numpy("logical_or"), "boolean_or Or"),
    _logic("logical_xor", "a b", "one of a and b", numpy("logical_xor"), "boolean_xor Xor"),
    _logic("logical_not", "x", "not x", numpy("logical_not"), "boolean_not bool_not Not"),
)  # fmt: skip
