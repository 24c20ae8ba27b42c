"""bfloat16, which SPIR-V 1.4 does not have: carried as 16-bit integers, computed as float32.

float32 has more than twice bfloat16's bits, so rounding twice gives the same as rounding once for
+, -, *, / and sqrt.
"""

from __future__ import annotations

import re

from ..library.helpers import function
from .ir import Function, Instruction, Module
from .reader import instructions
from .text import UnsupportedError
from .types import Type
from .words import map_words

__all__ = ["define", "lower_bfloat"]

_BFLOAT = "bfloat"
#: Instructions that do not look into the value; they work on the integer as they stand.
_OPAQUE = frozenset({
    "load", "store", "phi", "select", "bitcast", "call", "ret", "getelementptr", "alloca",
    "atomicrmw", "extractelement", "insertelement", "shufflevector", "extractvalue", "insertvalue",
    "freeze",
})  # fmt: skip


def lower_bfloat(module: Module) -> None:
    """Replace the type by `i16` and every operation on it by calls."""
    for item in module.items:
        if isinstance(item, Function):
            item.head = _as_integers(item.head)
        elif item.kind in ("declare", "global"):
            item.text = _as_integers(item.text)
    module.rewrite(
        lambda one: (
            instructions(*map(_as_integers, _lowered(module, one)))
            if one.mentions(_BFLOAT)
            else None
        ),
        having=_BFLOAT,
    )


def _as_integers(text: str) -> str:
    return map_words(text, _word) if _BFLOAT in text else text


def _word(word: str) -> str:
    if word == _BFLOAT:
        return "i16"
    return str(int(word[3:], 16)) if word[:3] == "0xR" else word


def _helper(name: str, type_: Type) -> str:
    return f"xt.bf16.{name}" + (f".v{type_.length}" if type_.length else "")


def _extend(module: Module, type_: Type, value: str, to: str = "float") -> tuple[str, str]:
    """Convert a value to floats. Returns the instruction and the name of its result."""
    wide = module.temporary()
    helper = _helper("extend" if to == "float" else "extend64", type_)
    call = module.call(type_.like(to), helper, f"{type_.like('i16')} {_constant(value)}")
    return f"  {wide} = {call}", wide


def _constant(value: str) -> str:
    """A value with its words as integers: the line may have nothing else of bfloat16."""
    return map_words(value, _word) if "0xR" in value else value


def _truncate(module: Module, type_: Type, value: str, source: str = "float") -> str:
    helper = _helper("truncate" if source == "float" else "truncate64", type_)
    return module.call(type_.like("i16"), helper, f"{type_.like(source)} {value}")


def _lowered(module: Module, one: Instruction) -> list[str]:
    """The lines for an instruction with the type."""
    target = one.indented
    if one.op in _CONVERSIONS:
        return _cast(module, one)
    if one.op in ("fadd", "fsub", "fmul", "fdiv", "frem"):
        lines, (a, b) = _extended(module, one)
        result = module.temporary()
        lines.append(f"  {result} = {one.op} {one.type.like('float')} {a}, {b}")
        return [*lines, f"{target}{_truncate(module, one.type, result)}"]
    if one.op == "fcmp":
        lines, (a, b) = _extended(module, one)
        floats = one.operands[0].type.like("float")
        return [*lines, f"{target}fcmp {one.parts.extra} {floats} {a}, {b}"]
    if one.op == "fneg":
        mask = "splat (i16 -32768)" if one.type.is_vector else "-32768"
        return [f"{target}xor {one.type.like('i16')} {_constant(one.values[0])}, {mask}"]
    if one.op not in _OPAQUE:
        raise UnsupportedError(f"an operation on bfloat16 ({one.text.strip()})")
    return [one.text]


_CONVERSIONS = frozenset({"fpext", "fptrunc", "sitofp", "uitofp", "fptosi", "fptoui"})


def _extended(module: Module, one: Instruction) -> tuple[list[str], list[str]]:
    pairs = [_extend(module, operand.type, operand.value) for operand in one.operands]
    return [line for line, _ in pairs], [value for _, value in pairs]


def _cast(module: Module, one: Instruction) -> list[str]:
    (operand,), target = one.operands, one.indented
    source, value, result = operand.type, operand.value, one.type
    if one.op == "fpext":
        line, _ = _extend(module, source, value, result.element)
        return [f"{target}{line.partition(' = ')[2]}"]
    if one.op == "fptrunc":
        return [f"{target}{_truncate(module, result, value, source.element)}"]
    if one.op.endswith("tofp"):
        wide = module.temporary()
        floats = result.like("float")
        line = f"  {wide} = {one.op} {source} {value} to {floats}"
        return [line, f"{target}{_truncate(module, result, wide)}"]
    line, wide = _extend(module, source, value)
    return [line, f"{target}{one.op} {source.like('float')} {wide} to {result}"]


_HELPER = re.compile(r"xt\.bf16\.(extend|extend64|truncate|truncate64)(?:\.v(\d+))?")
_INTRINSIC = re.compile(r"xt\.([\w.]+)\.bf16")
#: Intrinsics on bfloat16 with the same on float, by number of operands.
_ARITY = {
    1: "sqrt exp exp2 log log2 sin cos floor ceil trunc rint nearbyint round roundeven",
    2: "minnum maxnum minimum maximum copysign pow",
    3: "fma fmuladd",
}
_COUNTS = {name: count for count, names in _ARITY.items() for name in names.split()}


def define(name: str, _warp_size: int) -> str | None:
    """The definition of `name`, None if it is none of these."""
    if match := _HELPER.fullmatch(name):
        return _conversion(name, match[1], int(match[2] or 0))
    match = _INTRINSIC.fullmatch(name)
    if not match:
        return None
    short = match[1]
    if short == "fabs":
        return function(name, "i16", "i16 %a", "%r = and i16 %a, 32767", "ret i16 %r")
    if short == "is.fpclass":
        return _class_test(name)
    if short not in _COUNTS:
        return None
    letters = "abc"[: _COUNTS[short]]
    prefix = "xt" if short in ("minimum", "maximum") else "llvm"
    return function(
        name,
        "i16",
        ", ".join(f"i16 %{x}" for x in letters),
        *(f"%w{x} = call float @xt.bf16.extend(i16 %{x})" for x in letters),
        f"%v = call float @{prefix}.{short}.f32({', '.join(f'float %w{x}' for x in letters)})",
        "%r = call i16 @xt.bf16.truncate(float %v)",
        "ret i16 %r",
    )


def _class_test(name: str) -> str:
    """`llvm.is.fpclass`: is the number of one of the classes whose bits are set? From bit 0 on:
    signalling and quiet NaN; negative infinity, normal, subnormal, zero; positive the other way.
    """
    return function(
        name,
        "i1",
        "i16 %x, i32 %classes",
        """%size = and i16 %x, 32767
        %nan = icmp ugt i16 %size, 32640
        %quiet = icmp uge i16 %size, 32704
        %nanbit = zext i1 %quiet to i32
        %above0 = icmp ne i16 %size, 0
        %normal = icmp uge i16 %size, 128
        %infinite = icmp eq i16 %size, 32640
        %a = zext i1 %above0 to i32
        %b = zext i1 %normal to i32
        %c = zext i1 %infinite to i32
        %ab = add i32 %a, %b
        %steps = add i32 %ab, %c
        %up = add i32 %steps, 6
        %down = sub i32 5, %steps
        %negative = icmp slt i16 %x, 0
        %bit = select i1 %negative, i32 %down, i32 %up
        %which = select i1 %nan, i32 %nanbit, i32 %bit
        %moved = lshr i32 %classes, %which
        %r = trunc i32 %moved to i1
        ret i1 %r""",
    )


def _conversion(name: str, kind: str, lanes: int) -> str:
    def of(element: str) -> str:
        return f"<{lanes} x {element}>" if lanes else element

    def constant(element: str, value: object) -> str:
        return f"splat ({element} {value})" if lanes else str(value)

    i16, i32, i1, f32, f64 = of("i16"), of("i32"), of("i1"), of("float"), of("double")
    suffix = f".v{lanes}" if lanes else ""
    f64_suffix = f"v{lanes}f64" if lanes else "f64"
    if kind == "extend":
        taken, result = i16, f32
        body = f"""%w = zext {i16} %x to {i32}
            %s = shl {i32} %w, {constant("i32", 16)}
            %r = bitcast {i32} %s to {f32}"""
    elif kind == "extend64":
        taken, result = i16, f64
        body = f"""%f = call {f32} @xt.bf16.extend{suffix}({i16} %x)
            %r = fpext {f32} %f to {f64}"""
    elif kind == "truncate":  # to nearest, ties to even; a NaN stays one
        taken, result = f32, i16
        body = f"""%b = bitcast {f32} %x to {i32}
            %high = lshr {i32} %b, {constant("i32", 16)}
            %odd = and {i32} %high, {constant("i32", 1)}
            %half = add {i32} %odd, {constant("i32", 0x7FFF)}
            %sum = add {i32} %b, %half
            %rounded = lshr {i32} %sum, {constant("i32", 16)}
            %quiet = or {i32} %high, {constant("i32", 64)}
            %nan = fcmp uno {f32} %x, {constant("float", "0.0")}
            %pick = select {i1} %nan, {i32} %quiet, {i32} %rounded
            %r = trunc {i32} %pick to {i16}"""
    else:
        # Rounding twice differs from rounding once unless the first rounding is to odd: towards
        # zero, and the last bit set if anything was lost.
        taken, result = f64, i16
        body = f"""%near = fptrunc {f64} %x to {f32}
            %back = fpext {f32} %near to {f64}
            %exact = fcmp oeq {f64} %back, %x
            %nan = fcmp uno {f64} %x, %x
            %keep = or {i1} %exact, %nan
            %bits = bitcast {f32} %near to {i32}
            %size = call {f64} @llvm.fabs.{f64_suffix}({f64} %x)
            %size2 = call {f64} @llvm.fabs.{f64_suffix}({f64} %back)
            %above = fcmp ogt {f64} %size2, %size
            %down = sext {i1} %above to {i32}
            %toward = add {i32} %bits, %down
            %odd = or {i32} %toward, {constant("i32", 1)}
            %pick = select {i1} %keep, {i32} %bits, {i32} %odd
            %float = bitcast {i32} %pick to {f32}
            %r = call {i16} @xt.bf16.truncate{suffix}({f32} %float)"""
    return function(name, result, f"{taken} %x", body, f"ret {result} %r")
