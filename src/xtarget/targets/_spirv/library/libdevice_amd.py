"""AMD's device library (`__ocml_*`, `__ockl_*`) through OpenCL's built-in functions."""

from __future__ import annotations

import re

from .helpers import BITS, builtin, function

__all__ = ["define"]

_TYPES = {"f16": "half", "f32": "float", "f64": "double"}

#: Functions that OpenCL has by the same name and meaning, by number of operands.
_SAME = {
    1: """acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi erf erfc exp exp10 exp2 expm1
        fabs floor lgamma log log10 log1p log2 rint round rsqrt sin sinh sinpi sqrt tan tanh tanpi
        tgamma trunc""",
    2: "atan2 copysign fdim fmax fmin fmod hypot nextafter pow powr remainder",
    3: "fma mad",
}
_ARITY = {name: count for count, names in _SAME.items() for name in names.split()}
_RENAMED = {
    "nearbyint": "rint",
    "native_cos": "cos",
    "native_exp": "exp",
    "native_exp2": "exp2",
    "native_log": "log",
    "native_log2": "log2",
    "native_recip": "recip",
    "native_rsqrt": "rsqrt",
    "native_sin": "sin",
    "native_sqrt": "sqrt",
}

_MAGNITUDE = {"half": 0x7FFF, "float": 0x7FFFFFFF, "double": 0x7FFFFFFFFFFFFFFF}
_INFINITY = {"half": 0x7C00, "float": 0x7F800000, "double": 0x7FF0000000000000}

#: Tests on the bits of a value: OpenCL's build options may let a device forget NaN and infinity,
#: the bits cannot. `{bits}` integer type, `{infinity}` its bits of infinity.
_TESTS = {
    "isnan": "%c = icmp ugt {bits} %m, {infinity}",
    "isinf": "%c = icmp eq {bits} %m, {infinity}",
    "isfinite": "%c = icmp ult {bits} %m, {infinity}",
    "signbit": "%c = icmp slt {bits} %b, 0",
}

_NAME = re.compile(r"__ocml_(\w+?)_(f16|f32|f64)")
_INTEGER_NAME = re.compile(r"__ockl_(clz|ctz|popcount|mul_hi)_([iu])(32|64)")


def define(name: str, _warp_size: int) -> str | None:
    """The definition of `name`, None if the library has no such function here."""
    if match := _NAME.fullmatch(name):
        return _floating(name, _RENAMED.get(match[1], match[1]), _TYPES[match[2]])
    if match := _INTEGER_NAME.fullmatch(name):
        return _integer(name, match[1], match[2], f"i{match[3]}")
    return None


def _floating(name: str, short: str, type_: str) -> str | None:
    if short in _ARITY:
        given = [f"{type_} %a{i}" for i in range(_ARITY[short])]
        call = builtin(short, type_, *given)
        return function(name, type_, ", ".join(given), f"%r = {call}", f"ret {type_} %r")
    if short == "recip":
        return function(name, type_, f"{type_} %a", f"%r = fdiv {type_} 1.0, %a", f"ret {type_} %r")
    if short in ("ldexp", "pown", "rootn"):
        call = builtin(short, type_, f"{type_} %a", "i32 %n")
        return function(name, type_, f"{type_} %a, i32 %n", f"%r = {call}", f"ret {type_} %r")
    if short == "ilogb":
        call = builtin("ilogb", "i32", f"{type_} %a")
        return function(name, "i32", f"{type_} %a", f"%r = {call}", "ret i32 %r")
    if short in _TESTS:
        bits = BITS[type_]
        test = _TESTS[short].format(bits=bits, infinity=_INFINITY[type_])
        body = f"%b = bitcast {type_} %a to {bits}\n%m = and {bits} %b, {_MAGNITUDE[type_]}\n{test}"
        return function(name, "i32", f"{type_} %a", body, "%r = zext i1 %c to i32", "ret i32 %r")
    return None


def _integer(name: str, short: str, sign: str, type_: str) -> str:
    if short == "mul_hi":
        given = type_ if sign == "i" else "u" + type_[1:]
        call = builtin("mul_hi", type_, f"{given} %a", f"{given} %b")
        return function(name, type_, f"{type_} %a, {type_} %b", f"%r = {call}", f"ret {type_} %r")
    intrinsic = {"clz": "ctlz", "ctz": "cttz", "popcount": "ctpop"}[short]
    flag = "" if short == "popcount" else ", i1 false"
    call = f"%r = call {type_} @llvm.{intrinsic}.{type_}({type_} %a{flag})"
    return function(name, type_, f"{type_} %a", call, f"ret {type_} %r")
