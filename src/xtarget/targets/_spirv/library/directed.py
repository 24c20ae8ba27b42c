"""NVIDIA's arithmetic that rounds towards zero (rz), down (rd) or up (ru), by exact residuals.

OpenCL rounds to nearest. Here each operation takes significands in [1, 4) and exponents apart, so
that nothing overflows or underflows, computes the nearest result and the exact sign of what that
lost, and moves to the neighbour where the direction asks for it. The exponent is put back last: a
result among the subnormal numbers is rounded once more in the same direction, which together is
what rounding once gives. So is a float's result that comes by way of double.
"""

from __future__ import annotations

import re

from .helpers import builtin, function

__all__ = ["define"]

_NAME = re.compile(r"__nv_([fd])(add|sub|mul|div|rcp|sqrt)_(rz|rd|ru)|__nv_(fmaf?)_(rz|rd|ru)")
_OURS = re.compile(r"xt\.directed\.(\w+?)(?:\.(rz|rd|ru))?")
_CONVERSIONS = {"rz": "rtz", "rd": "rtn", "ru": "rtp"}
_SIGN = -(1 << 63)
_MAGNITUDE = (1 << 63) - 1
_FRACTION = (1 << 52) - 1
_HIDDEN = 1 << 52
_ONE = 1023 << 52
_INFINITY = 0x7FF << 52

#: Of the operands of NVIDIA's function: which of ours, and what it is given.
_OPERANDS = {
    "add": ("fma", "double %a, double 1.0, double %b"),
    "sub": ("fma", "double %a, double 1.0, double %n"),
    "mul": ("mul", "double %a, double %b"),
    "fma": ("fma", "double %a, double %b, double %c"),
    "div": ("div", "double %a, double %b"),
    "rcp": ("div", "double 1.0, double %a"),
    "sqrt": ("sqrt", "double %a"),
}


def define(name: str, _warp_size: int) -> str | None:
    """The definition of `name`, None if it is none of these."""
    if match := _NAME.fullmatch(name):
        operation = "fma" if match[4] else match[2]
        is_float = match[1] == "f" or match[4] == "fmaf"
        return _nvidias(name, operation, match[3] or match[5], is_float)
    if match := _OURS.fullmatch(name):
        write = {
            "exponent": _exponent,
            "significand": _significand,
            "finish": _finish,
            "fma": _fma,
            "mul": _fma,
            "div": _div,
            "sqrt": _sqrt,
        }.get(match[1])
        return write(name, match[2]) if write else None
    return None


def _nvidias(name: str, operation: str, way: str, is_float: bool) -> str:
    count = {"fma": 3, "rcp": 1, "sqrt": 1}.get(operation, 2)
    ours, given = _OPERANDS[operation]
    lines = []
    parameters = [f"double %{x}" for x in "abc"[:count]]
    if is_float:
        parameters = [f"float %{x}.f" for x in "abc"[:count]]
        lines = [f"%{x} = fpext float %{x}.f to double" for x in "abc"[:count]]
    if operation == "sub":
        lines.append("%n = fneg double %b")
    lines.append(f"%r = call double @xt.directed.{ours}.{way}({given})")
    if not is_float:
        return function(name, "double", ", ".join(parameters), *lines, "ret double %r")
    convert = builtin(f"convert_float_{_CONVERSIONS[way]}", "float", "double %r")
    lines += [f"%f = {convert}", "ret float %f"]
    return function(name, "float", ", ".join(parameters), *lines)


#: Whether %a is zero or subnormal, %m its magnitude, and by how much a subnormal one is shifted.
_PARTS = f"""%b = bitcast double %a to i64
    %m = and i64 %b, {_MAGNITUDE}
    %e = lshr i64 %m, 52
    %small = icmp eq i64 %e, 0
    %z = call i64 @llvm.ctlz.i64(i64 %m, i1 false)
    %n = sub i64 %z, 11"""


def _of_parts(name: str, result: str, body: str) -> str:
    """A function of a number `%a`, computed of its `_PARTS`."""
    return function(name, result, "double %a", _PARTS, body)


def _signed(size: str, bits: str) -> str:
    """Return the double whose bits without the sign are `size`, with the sign of `bits`."""
    return f"""%sign = and i64 {bits}, {_SIGN}
        %signed = or i64 {size}, %sign
        %r = bitcast i64 %signed to double
        ret double %r"""


def _exponent(name: str, _way: str) -> str:
    """The power of two of a number; -1075 of 0."""
    return _of_parts(
        name,
        "i64",
        """%normal = sub i64 %e, 1023
        %other = sub i64 -1022, %n
        %r = select i1 %small, i64 %other, i64 %normal
        ret i64 %r""",
    )


def _significand(name: str, _way: str) -> str:
    """A number divided by its power of two, with its sign; 0 of 0."""
    return _of_parts(
        name,
        "double",
        f"""%s = select i1 %small, i64 %n, i64 0
        %shifted = shl i64 %m, %s
        %fraction = and i64 %shifted, {_FRACTION}
        %with = or i64 %fraction, {_ONE}
        %zero = icmp eq i64 %m, 0
        %size = select i1 %zero, i64 0, i64 %with
        {_signed("%size", "%b")}""",
    )


def _finish(name: str, way: str) -> str:
    """(%s + %d) 2^%k in the direction: %s is the nearest number, 0 if that is exact, or normal; of
    %d only the sign counts. Moves away from zero are one more in the bits, to zero one less.
    """
    away = {"rz": "false", "rd": "%negative", "ru": "%positive"}[way]
    return function(
        name,
        "double",
        "double %s, double %d, i64 %k",
        f"""%bits = bitcast double %s to i64
        %rest = bitcast double %d to i64
        %negative = icmp slt i64 %bits, 0
        %positive = xor i1 %negative, true
        %inexact = fcmp one double %d, 0.0
        %differ = xor i64 %bits, %rest
        %inwards = icmp slt i64 %differ, 0
        %outwards = xor i1 %inwards, true
        %up = select i1 %outwards, i1 {away}, i1 false
        %more = select i1 %up, i64 1, i64 0
        %less = select i1 {away}, i64 0, i64 -1
        %move = select i1 %inwards, i64 %less, i64 %more
        %step = select i1 %inexact, i64 %move, i64 0
        %size = and i64 %bits, {_MAGNITUDE}
        %moved = add i64 %size, %step
        %e = lshr i64 %moved, 52
        %t = add i64 %e, %k
        %f = and i64 %moved, {_FRACTION}
        %high = shl i64 %t, 52
        %normal = or i64 %high, %f
        %whole = or i64 %f, {_HIDDEN}
        %short = sub i64 1, %t
        %low = icmp slt i64 %t, 1
        %much = icmp sgt i64 %short, 63
        %some = select i1 %much, i64 63, i64 %short
        %shift = select i1 %low, i64 %some, i64 0
        %cut = lshr i64 %whole, %shift
        %back = shl i64 %cut, %shift
        %lost = icmp ne i64 %back, %whole
        %raise = select i1 %lost, i1 {away}, i1 false
        %one = zext i1 %raise to i64
        %subnormal = add i64 %cut, %one
        %end = select i1 {away}, i64 {_INFINITY}, i64 {_INFINITY - 1}
        %large = icmp sgt i64 %t, 2046
        %upper = select i1 %large, i64 %end, i64 %normal
        %value = select i1 %low, i64 %subnormal, i64 %upper
        %nothing = icmp eq i64 %size, 0
        %result = select i1 %nothing, i64 0, i64 %value
        {_signed("%result", "%bits")}""",
    )


def _special(*names: str) -> str:
    """Return code that sets %special if one of the numbers is 0, infinite or NaN."""
    lines = []
    last = "false"
    for x in names:
        lines.append(
            f"""%{x}.b = bitcast double %{x} to i64
            %{x}.m = and i64 %{x}.b, {_MAGNITUDE}
            %{x}.l = sub i64 %{x}.m, 1
            %{x}.s = icmp uge i64 %{x}.l, {_INFINITY - 1}
            %{x}.any = or i1 {last}, %{x}.s"""
        )
        last = f"%{x}.any"
    return "\n".join([*lines, f"%special = or i1 {last}, false"])


def _split(*names: str) -> str:
    """Of %a: %ma and %ea."""
    return "\n".join(
        f"%m{x} = call double @xt.directed.significand(double %{x})\n"
        f"%e{x} = call i64 @xt.directed.exponent(double %{x})"
        for x in names
    )


def _sum(x: str, y: str, total: str, rest: str) -> str:
    """Knuth's sum of two numbers, with its exact rounding error."""
    t = total
    return f"""{t} = fadd double {x}, {y}
        {t}.y = fsub double {t}, {x}
        {t}.x = fsub double {t}, {t}.y
        {t}.dx = fsub double {x}, {t}.x
        {t}.dy = fsub double {y}, {t}.y
        {rest} = fadd double {t}.dx, {t}.dy"""


def _fma(name: str, way: str) -> str:
    """The product's significands are two numbers exactly, and the third is shifted to them. What is
    2^130 or more apart is brought nearer: it counts by its sign only, there as here.
    """
    product = ".mul." in name
    fma = builtin("fma", "double", "double %a", "double %b", "double %c")
    high = builtin("fma", "double", "double %ma", "double %mb", "double -0.0")
    low = builtin("fma", "double", "double %ma", "double %mb", "double %minus")
    # a sum that is 0 has, rounded down, the sign of one of its parts that is negative
    signs = f"""%ab = xor i64 %a.b, %b.b
        %either = or i64 %ab, %c.w
        %minus0 = and i64 %either, {_SIGN}
        %v.bits = bitcast double %v to i64
        %v.m = and i64 %v.bits, {_MAGNITUDE}
        %none = icmp eq i64 %v.m, 0
        %start.b = bitcast double %s to i64
        %start.m = and i64 %start.b, {_MAGNITUDE}
        %nothing = icmp eq i64 %start.m, 0
        %exact = or i1 %special, %nothing
        %fix = and i1 %exact, %none
        %w.bits = select i1 %fix, i64 %minus0, i64 %v.bits
        %r = bitcast i64 %w.bits to double"""
    plain = "%r = select i1 true, double %v, double %v"
    return function(
        name,
        "double",
        "double %a, double %b" + ("" if product else ", double %c"),
        "%c = bitcast i64 -9223372036854775808 to double" if product else "",
        _special("a", "b"),
        f"""%c.w = bitcast double %c to i64
        %c.size = and i64 %c.w, {_MAGNITUDE}
        %c.end = icmp uge i64 %c.size, {_INFINITY}
        %c.none = icmp eq i64 %c.size, 0
        %native = or i1 %special, %c.end""",
        _split("a", "b", "c"),
        f"""%p = {high}
        %minus = fneg double %p
        %q = {low}
        %e = add i64 %ea, %eb
        %apart = sub i64 %ec, %e
        %far = icmp sgt i64 %apart, 130
        %near = icmp slt i64 %apart, -200
        %d.high = select i1 %far, i64 130, i64 %apart
        %d = select i1 %near, i64 -200, i64 %d.high
        %base.far = sub i64 %ec, 130
        %base.c = select i1 %c.none, i64 %e, i64 %base.far
        %base = select i1 %far, i64 %base.c, i64 %e
        %mc.b = bitcast double %mc to i64
        %d.b = shl i64 %d, 52
        %mc.d = add i64 %mc.b, %d.b
        %mc.t = select i1 %c.none, i64 %c.w, i64 %mc.d
        %t = bitcast i64 %mc.t to double""",
        _sum("%p", "%t", "%u", "%v0"),
        _sum("%v0", "%q", "%x", "%y"),
        _sum("%u", "%x", "%s", "%z"),
        f"""%rest = fadd double %z, %y
        %f = call double @xt.directed.finish.{way}(double %s, double %rest, i64 %base)
        %o = {fma}
        %v = select i1 %native, double %o, double %f""",
        signs if way == "rd" and not product else plain,
        "ret double %r",
    )


def _from_remainder(
    name: str, way: str, operands: str, quotient: str, lines: str, native: str = "%special"
) -> str:
    """A function that is rounded by the sign of a remainder.

    Args:
        operands: their names, a letter each.
        quotient: the value to nearest of the operands' magnitudes.
        lines: make it, the remainder `%d` and the exponent `%k`, and `%o`, which the device gives
            for `native` operands.
    """
    return function(
        name,
        "double",
        ", ".join(f"double %{operand}" for operand in operands),
        _special(*operands),
        _split(*operands),
        lines,
        f"""%f = call double @xt.directed.finish.{way}(double {quotient}, double %d, i64 %k)
        %r = select i1 {native}, double %o, double %f
        ret double %r""",
    )


def _div(name: str, way: str) -> str:
    rest = builtin("fma", "double", "double %minus", "double %mb", "double %ma")
    # the remainder's sign is that of the numerator's side: over b it is the quotient's
    lines = f"""%q = fdiv double %ma, %mb
        %minus = fneg double %q
        %left = {rest}
        %left.b = bitcast double %left to i64
        %sign = and i64 %b.b, {_SIGN}
        %d.b = xor i64 %left.b, %sign
        %d = bitcast i64 %d.b to double
        %k = sub i64 %ea, %eb
        %o = fdiv double %a, %b"""
    return _from_remainder(name, way, "ab", "%q", lines)


def _sqrt(name: str, way: str) -> str:
    lines = f"""%odd = and i64 %ea, 1
        %up = shl i64 %odd, 52
        %m.b = bitcast double %ma to i64
        %x.b = add i64 %m.b, %up
        %x = bitcast i64 %x.b to double
        %s = {builtin("sqrt", "double", "double %x")}
        %minus = fneg double %s
        %d = {builtin("fma", "double", "double %minus", "double %s", "double %x")}
        %even = sub i64 %ea, %odd
        %k = ashr i64 %even, 1
        %o = {builtin("sqrt", "double", "double %a")}
        %below = icmp slt i64 %a.b, 0
        %native = or i1 %special, %below"""
    return _from_remainder(name, way, "a", "%s", lines, native="%native")
