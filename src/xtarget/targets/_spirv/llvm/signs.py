"""Negations behind barriers, which Intel's CPU compiler gets wrong.

The compiler (2026.2) runs the code between two barriers in a loop over the warps of a block, and
keeps what is used behind a barrier in memory, one value for each thread. It takes the result of
LLVM's `fneg` to be the same for all threads, and so it takes what casts, calls and aggregates make
of nothing else. Such a value is kept once, and all threads find what the last warp left there.
OpenCL C shows it in one line: `v = -x[i]; barrier(...); o[i] = v;`. No other operation of LLVM has
the fault.

So no `fneg` reaches a device in a kernel with barriers: the sign bit is flipped in integers, with a
mask that the compiler does not know. It would make an `fneg` of a mask that it does know, also in a
kernel's own integer operations, so these get the same mask.

This is for all devices: the SPIR-V for Intel's GPUs runs on their CPU compiler as well, and an
integer operation costs a GPU next to nothing there.
"""

from __future__ import annotations

import itertools

from .ir import Function, Instruction, Module
from .reader import instructions
from .text import UnsupportedError
from .unknown_zero import ZERO, add_zero, has_barrier

__all__ = ["flip_signs_in_integers"]

#: The integer of a type's size.
_WORDS = {"half": "i16", "bfloat": "i16", "float": "i32", "double": "i64"}
_SIGNS = {"i16": "-32768", "i32": "-2147483648", "i64": "-9223372036854775808"}


def flip_signs_in_integers(module: Module) -> None:
    """Leave no `fneg`, and nothing that becomes one, in a function with barriers.

    Raises:
        UnsupportedError: there is an `fneg` of a constant, which LLVM does not print.
    """
    for function in module.functions:
        if has_barrier(function):
            _flip(module, function)


def _flip(module: Module, function: Function) -> None:
    masks: dict[str, list[str]] = {}  # definitions, by the mask's type
    count = itertools.count()

    def change(one: Instruction) -> list[Instruction] | None:
        if one.op == "fneg":
            return instructions(*_negated(one, f"%xt.flip.{next(count)}", masks))
        value, constant = one.operands
        element = one.type.element
        sign = _SIGNS.get(element, "none")
        if not value.is_name or constant.value not in (sign, f"splat ({element} {sign})"):
            return None
        mask = _mask(element, one.type.length, masks)
        return instructions(f"{one.indented}{one.op} {one.type} {value.value}, {mask}")

    function.rewrite(change, ops=("fneg",))
    function.rewrite(change, ops=("xor", "or"), having=" -")
    if masks:
        add_zero(module, function, [line for lines in masks.values() for line in lines])


def _negated(one: Instruction, v: str, masks: dict[str, list[str]]) -> list[str]:
    """The lines for one negation; names of values begin with `v`."""
    (operand,) = one.operands
    word = _WORDS.get(one.type.element, "")
    if not operand.is_name or not word:
        raise UnsupportedError(f"a negation that xtarget cannot rewrite ({one.text.strip()})")
    mask, type_ = _mask(word, one.type.length, masks), one.type.like(word)
    return [
        f"  {v}.bits = bitcast {one.type} {operand.value} to {type_}",
        f"  {v} = xor {type_} {v}.bits, {mask}",
        f"{one.indented}bitcast {type_} {v} to {one.type}",
    ]


def _type(element: str, count: int) -> str:
    return f"<{count} x {element}>" if count else element


def _mask(word: str, count: int, masks: dict[str, list[str]]) -> str:
    """The name of a mask with the sign bit of each element; its definition is noted."""
    name = f"%xt.sign.{word}"
    if word not in masks:
        low = ZERO if word == "i64" else f"{name}.zero"
        cut = [] if word == "i64" else [f"  {low} = trunc i64 {ZERO} to {word}"]
        masks[word] = [*cut, f"  {name} = or {word} {low}, {_SIGNS[word]}"]
    if not count:
        return name
    vector, type_ = f"{name}.{count}", _type(word, count)
    if type_ not in masks:
        masks[type_] = [
            f"  {vector}.0 = insertelement {type_} poison, {word} {name}, i64 0",
            f"  {vector} = shufflevector {type_} {vector}.0, {type_} poison, "
            f"<{count} x i32> zeroinitializer",
        ]
    return vector
