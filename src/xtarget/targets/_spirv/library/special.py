"""Special functions that OpenCL does not have: erfinv, erfcinv, normcdfinv, erfcx, and Bessel's i0,
i1, j0, j1, y0, y1.

In float and double alike, from Chebyshev series; in float the terms that it cannot show are left
out. Errors: a few units in the last place of the value, for j and y of the larger of value and
sqrt(2/(pi x)), since they have zeros.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence

from . import special_tables as tables
from .helpers import builtin, function

__all__ = ["define"]

_NAME = re.compile(r"__ocml_(erfinv|erfcinv|normcdfinv|erfcx|i0|i1|j0|j1|y0|y1)_(f32|f64)")


class _Code:
    """Instructions of one type that are being written."""

    def __init__(self, type_: str) -> None:
        self.type = type_
        self.lines: list[str] = []

    def emit(self, instruction: str) -> _Value:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"{name} = {instruction}")
        return _Value(self, name)

    def operand(self, value: _Value | float) -> str:
        if isinstance(value, _Value):
            return value.name
        if self.type == "float" and math.isfinite(value):  # LLVM wants an exact float
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"

    def call(self, name: str, x: _Value) -> _Value:
        return self.emit(builtin(name, self.type, f"{self.type} {x.name}"))

    def choose(self, condition: str, yes: _Value | float, no: _Value | float) -> _Value:
        a, b = self.operand(yes), self.operand(no)
        return self.emit(f"select i1 {condition}, {self.type} {a}, {self.type} {b}")

    def series(self, coefficients: Sequence[float], t: _Value) -> _Value:
        """A Chebyshev series at t in [-1, 1], by Clenshaw's recurrence."""
        smallest = 2.0**-28 if self.type == "float" else 0.0
        used = [c for c in coefficients if abs(c) > smallest * max(map(abs, coefficients))]
        last, before = self.emit(f"fadd {self.type} {self.operand(used[-1])}, 0.0"), None
        double = t + t
        for c in reversed(used[1:-1]):
            now = double * last + c if before is None else double * last - (before - c)
            last, before = now, last
        return t * last + used[0] if before is None else t * last - (before - used[0])


class _Value:
    """A number in the code."""

    def __init__(self, code: _Code, name: str) -> None:
        self.code = code
        self.name = name

    def _binary(self, operation: str, left: _Value | float, right: _Value | float) -> _Value:
        code = self.code
        a, b = code.operand(left), code.operand(right)
        return code.emit(f"{operation} {code.type} {a}, {b}")

    def __add__(self, other: _Value | float) -> _Value:
        return self._binary("fadd", self, other)

    def __radd__(self, other: float) -> _Value:
        return self._binary("fadd", other, self)

    def __sub__(self, other: _Value | float) -> _Value:
        return self._binary("fsub", self, other)

    def __rsub__(self, other: float) -> _Value:
        return self._binary("fsub", other, self)

    def __mul__(self, other: _Value | float) -> _Value:
        return self._binary("fmul", self, other)

    def __truediv__(self, other: _Value | float) -> _Value:
        return self._binary("fdiv", self, other)

    def __rtruediv__(self, other: float) -> _Value:
        return self._binary("fdiv", other, self)

    def __neg__(self) -> _Value:
        return self.code.emit(f"fneg {self.code.type} {self.name}")

    def __lt__(self, other: float) -> str:
        return self._binary("fcmp olt", self, other).name

    def same(self, other: float) -> str:
        """Return the name of a value that is true if the number equals `other`."""
        return self._binary("fcmp oeq", self, other).name


def define(name: str, _warp_size: int) -> str | None:
    """The definition of `name`, None if it is none of these."""
    match = _NAME.fullmatch(name)
    if not match:
        return None
    code = _Code("float" if match[2] == "f32" else "double")
    result = _FUNCTIONS[match[1]](code, _Value(code, "%x"))
    lines = [*code.lines, f"ret {code.type} {result.name}"]
    return function(name, code.type, f"{code.type} %x", *lines)


def _erfinv(c: _Code, x: _Value) -> _Value:
    w = -c.call("log", (1.0 - x) * (1.0 + x))
    root = c.call("sqrt", w)
    ratio = _erfinv_ratio(c, w, root)
    if c.type == "double":  # a float is never that close to 1
        ratio = c.choose(root < 4.15, ratio, _erfinv_far(c, root))
    return c.choose(c.call("fabs", x).same(1.0), x * math.inf, x * ratio)


def _erfinv_ratio(c: _Code, w: _Value, root: _Value) -> _Value:
    """erfinv(x) / x by w = -log(1 - x*x), below 4.15**2."""
    near = c.series(tables.ERFINV_NEAR, w * 0.4 - 1.0)
    return c.choose(w < 5.0, near, c.series(tables.ERFINV_MID, root - 3.2))


def _erfinv_far(c: _Code, root: _Value) -> _Value:
    """The same from there to 6.2**2."""
    return c.series(tables.ERFINV_FAR, (root - 5.15) * (1 / 1.05))


def _erfcinv(c: _Code, x: _Value) -> _Value:
    """erfinv(1 - x), from x itself where 1 - x has lost it."""
    w = -c.call("log", x * (2.0 - x))
    root = c.call("sqrt", c.choose(w < 0.0, 0.0, w))
    tail = c.series(tables.ERFINV_TAIL, (root - 16.75) * (1 / 10.65))
    outer = c.choose(root < 6.15, _erfinv_far(c, root), tail)
    ratio = c.choose(root < 4.15, _erfinv_ratio(c, w, root), outer)
    value = c.choose(x.same(0.0), math.inf, (1.0 - x) * ratio)
    value = c.choose(x.same(2.0), -math.inf, value)
    return c.choose(x < 0.0, math.nan, c.choose(-x < -2.0, math.nan, value))


def _normcdfinv(c: _Code, x: _Value) -> _Value:
    return _erfcinv(c, x + x) * -math.sqrt(2)


def _erfcx(c: _Code, x: _Value) -> _Value:
    """On the negative side 2 exp(x*x) - erfcx(-x), where the square's rounding is made good."""
    size = c.call("fabs", x)
    right = c.series(tables.ERFCX, 1.0 - 7.5 / (size + 3.75)) / (size + 3.75)
    square = size * size
    arguments = f"{c.type} {size.name}, {c.type} {size.name}, {c.type} {(-square).name}"
    suffix = "f32" if c.type == "float" else "f64"
    lost = c.emit(f"call {c.type} @llvm.fma.{suffix}({arguments})")
    power = c.call("exp", square)
    power = c.choose(power.same(math.inf), power, power + power * lost)
    left = (power + power) - right
    return c.choose(x < 0.0, left, right)


def _modified(order: int) -> Callable[[_Code, _Value], _Value]:
    near_table = (tables.I0_NEAR, tables.I1_NEAR)[order]
    far_table = (tables.I0_FAR, tables.I1_FAR)[order]

    def write(c: _Code, x: _Value) -> _Value:
        size = c.call("fabs", x)
        half = c.call("exp", size * 0.5)  # exp(x) itself overflows before the function does
        near = c.series(near_table, size * 0.25 - 1.0)
        if order:
            near = near * size
        far = c.series(far_table, 16.0 / size - 1.0) / c.call("sqrt", size)
        value = half * c.choose(size < 8.0, near, far) * half
        value = c.choose(size.same(math.inf), math.inf, value)
        return c.choose(x < 0.0, -value, value) if order else value

    return write


def _waves(c: _Code, order: int, x: _Value) -> tuple[_Value, _Value]:
    """J and Y of an argument of 8 or more."""
    t = 8.0 / x
    z = t * t * 2.0 - 1.0
    p = c.series((tables.P0, tables.P1)[order], z)
    q = c.series((tables.Q0, tables.Q1)[order], z) * t
    # sine and cosine of x - pi/4 by those of x, which lose nothing for large x
    sine, cosine = c.call("sin", x), c.call("cos", x)
    if order == 0:
        cos_w, sin_w = cosine + sine, sine - cosine
    else:
        cos_w, sin_w = sine - cosine, -(sine + cosine)
    size = c.call("sqrt", (1 / math.pi) / x)
    first, second = size * (p * cos_w - q * sin_w), size * (p * sin_w + q * cos_w)
    end = x.same(math.inf)
    return c.choose(end, 0.0, first), c.choose(end, 0.0, second)


def _first_kind(order: int) -> Callable[[_Code, _Value], _Value]:
    def write(c: _Code, x: _Value) -> _Value:
        size = c.call("fabs", x)
        near = c.series((tables.J0, tables.J1)[order], size * size * (1 / 32) - 1.0)
        if order:
            near = near * size
        value = c.choose(size < 8.0, near, _waves(c, order, size)[0])
        return c.choose(x < 0.0, -value, value) if order else value

    return write


def _second_kind(order: int) -> Callable[[_Code, _Value], _Value]:
    def write(c: _Code, x: _Value) -> _Value:
        t = x * x * (1 / 32) - 1.0
        first = c.series((tables.J0, tables.J1)[order], t)
        rest = c.series((tables.Y0, tables.Y1)[order], t)
        log = c.call("log", x)
        if order == 0:
            near = log * first * (2 / math.pi) + rest
        else:
            near = (log * first * (2 / math.pi) + rest) * x - (2 / math.pi) / x
        value = c.choose(x < 8.0, near, _waves(c, order, x)[1])
        value = c.choose(x < 0.0, math.nan, value)
        return c.choose(x.same(0.0), -math.inf, value)

    return write


_FUNCTIONS: dict[str, Callable[[_Code, _Value], _Value]] = {
    "erfinv": _erfinv,
    "erfcinv": _erfcinv,
    "normcdfinv": _normcdfinv,
    "erfcx": _erfcx,
    "i0": _modified(0),
    "i1": _modified(1),
    "j0": _first_kind(0),
    "j1": _first_kind(1),
    "y0": _second_kind(0),
    "y1": _second_kind(1),
}
