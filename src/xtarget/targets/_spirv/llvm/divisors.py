"""Divisors of integers that are defined, because LLVM infers from a division what its divisor is.

A load without `other` gives no value where its mask is false. A GPU divides by whatever is there.
In LLVM a division by an undefined value, or by zero, never happens: its optimiser takes the mask to
be true everywhere, and the kernel's store goes past the end of the array. (With a mask of ends
alone, `tl.load(a + i, m) // tl.load(b + i, m)` wrote 412 elements behind a result of 100.)

A divisor that may come from memory is fixed (`freeze`), and one that is zero becomes 1: no lane
that is away, and no zero of the user's, ends a process on a CPU. What a kernel was given as a
number, and what is computed of such numbers, is defined already, and constants stay as they are.
"""

from __future__ import annotations

import itertools

from .ir import Function, Instruction, Module
from .reader import instructions

__all__ = ["define_divisors"]

_DIVISIONS = ("sdiv", "udiv", "srem", "urem")
#: Of defined values they give defined ones; what shifts too far is not among them.
_PLAIN = ("zext", "sext", "trunc", "and", "or", "xor", "add", "sub", "mul")
#: More of them are not followed.
_MOST_STEPS = 8


def define_divisors(module: Module) -> None:
    """Leave no division of integers whose divisor may be undefined or a zero from memory."""
    for function in module.functions:
        _define(function)


def _define(function: Function) -> None:
    given = {one.name for one in function.parameters()}
    definitions = function.definitions
    count = itertools.count()

    def is_defined(name: str, steps: int) -> bool:
        if name in given:
            return True
        one = definitions.get(name)
        if one is None or one.op not in _PLAIN or not steps:
            return False
        return all(
            is_defined(own.value, steps - 1) for own in one.operands if own.value.startswith("%")
        )

    def change(one: Instruction) -> list[Instruction] | None:
        dividend, divisor = one.operands
        if not divisor.is_name or is_defined(divisor.value, _MOST_STEPS):
            return None
        type_, name = str(one.type), f"%xt.divisor.{next(count)}"
        length = one.type.length
        flag, of_one, zero = "i1", "1", "0"
        if length:
            element = one.type.element
            flag, zero = f"<{length} x i1>", "zeroinitializer"
            of_one = f"<{', '.join([f'{element} 1'] * length)}>"
        fixed = instructions(
            f"  {name}.fixed = freeze {type_} {divisor.value}",
            f"  {name}.is_zero = icmp eq {type_} {name}.fixed, {zero}",
            f"  {name} = select {flag} {name}.is_zero, {type_} {of_one}, {type_} {name}.fixed",
        )
        return [*fixed, one.with_values([dividend.value, name])]

    function.rewrite(change, ops=_DIVISIONS)
    function.forget()
