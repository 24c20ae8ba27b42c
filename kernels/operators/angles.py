"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

from functools import partial

from xtarget.spec import KernelSpec

from .references import numpy, written
from .row import elementwise
from .rules import FLOATING, FLOATING_AS_IT_IS, FLOATING_TWO

__all__ = ["ROWS"]

_row = partial(elementwise, file="angles", rule=FLOATING, tolerance=(8, 0))

#: By what an even number leaves, so that no argument is too large.
_sinc = written(
    "np.where(a == 0, 1.0, np.sin(np.pi * (a - 2 * np.rint(a / 2)))"
    " / np.where(a == 0, 1, np.pi * a))"
)

ROWS: tuple[KernelSpec, ...] = (
    _row("sin", "x", "the sine of x radians", numpy("sin")),
    _row("cos", "x", "the cosine of x radians", numpy("cos")),
    _row("sincos", "x", "the sine and the cosine of x radians", written("np.sin(a), np.cos(a)"),
         rule=FLOATING_TWO, results=2),
    _row("tan", "x", "the tangent of x radians", numpy("tan")),
    _row("asin", "x", "the angle of which x is the sine", numpy("arcsin"), "arcsin"),
    _row("acos", "x", "the angle of which x is the cosine", numpy("arccos"), "arccos"),
    _row("atan", "x", "the angle of which x is the tangent", numpy("arctan"), "arctan"),
    _row("atan2", "a b", "the angle of the point (b, a)", numpy("arctan2"), "arctan2"),
    _row("sinh", "x", "the hyperbolic sine", numpy("sinh")),
    _row("cosh", "x", "the hyperbolic cosine", numpy("cosh")),
    _row("tanh", "x", "the hyperbolic tangent", numpy("tanh"), rule=FLOATING_AS_IT_IS),
    _row("asinh", "x", "the inverse hyperbolic sine", numpy("arcsinh"), "arcsinh"),
    _row("acosh", "x", "the inverse hyperbolic cosine", numpy("arccosh"), "arccosh"),
    _row("atanh", "x", "the inverse hyperbolic tangent", numpy("arctanh"), "arctanh"),
    _row("sinc", "x", "sin(pi x) / (pi x)", _sinc, tolerance=(8, 8)),
    _row("degrees", "x", "180 x / pi", numpy("degrees"), "rad2deg"),
    _row("radians", "x", "pi x / 180", numpy("radians"), "deg2rad"),
    _row("angle", "x", "of a real number: pi if it is negative, else 0", written(
        "np.where(a != a, a, np.where(np.signbit(a), np.pi, 0.0))"), "arg"),
)  # fmt: skip
