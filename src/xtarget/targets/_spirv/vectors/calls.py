"""Calls in vectors: built-in functions of vectors, and exchange between lanes."""

from __future__ import annotations

import re

from .code import LANES, Instruction, NotVectorizableError
from .shapes import Shapes
from .text import Text

__all__ = ["is_barrier", "vector_call"]

_SHUFFLE = re.compile(r"_Z17sub_group_shuffle[a-zD]+j")
_BUILTIN = re.compile(r"_Z(\d+)(\w+)")
#: A parameter in such a name.
_CODE = re.compile(r"D[a-z]|[a-z]")
_CODES = {"half": ("Dh",), "float": ("f",), "double": ("d",), "i8": ("c", "h"), "i16": ("s", "t"),
          "i32": ("i", "j"), "i64": ("l", "m")}  # fmt: skip
#: Operands that LLVM wants as constants of one bit.
_IMMEDIATE = {"llvm.ctlz", "llvm.cttz", "llvm.abs"}
#: Functions of numbers alone; a name that is not here stays with the lanes.
_NUMERIC = re.compile(
    r"llvm\.(?:fma|fabs|sqrt|exp2?|log2?|log10|sin|cos|pow|floor|ceil|trunc|rint|nearbyint|round"
    r"|roundeven|copysign|minnum|maxnum|minimumnum|maximumnum|umin|umax|smin|smax|abs|ctpop|ctlz|cttz"
    r"|fshl|fshr|canonicalize|[us](?:add|sub)\.sat)\.\w+"
)
_NOT_NUMERIC = re.compile(
    r"group|atomic|barrier|printf|get_|fence|lgamma_r|frexp|modf|remquo|sincos|fract"
)


#: Built-in functions that give the same to all lanes.
_PLACES = ("_Z12get_group_idj", "_Z14get_num_groupsj")


def is_shuffle(name: str) -> bool:
    """Return whether lanes exchange values in a call of that name."""
    return _SHUFFLE.fullmatch(name) is not None


def may_be_repeated(one: Instruction) -> bool:
    """Return whether it does not matter how many lanes call it, or if they do so needlessly."""
    name = one.extra
    if name in _PLACES or is_shuffle(name) or _NUMERIC.fullmatch(name):
        return True
    return _BUILTIN.fullmatch(name) is not None and bool(_mangled(one))


def is_barrier(name: str) -> bool:
    """Return whether a call is a barrier, which a single thread does not need."""
    return name in ("_Z7barrierj", "_Z17sub_group_barrierj")


def vector_call(text: Text, one: Instruction, shapes: Shapes) -> None:
    """Write a call whose result varies.

    Raises:
        NotVectorizableError: there is no such function of vectors.
    """
    name = one.extra
    if is_shuffle(name):
        _shuffle(text, one, shapes)
        return
    if _NUMERIC.fullmatch(name):
        base, _, suffix = name.rpartition(".")
        bits = {"half": "f16", "float": "f32", "double": "f64"}.get(one.type, one.type)
        if suffix != bits:
            raise NotVectorizableError(f"a call of {name}")
        callee, prefix = f"{base}.v{LANES}{bits}", ""
    else:
        callee, prefix = _mangled(one), "spir_func "
    arguments, types = [], []
    base = name.rpartition(".")[0]
    for value, type_ in zip(one.operands, one.types, strict=True):
        scalar = type_ == "i1" and base in _IMMEDIATE
        types.append("i1" if scalar else text.vector_type(type_))
        arguments.append(f"{types[-1]} {value if scalar else text.vector(value, type_)}")
    result = text.vector_type(one.type)
    attributes = "" if not prefix else " nounwind willreturn memory(none)"
    text.declare(f"declare {prefix}{result} @{callee}({', '.join(types)}){attributes}")
    text.emit(f"{one.name} = call {prefix}{result} @{callee}({', '.join(arguments)})")


def _mangled(one: Instruction) -> str:
    """The built-in function's name for vectors, by the Itanium rules."""
    match = _BUILTIN.fullmatch(one.extra)
    length = int(match[1]) if match else 0
    name = match[2][:length] if match else ""
    codes = _CODE.findall(match[2][length:]) if match else []
    fits = len(codes) == len(one.types) and all(
        code in _CODES.get(type_, ()) for code, type_ in zip(codes, one.types, strict=False)
    )
    if not fits or _NOT_NUMERIC.search(name):
        raise NotVectorizableError(f"a call of {one.extra}")
    seen: list[str] = []
    text = ""
    for code in codes:
        if code in seen:
            number = seen.index(code)
            text += "S_" if number == 0 else f"S{number - 1}_"
        else:
            seen.append(code)
            text += f"Dv{LANES}_{code}"
    return f"_Z{length}{name}{text}"


def _shuffle(text: Text, one: Instruction, shapes: Shapes) -> None:
    """Each lane takes the value of the lane that it names."""
    value, lane = one.operands
    vector, type_ = text.vector(value, one.type), text.vector_type(one.type)
    shape = shapes.get(lane, "i32")
    if shape.known is not None:
        order = text.constant((n % LANES for n in shape.known), "i32")
        text.emit(
            f"{one.name} = shufflevector {type_} {vector}, {type_} poison, <{LANES} x i32> {order}"
        )
        return
    lanes, result = text.vector(lane, "i32"), "poison"
    for number in range(LANES):
        source = text.scalar_here(f"extractelement <{LANES} x i32> {lanes}, i32 {number}")
        element = text.scalar_here(f"extractelement {type_} {vector}, i32 {source}")
        name = one.name if number == LANES - 1 else ""
        line = f"insertelement {type_} {result}, {one.type} {element}, i32 {number}"
        result = text.assign(line, one.type, name)
