"""LLVM's own intrinsics that its SPIR-V back end cannot select, or gives another meaning."""

from __future__ import annotations

import re

from .helpers import BITS, builtin, function

__all__ = ["NEEDS_DEFINITION", "define"]

#: Intrinsics to rename from `llvm.` to `xt.` before the definitions are linked.
#: minimum, maximum: must give NaN for NaN, while the back end makes OpenCL's fmin and fmax of them.
#: bitreverse: wants SPV_KHR_bit_instructions. The others abort.
NEEDS_DEFINITION = re.compile(
    r"llvm\.(?:(?:minimum|maximum)\.f(?:16|32|64)|bitreverse\.i\d+"
    r"|(?:sadd|ssub|smul|umul)\.with\.overflow\.i\d+)"
)

_EXTREME = re.compile(r"xt\.(minimum|maximum)\.f(16|32|64)")
_OVERFLOW = re.compile(r"xt\.(sadd|ssub|smul|umul)\.with\.overflow\.i(\d+)")
_REVERSE = re.compile(r"xt\.(late\.)?bitreverse\.i(\d+)")
_FLOATS = {"16": "half", "32": "float", "64": "double"}


def define(name: str, _warp_size: int) -> str | None:
    """The definition of `name`, None if it is none of these."""
    if match := _EXTREME.fullmatch(name):
        return _extreme(name, match[1], _FLOATS[match[2]])
    if match := _OVERFLOW.fullmatch(name):
        return _with_overflow(name, match[1], int(match[2]))
    if match := _REVERSE.fullmatch(name):
        width = int(match[2])
        return _reverse(name, width) if match[1] else _widened_reverse(name, width)
    return None


def _extreme(name: str, kind: str, type_: str) -> str:
    """The sum of two numbers is NaN when one of them is, which is when they are unordered. Equal
    numbers have equal bits but for the sign of zero: -0 is the smaller one.
    """
    test = "olt" if kind == "minimum" else "ogt"
    bits = BITS[type_]
    return function(
        name,
        type_,
        f"{type_} %a, {type_} %b",
        f"""%first = fcmp {test} {type_} %a, %b
        %pick = select i1 %first, {type_} %a, {type_} %b
        %abits = bitcast {type_} %a to {bits}
        %bbits = bitcast {type_} %b to {bits}
        %both = {"or" if kind == "minimum" else "and"} {bits} %abits, %bbits
        %zero = bitcast {bits} %both to {type_}
        %equal = fcmp oeq {type_} %a, %b
        %signed = select i1 %equal, {type_} %zero, {type_} %pick
        %unordered = fcmp uno {type_} %a, %b
        %nan = fadd {type_} %a, %b
        %r = select i1 %unordered, {type_} %nan, {type_} %signed
        ret {type_} %r""",
    )


def _with_overflow(name: str, kind: str, width: int) -> str:
    type_ = f"i{width}"
    operation = kind[1:]
    if operation in ("add", "sub"):
        # overflow shows in the signs: equal operands (for a difference: unequal ones) and another
        # sign of the result
        signs = "%differ = xor {t} %a, %b" + (
            "\n%sign = xor {t} %differ, -1" * (operation == "add")
        )
        sign = "%sign" if operation == "add" else "%differ"
        test = signs.format(t=type_) + (
            f"""
            %changed = xor {type_} %a, %value
            %wrong = and {type_} %changed, {sign}
            %flag = icmp slt {type_} %wrong, 0"""
        )
    elif width <= 32:
        extend = "sext" if kind == "smul" else "zext"
        test = f"""%wa = {extend} {type_} %a to i64
            %wb = {extend} {type_} %b to i64
            %wide = mul i64 %wa, %wb
            %again = {extend} {type_} %value to i64
            %flag = icmp ne i64 %wide, %again"""
    else:
        given = type_ if kind == "smul" else f"u{width}"
        test = f"%high = {builtin('mul_hi', type_, f'{given} %a', f'{given} %b')}\n" + (
            f"%sign = ashr {type_} %value, {width - 1}\n%flag = icmp ne {type_} %high, %sign"
            if kind == "smul"
            else f"%flag = icmp ne {type_} %high, 0"
        )
    pair = f"{{ {type_}, i1 }}"
    return function(
        name,
        pair,
        f"{type_} %a, {type_} %b",
        f"%value = {operation} {type_} %a, %b",
        test,
        f"""%half = insertvalue {pair} poison, {type_} %value, 0
        %both = insertvalue {pair} %half, i1 %flag, 1
        ret {pair} %both""",
    )


def _widened_reverse(name: str, width: int) -> str:
    """Any width through 32 or 64 bits. The wide reversal is linked late: the optimiser would
    recognise its steps and make the intrinsic of them again.
    """
    wide = 32 if width <= 32 else 64
    if width == wide:
        body = f"%r = call i{wide} @xt.late.bitreverse.i{wide}(i{wide} %a)"
    else:
        body = f"""%w = zext i{width} %a to i{wide}
            %v = call i{wide} @xt.late.bitreverse.i{wide}(i{wide} %w)
            %s = lshr i{wide} %v, {wide - width}
            %r = trunc i{wide} %s to i{width}"""
    return function(name, f"i{width}", f"i{width} %a", body, f"ret i{width} %r")


def _reverse(name: str, width: int) -> str:
    """Swap neighbouring groups of 1, 2, 4... bits."""
    lines, value, step = [], "%a", 1
    while step < width:
        mask = sum(1 << bit for bit in range(width) if bit // step % 2 == 0)
        lines.append(
            f"""%down{step} = lshr i{width} {value}, {step}
            %even{step} = and i{width} %down{step}, {mask}
            %odd{step} = and i{width} {value}, {mask}
            %up{step} = shl i{width} %odd{step}, {step}
            %v{step} = or i{width} %even{step}, %up{step}"""
        )
        value, step = f"%v{step}", step * 2
    return function(name, f"i{width}", f"i{width} %a", *lines, f"ret i{width} {value}")
