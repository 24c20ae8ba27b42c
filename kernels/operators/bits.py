"""Bits of integers, and parts of floating numbers."""

from __future__ import annotations

from functools import partial

from xtarget.spec import KernelSpec

from .references import numpy
from .row import elementwise
from .rules import AS_IT_IS, BITS, COUNTED, FLOATING, FLOATING_TWO, FLOATS, FREXP, INTEGERS, SCALED

__all__ = ["ROWS"]

_row = partial(elementwise, file="bits", category="bits", rule=AS_IT_IS)
_float = partial(elementwise, file="bits", category="bits", dtypes=FLOATS)

ROWS: tuple[KernelSpec, ...] = (
    _row("bitwise_and", "a b", "a & b", numpy("bitwise_and"), dtypes=BITS),
    _row("bitwise_or", "a b", "a | b", numpy("bitwise_or"), dtypes=BITS),
    _row("bitwise_xor", "a b", "a ^ b", numpy("bitwise_xor"), dtypes=BITS),
    _row("bitwise_not", "x", "~x; for bool: not x", numpy("invert"),
         "bitwise_invert invert toggle_bits", dtypes=BITS),
    _row("left_shift", "a b", "a << b; 0 where b is negative or a's width", numpy("left_shift"),
         "bitwise_left_shift shift_bits lshift", dtypes=INTEGERS),
    _row("right_shift", "a b", "a >> b; the sign where b is negative or a's width",
         numpy("right_shift"), "bitwise_right_shift rshift_bits RShiftBits rshift",
         dtypes=INTEGERS),
    _row("bit_count", "x", "the number of one bits of |x|", numpy("bitwise_count"),
         "bitwise_count population_count PopulationCount", dtypes=INTEGERS, rule=COUNTED),
    _float("copysign", "a b", "|a| with b's sign", numpy("copysign"), rule=FLOATING),
    _float("nextafter", "a b", "the next number from a towards b", numpy("nextafter"),
           rule=AS_IT_IS, exact=True),
    _float("ldexp", "x exponent", "x * 2**exponent", numpy("ldexp"), rule=SCALED, tolerance=(1, 0),
           apart=("exponent",), dtypes=(*FLOATS, "int8", "int16", "int32")),
    _float("frexp", "x", "m and e of x = m * 2**e with 0.5 <= |m| < 1", numpy("frexp"),
           rule=FREXP, results=2),
    _float("modf", "x", "fraction and whole part, both of x's sign", numpy("modf"),
           rule=FLOATING_TWO, results=2),
)  # fmt: skip
