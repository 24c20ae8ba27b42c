"""Negative zeros in Triton's front end before 3.9, which loses them.

Triton 3.6 to 3.8 makes every scalar that equals 0 a null value: -0.0 as a literal, a global or a
constant is +0.0. Triton 3.6 and 3.7 write `-x` as `0 - x`, which is +0.0 for +0.0. Triton 3.9 has
both right, and what is done here is what it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from .files import is_ours

__all__ = ["keep_signs"]

#: The first Triton that does it right.
_RIGHT = (3, 9)


@cache
def keep_signs() -> None:
    """Mend this process's Triton for our compilations, and for those of its own launching that are
    for our back end. Compilations for Triton's own back ends stay as they are.
    """
    import triton
    from triton._C.libtriton import ir
    from triton.language.semantic import TritonSemantic

    if tuple(int(part) for part in triton.__version__.split(".")[:2]) >= _RIGHT:
        return
    TritonSemantic.scalar_constant = _constant(TritonSemantic.scalar_constant)
    if not hasattr(ir.builder, "create_fneg"):
        TritonSemantic.minus = _minus(TritonSemantic.minus)


def _constant(original: Callable[..., Any]) -> Callable[..., Any]:
    def scalar_constant(self: Any, value: Any, dtype: Any) -> Any:
        number = getattr(value, "value", value)
        negative_zero = isinstance(number, float) and number == 0 and math.copysign(1.0, number) < 0
        if not negative_zero or dtype is None or not dtype.is_floating() or not is_ours(self):
            return original(self, value, dtype)
        return self.tensor(_negative_zero(self.builder, dtype), dtype)

    return scalar_constant


def _minus(original: Callable[..., Any]) -> Callable[..., Any]:
    def minus(self: Any, input: Any) -> Any:
        scalar = input.type.scalar
        if scalar.is_ptr() or not scalar.is_floating() or not is_ours(self):
            return original(self, input)
        # LLVM makes it fneg
        zero = self.tensor(_negative_zero(self.builder, scalar), scalar)
        return self.sub(zero, input, True)

    return minus


def _negative_zero(builder: Any, dtype: Any) -> Any:
    if dtype.is_fp8():
        return builder.create_fp_trunc(builder.get_fp32(-0.0), dtype.to_ir(builder))
    return getattr(builder, f"get_{dtype.name}")(-0.0)
