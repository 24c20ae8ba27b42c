"""NVIDIA's libdevice (`__nv_*`): kernels reach it where AMD's module lacks a name, and by writing
`tl.extra.cuda.libdevice`. What AMD's library has by the same meaning is defined as there, and the
rest where OpenCL or LLVM have a counterpart.

Arithmetic that rounds in a direction is in `directed`, and `jn` and `yn` are in `bessel`. Not here,
so refused by name: `rcp64h`, an approximation that has no definition but NVIDIA's hardware.
"""

from __future__ import annotations

import re

from . import libdevice_amd, special
from .helpers import builtin, function, named_byte, of_row

__all__ = ["define"]

_FLOAT, _DOUBLE = "float", "double"

#: Functions of one float type that OpenCL has by the same meaning: name, OpenCL's, operands. A name
#: ending with f is of float, the one without of double.
_SAME = {
    **{name: (name, 1) for name in ("sinpi", "cospi", "exp10", "cbrt", "tgamma", "logb")},
    **{name: (name, 2) for name in ("remainder", "fdim")},
}
_FAST = {
    **{f"{n}f": (n, 1) for n in ("sin", "cos", "tan", "log2", "log", "log10", "exp", "exp10")},
    "powf": ("pow", 2),
}

#: Functions that AMD's library has: its name, where it is another one. Tests of doubles end with d.
_AMDS = {
    "cyl_bessel_i0": "i0",
    "cyl_bessel_i1": "i1",
    "powi": "pown",
    "finite": "isfinite",
}
_COUNTS = {"clz": "clz", "popc": "popcount"}


def _first_set(type_: str, narrowed: str = "", zeros: str = "%n") -> tuple[str, str, str]:
    """The number of the first bit that is set, from 1 on; 0 where none is."""
    body = f"""%n = call {type_} @llvm.cttz.{type_}({type_} %a, i1 false)
        {narrowed}%p = add i32 {zeros}, 1
        %z = icmp eq {type_} %a, 0
        %r = select i1 %z, i32 0, i32 %p"""
    return "i32", f"{type_} %a", body


#: Bodies by name: result, parameters, lines. The last line's value is %r.
_BODIES = {
    "brev": ("i32", "i32 %a", "%r = call i32 @xt.bitreverse.i32(i32 %a)"),
    "brevll": ("i64", "i64 %a", "%r = call i64 @xt.bitreverse.i64(i64 %a)"),
    "ffs": _first_set("i32"),
    "ffsll": _first_set("i64", "%s = trunc i64 %n to i32\n", "%s"),
    "mul24": (
        "i32",
        "i32 %a, i32 %b",
        """%ah = shl i32 %a, 8
        %x = ashr i32 %ah, 8
        %bh = shl i32 %b, 8
        %y = ashr i32 %bh, 8
        %r = mul i32 %x, %y""",
    ),
    "umul24": (
        "i32",
        "i32 %a, i32 %b",
        "%x = and i32 %a, 16777215\n%y = and i32 %b, 16777215\n%r = mul i32 %x, %y",
    ),
    "fast_fdividef": ("float", "float %a, float %b", "%r = fdiv float %a, %b"),
    # rounded to double and then to float it is what rounding once gives, for all floats
    "frsqrt_rn": (
        "float",
        "float %a",
        f"""%d = fpext float %a to double
        %s = {builtin("sqrt", "double", "double %d")}
        %q = fdiv double 1.0, %s
        %r = fptrunc double %q to float""",
    ),
    "saturatef": (
        "float",
        "float %a",
        """%low = fcmp ogt float %a, 0.0
        %above = select i1 %low, float %a, float 0.0
        %high = fcmp olt float %above, 1.0
        %r = select i1 %high, float %above, float 1.0""",
    ),
    "hiloint2double": (
        "double",
        "i32 %h, i32 %l",
        """%u = zext i32 %h to i64
        %s = shl i64 %u, 32
        %v = zext i32 %l to i64
        %b = or i64 %s, %v
        %r = bitcast i64 %b to double""",
    ),
    "double2loint": ("i32", "double %a", "%b = bitcast double %a to i64\n%r = trunc i64 %b to i32"),
    "double2hiint": (
        "i32",
        "double %a",
        "%b = bitcast double %a to i64\n%h = lshr i64 %b, 32\n%r = trunc i64 %h to i32",
    ),
    "double2float_rn": ("float", "double %a", "%r = fptrunc double %a to float"),
    "int_as_float": ("float", "i32 %a", "%r = bitcast i32 %a to float"),
    "uint_as_float": ("float", "i32 %a", "%r = bitcast i32 %a to float"),
    "float_as_int": ("i32", "float %a", "%r = bitcast float %a to i32"),
    "float_as_uint": ("i32", "float %a", "%r = bitcast float %a to i32"),
    "longlong_as_double": ("double", "i64 %a", "%r = bitcast i64 %a to double"),
    "double_as_longlong": ("i64", "double %a", "%r = bitcast double %a to i64"),
}
_INTEGERS = {
    "int": ("i32", True),
    "uint": ("i32", False),
    "ll": ("i64", True),
    "ull": ("i64", False),
}
_ROUND = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}

_TO_INTEGER = re.compile(r"(float|double)2(int|uint|ll|ull)_(rn|rz|rd|ru)")
_FROM_INTEGER = re.compile(r"(int|uint|ll|ull)2(float|double)_rn")
#: Rounded in a direction, as OpenCL's conversions are; of other arithmetic OpenCL has no such form.
_DIRECTED = re.compile(r"(int|uint|ll|ull|double)2(float|double)_(rz|rd|ru)")
_DIRECTIONS = {"rz": "rtz", "rd": "rtn", "ru": "rtp"}
_NEAREST = re.compile(r"([fd])(add|sub|mul|div|rcp|sqrt)_rn")
_FUSED = re.compile(r"fma(f?)_rn")
_NORM = re.compile(r"(r?)(norm3d|norm4d|hypot|cbrt)(f?)")


def define(name: str, _warp_size: int) -> str | None:
    """The definition of `name`, None if the library has no such function here."""
    if not name.startswith("__nv_"):
        return None
    short = name.removeprefix("__nv_")
    if short in _BODIES:
        return of_row(name, _BODIES[short])
    for part in _PARTS:
        if text := part(name, short):
            return text
    return None


def _amds(name: str, short: str) -> str | None:
    """The definition of AMD's function of this meaning."""
    for base, type_ in (
        (short.removesuffix("f"), "f32" if short.endswith("f") else "f64"),
        (short, "f64"),
        (short.removesuffix("d"), "f64"),
    ):
        amds = f"__ocml_{_AMDS.get(base, base)}_{type_}"
        text = libdevice_amd.define(amds, 0) or special.define(amds, 0)
        if text:
            return text.replace(f"@{amds}(", f"@{name}(")
    return None


def _counts(name: str, short: str) -> str | None:
    """Bits of an integer: an `int`, also of a long one."""
    base = short.removesuffix("ll")
    if base not in _COUNTS:
        return None
    type_ = "i64" if short != base else "i32"
    text = libdevice_amd.define(f"__ockl_{_COUNTS[base]}_i{type_[1:]}", 0)
    assert text is not None
    body = [line for line in text.splitlines()[1:-1] if " = " in line]
    if type_ == "i32":
        return function(name, "i32", "i32 %a", *body, "ret i32 %r")
    return function(name, "i32", "i64 %a", *body, "%s = trunc i64 %r to i32", "ret i32 %s")


def _magnitudes(name: str, short: str) -> str | None:
    """Of integers."""
    type_ = {"abs": "i32", "llabs": "i64"}.get(short)
    if type_ is None:
        return None
    lines = [f"%n = sub {type_} 0, %a", f"%c = icmp slt {type_} %a, 0"]
    choice = f"%r = select i1 %c, {type_} %n, {type_} %a"
    return function(name, type_, f"{type_} %a", *lines, choice, f"ret {type_} %r")


def _plain(name: str, short: str) -> str | None:
    base = short.removesuffix("f")
    if short.startswith("fast_"):
        known, type_ = _FAST.get(short.removeprefix("fast_")), _FLOAT
    else:
        known, type_ = _SAME.get(base), _FLOAT if short != base else _DOUBLE
    if known is None:
        return None
    given = [f"{type_} %a{i}" for i in range(known[1])]
    call = builtin(known[0], type_, *given)
    return function(name, type_, ", ".join(given), f"%r = {call}", f"ret {type_} %r")


def _integer_pairs(name: str, short: str) -> str | None:
    unsigned, base = short.startswith("u"), short.removeprefix("u")
    if base not in ("hadd", "rhadd", "mulhi", "mul64hi", "sad"):
        return None
    bits = "64" if base == "mul64hi" else "32"
    type_, given = f"i{bits}", f"{'u' if unsigned else 'i'}{bits}"
    opencl = {"mulhi": "mul_hi", "mul64hi": "mul_hi", "sad": "abs_diff"}.get(base, base)
    call = builtin(opencl, type_, f"{given} %a", f"{given} %b")
    if base != "sad":
        return function(name, type_, f"{type_} %a, {type_} %b", f"%r = {call}", f"ret {type_} %r")
    return function(
        name, type_, "i32 %a, i32 %b, i32 %c", f"%d = {call}", "%r = add i32 %d, %c", "ret i32 %r"
    )


def _conversions(name: str, short: str) -> str | None:
    if match := _FROM_INTEGER.fullmatch(short):
        (integer, signed), type_ = _INTEGERS[match[1]], match[2]
        operation = "sitofp" if signed else "uitofp"
        body = f"%r = {operation} {integer} %a to {type_}"
        return function(name, type_, f"{integer} %a", body, f"ret {type_} %r")
    if match := _DIRECTED.fullmatch(short):
        source, type_ = match[1], match[2]
        integer, signed = _INTEGERS.get(source, (source, True))
        given = integer if signed else integer.replace("i", "u")
        call = builtin(f"convert_{type_}_{_DIRECTIONS[match[3]]}", type_, f"{given} %a")
        return function(name, type_, f"{integer} %a", f"%r = {call}", f"ret {type_} %r")
    if match := _TO_INTEGER.fullmatch(short):
        call = builtin(_ROUND[match[3]], match[1], f"{match[1]} %a")
        return _to_integer(name, match[1], call, *_INTEGERS[match[2]])
    if match := re.fullmatch(r"ll(round|rint)(f?)", short):
        type_ = _FLOAT if match[2] else _DOUBLE
        return _to_integer(name, type_, builtin(match[1], type_, f"{type_} %a"), "i64", True)
    return None


def _to_integer(name: str, type_: str, rounded: str, integer: str, signed: bool) -> str:
    """Convert a value that does not fit to the nearest one that does, and NaN to 0."""
    width = int(integer[1:])
    most = (1 << (width - signed)) - 1
    least = -(1 << (width - 1)) if signed else 0
    top, bottom = f"{float(most + 1):.1f}", f"{float(least):.1f}"
    return function(
        name,
        integer,
        f"{type_} %a",
        f"""%v = {rounded}
        %above = fcmp oge {type_} %v, {top}
        %below = fcmp olt {type_} %v, {bottom}
        %fits = fcmp olt {type_} %v, {top}
        %inside = select i1 %below, i1 false, i1 %fits
        %safe = select i1 %inside, {type_} %v, {type_} 0.0
        %i = {"fptosi" if signed else "fptoui"} {type_} %safe to {integer}
        %high = select i1 %above, {integer} {most}, {integer} %i
        %r = select i1 %below, {integer} {least}, {integer} %high
        ret {integer} %r""",
    )


def _arithmetic(name: str, short: str) -> str | None:
    """Define arithmetic that is rounded to nearest and never fused with neighbouring operations: a
    product or sum is a fused multiply-add by itself.
    """
    if match := _FUSED.fullmatch(short):
        type_ = _FLOAT if match[1] else _DOUBLE
        given = [f"{type_} %{x}" for x in "abc"]
        call = builtin("fma", type_, *given)
        return function(name, type_, ", ".join(given), f"%r = {call}", f"ret {type_} %r")
    match = _NEAREST.fullmatch(short)
    if not match:
        return None
    type_ = _FLOAT if match[1] == "f" else _DOUBLE
    a, b, one = f"{type_} %a", f"{type_} %b", f"{type_} 1.0"
    line = {
        "add": f"%r = {builtin('fma', type_, a, one, b)}",
        "sub": f"%n = fneg {b}\n%r = {builtin('fma', type_, a, one, f'{type_} %n')}",
        "mul": f"%r = {builtin('fma', type_, a, b, f'{type_} -0.0')}",
        "div": f"%r = fdiv {a}, %b",
        "rcp": f"%r = fdiv {one}, %a",
        "sqrt": f"%r = {builtin('sqrt', type_, a)}",
    }[match[2]]
    parameters = a if match[2] in ("rcp", "sqrt") else f"{a}, {b}"
    return function(name, type_, parameters, line, f"ret {type_} %r")


def _norms(name: str, short: str) -> str | None:
    match = _NORM.fullmatch(short)
    if not match:
        return None
    type_ = _FLOAT if match[3] else _DOUBLE
    count = {"norm3d": 3, "norm4d": 4, "hypot": 2, "cbrt": 1}[match[2]]
    values = [f"{type_} %a{i}" for i in range(count)]
    lines = [f"%h0 = {builtin('cbrt', type_, values[0])}"] if count == 1 else []
    last = values[0]
    for i in range(1, count):
        lines.append(f"%h{i} = {builtin('hypot', type_, last, values[i])}")
        last = f"{type_} %h{i}"
    value = f"%h{max(count - 1, 0)}"
    if match[1]:
        lines.append(f"%r = fdiv {type_} 1.0, {value}")
        value = "%r"
    return function(name, type_, ", ".join(values), *lines, f"ret {type_} {value}")


def _others(name: str, short: str) -> str | None:
    if match := re.fullmatch(r"scalbn(f?)", short):
        type_ = _FLOAT if match[1] else _DOUBLE
        call = builtin("ldexp", type_, f"{type_} %a", "i32 %n")
        return function(name, type_, f"{type_} %a, i32 %n", f"%r = {call}", f"ret {type_} %r")
    if match := re.fullmatch(r"normcdf(f?)", short):
        type_ = _FLOAT if match[1] else _DOUBLE
        # LLVM reads a float's constant from the 64 bits of a double, which have to suit a float
        root = "0xBFE6A09E60000000" if match[1] else "0xBFE6A09E667F3BCD"  # -sqrt(1/2)
        call = builtin("erfc", type_, f"{type_} %x")
        body = f"%x = fmul {type_} %a, {root}\n%e = {call}\n%r = fmul {type_} %e, 0.5"
        return function(name, type_, f"{type_} %a", body, f"ret {type_} %r")
    if short == "byte_perm":
        lines = [
            """%u = zext i32 %b to i64
            %w = shl i64 %u, 32
            %l = zext i32 %a to i64
            %both = or i64 %w, %l"""
        ]
        for i in range(4):
            lines.append(
                f"""%s{i} = lshr i32 %c, {4 * i}
                {named_byte(i, "%both", f"%s{i}")}
                %z{i} = shl i32 %byte{i}, {8 * i}"""
            )
        lines.append("%o1 = or i32 %z0, %z1\n%o2 = or i32 %z2, %z3\n%r = or i32 %o1, %o2")
        return function(name, "i32", "i32 %a, i32 %b, i32 %c", *lines, "ret i32 %r")
    return None


_PARTS = (
    *(_amds, _counts, _magnitudes, _plain, _integer_pairs, _conversions, _arithmetic, _norms),
    _others,
)
