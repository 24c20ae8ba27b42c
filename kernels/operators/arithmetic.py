"""Arithmetic: sums, quotients, remainders, rounding."""

from __future__ import annotations

from functools import partial
from typing import Any

from xtarget.spec import KernelSpec

from .references import numpy, written
from .row import elementwise
from .rules import (
    DIFFERENCE,
    FLOATING,
    FLOATS,
    INTEGERS,
    NUMBERS,
    PROMOTED,
    PROMOTED_TWO,
    QUOTIENT,
    quotient_of,
)

__all__ = ["ROWS"]

_row = partial(elementwise, file="arithmetic")
_number = partial(elementwise, file="arithmetic", dtypes=NUMBERS)


def _trunc_divide(a: Any, b: Any) -> Any:
    """As torch: of the rounded quotient, of half types in float32."""
    import numpy as np

    dtype = np.result_type(a, b)
    if dtype.kind in "iu":
        safe = np.where(b == 0, np.ones_like(b), b)
        return np.where(b == 0, 0, (a - np.fmod(a, safe)) // safe)
    within = np.result_type(dtype, np.float32)
    with np.errstate(all="ignore"):
        return np.trunc(np.asarray(a, within) / np.asarray(b, within)).astype(np.float64)


ROWS: tuple[KernelSpec, ...] = (
    _row("add", "a b", "a + b; for bool: a or b", numpy("add"),
         "AddV2 biasadd BiasAdd add_scalar bias_add"),
    _row("sub", "a b", "a - b", numpy("subtract"), "subtract subtract_scalar sub_scalar",
         rule=DIFFERENCE),
    _row("mul", "a b", "a * b; for bool: a and b", numpy("multiply"),
         "multiply multiply_scalar mul_scalar"),
    # 1000 divides uint8, as NumPy never computes in uint8 here
    _row("div", "a b", "a / b; integers give float64", numpy("divide"),
         "divide true_divide RealDiv divide_scalar div_scalar", rule=QUOTIENT, weak=quotient_of),
    _row("rsub", "a b", "b - a", written("np.subtract(b, a)"),
         "reversesubtract ReverseSubtract reverse_subtract", rule=DIFFERENCE),
    _row("rdiv", "a b", "b / a; integers give float64", written("np.divide(b, a)"),
         "reversedivide ReverseDivide reverse_divide", rule=QUOTIENT, weak=quotient_of),
    _row("maximum", "a b", "the larger of a and b; nan if one is nan", numpy("maximum"),
         "Max max_pairwise clamp_min"),
    _row("minimum", "a b", "the smaller of a and b; nan if one is nan", numpy("minimum"),
         "Min min_pairwise clamp_max"),
    _row("fmax", "a b", "the larger of a and b; the other if one is nan", numpy("fmax")),
    _row("fmin", "a b", "the smaller of a and b; the other if one is nan", numpy("fmin")),
    _number("floor_divide", "a b", "a // b; of integers 0 for b = 0", numpy("floor_divide"),
            "floordiv FloorDiv", tolerance=(4, 0)),  # as NumPy's: (a - what is left) / b is rounded
    _number("trunc_divide", "a b", "a / b without its fraction; of integers 0 for b = 0",
            _trunc_divide,
            "truncatediv TruncateDiv", exact=True),
    _number("remainder", "a b", "a - a // b * b, of b's sign; of integers 0 for b = 0",
            numpy("remainder"), "mod Mod floormod FloorMod floor_mod"),
    _number("fmod", "a b", "what a / b towards 0 leaves, of a's sign; of integers 0 for b = 0",
            numpy("fmod"), "truncatemod TruncateMod"),
    _number("divmod", "a b", "a // b and what it leaves", numpy("divmod"), function="divmod_",
            rule=PROMOTED_TWO, results=2),
    _number("squared_difference", "a b", "(a - b)**2", written("np.square(np.subtract(a, b))"),
            "squaredsubtract SquaredSubtract squared_subtract", tolerance=(2, 0)),
    _number("mul_no_nan", "a b", "a * b; 0 where b is 0, whatever a is",
            written("np.where(b == 0, np.zeros_like(a), a * b)"), "multiply_no_nan"),
    _row("div_no_nan", "a b", "a / b; 0 where b is 0",
         written("np.where(b == 0, 0, a / b)"), "divide_no_nan", rule=QUOTIENT, weak=quotient_of),
    _number("neg", "x", "-x", numpy("negative"), "negative Negative"),
    _row("positive", "x", "x itself", written("a + 0 if a.dtype.kind == 'b' else +a"),
         "identity Identity assign Assign copy alias clone contiguous resolve_conj "
         "resolve_neg", rule=PROMOTED),
    _number("abs", "x", "|x|", numpy("abs"), "absolute fabs", function="abs_"),
    _number("sign", "x", "-1, 0 or 1; nan stays", numpy("sign"), "sgn"),
    _row("reciprocal", "x", "1 / x", written("1 / a"), "Inv", dtypes=FLOATS),
    _number("square", "x", "x * x", numpy("square")),
    _number("floor", "x", "the largest integer that is not above x", numpy("floor")),
    _number("ceil", "x", "the smallest integer that is not below x", numpy("ceil")),
    _number("trunc", "x", "x without its fraction", numpy("trunc"), "fix"),
    _number("round", "x", "the nearest integer, the even one of two", numpy("round"),
            "rint Rint nearbyint", function="round_"),
    _row("frac", "x", "x - trunc x", written("a - np.trunc(a)"), dtypes=FLOATS),
    _row("gcd", "a b", "the greatest common divisor", numpy("gcd"), dtypes=INTEGERS),
    _row("lcm", "a b", "the least common multiple", numpy("lcm"), dtypes=INTEGERS),
    _row("heaviside", "a b", "0 for a < 0, b for a = 0, 1 for a > 0", numpy("heaviside"),
         rule=FLOATING),
)  # fmt: skip
