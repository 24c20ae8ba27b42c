"""Casts from and to floats of 8 bits that Triton's lowering for AMD gets wrong or lacks.

Without hardware for them the lowering makes bfloat16 of float8 by moving bits, and NaN becomes a
number (Triton 3.6 to 3.9). Before Triton 3.9 the NaN of the formats of gfx942, which have no -0.0,
becomes -0.0 in all casts. It has no cast to float64 or to other floats of 8 bits. Each of these
casts goes through float32, which holds every float of 8 bits exactly. There is no cast from float64
either: it is rounded to odd first, so that rounding to 8 bits afterwards gives the same as rounding
once (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd", 2008).

A value that is too large becomes the largest float of 8 bits; so does infinity. "OCP 8-bit Floating
Point Specification (OFP8)", 1.0, 5.2 allows this (saturating) and another mode, where E5M2 gets an
infinity and E4M3 a NaN. PTX has only `cvt.rn.satfinite` for these formats. So Triton on CUDA
saturates, and so does this module, for all types. Triton's lowering for AMD makes NaN of the halves
that E4M3 would round to 480, between 464 and 480, and saturates larger ones. Those halves also
go through float32 here.
"""

from __future__ import annotations

import math
from typing import Any

from ...._values.value_classes import value_class
from .structure import NEAREST, Editor, Operation, type_of
from .types import Type

__all__ = ["cast_by_float32"]

_CAST = "tt.fp_to_fp"
#: The second step from float32 to a type of more than 8 bits.
_STEPS = {"f16": "create_fp_trunc", "bf16": "create_fp_trunc", "f64": "create_fp_ext"}
#: The first Triton that keeps NaN of the formats without -0.0, and their only NaN.
_KEEPS_NAN = (3, 9)
_NAN = 0x80


def cast_by_float32(module: Any, version: tuple[int, int]) -> bool:
    """Make such casts of Triton's GPU IR in two steps, in place.

    Args:
        version: Triton's.

    Returns:
        whether there were any. The old casts are dead code then.
    """
    edit = Editor(module)
    casts = [operation for operation in edit.operations if operation.name == _CAST]
    found = [_Cast.of(cast, version) for cast in casts]
    changes = [(cast, cast.rounding(edit)) for cast in found if cast.is_wrong]
    for cast, rounding in changes:
        _rewrite(edit, cast, rounding)
    return bool(changes)


@value_class(frozen=True, slots=True)
class _Cast:
    """A cast from or to floats of 8 bits.

    Attributes:
        loses_nan: the NaN of the source becomes -0.0.
    """

    operation: Operation
    source: Type
    target: Type
    loses_nan: bool

    @staticmethod
    def of(operation: Operation, version: tuple[int, int]) -> _Cast:
        source = operation.operand_type(0)
        loses_nan = source.element.endswith("FNUZ") and version < _KEEPS_NAN
        return _Cast(operation, source, type_of(operation.results[0]), loses_nan)

    @property
    def is_wrong(self) -> bool:
        """Return True if Triton's lowering for AMD is wrong for this cast."""
        source, target = self.source.element, self.target.element
        if source.startswith("f8"):
            return self.loses_nan or target.startswith("f8") or target in ("bf16", "f64")
        if source == "f64":
            return target.startswith("f8")
        return source == "f16" and target == "f8E4M3FN"

    def rounding(self, edit: Editor) -> Any:
        """The rounding mode of the step to 8 bits."""
        if self.source.element.startswith("f8"):
            return edit.rounding_mode(NEAREST)
        return edit.rounding_mode(edit.integer(self.operation, "rounding"))


def _rewrite(edit: Editor, cast: _Cast, rounding: Any) -> None:
    (value,), (result,) = cast.operation.operands, cast.operation.results
    to = result.get_type()
    edit.go_before(cast.operation)
    if cast.source.element == "f64":
        wide = _rounded_to_odd(edit, value, cast.source)
    else:
        single = edit.like(cast.source, "f32")
        if cast.source.element == "f16":
            wide = edit.create_fp_ext(value, single)
        else:
            wide = edit.create_fp_to_fp(value, single, None)
    if cast.loses_nan:
        wide = _with_nan(edit, value, wide, cast.source)
    step = _STEPS.get(cast.target.element)
    if step:
        new = getattr(edit, step)(wide, to)
    elif cast.target.element == "f32":
        new = wide
    else:
        new = edit.create_fp_to_fp(wide, to, rounding)
    result.replace_all_uses_with(new)


def _with_nan(edit: Editor, value: Any, wide: Any, type_: Type) -> Any:
    """Return `wide`, which is `value` in float32, with NaN where `value` is NaN."""
    bits, code = edit.like(type_, "i8"), edit.get_int8(_NAN)
    nan = edit.get_fp32(math.nan)
    if type_.shape is not None:
        code, nan = edit.create_splat(bits, code), edit.create_splat(wide.get_type(), nan)
    is_nan = edit.create_icmpEQ(edit.create_bitcast(value, bits), code)
    return edit.create_select(is_nan, nan, wide)


def _rounded_to_odd(edit: Editor, value: Any, type_: Type) -> Any:
    """Make float32 of float64: an inexact value becomes the neighbour nearer to zero, with its last
    bit set.
    """
    single, integer = edit.like(type_, "f32"), edit.like(type_, "i32")
    nearest = edit.create_fp_trunc(value, single)
    back = edit.create_fp_ext(nearest, value.get_type())
    size, reached = edit.create_fabs(value), edit.create_fabs(back)
    beyond = edit.create_fcmpOGT(reached, size)
    step = edit.create_int_cast(beyond, integer, False)
    other = edit.create_fcmpUNE(back, value)
    sticky = edit.create_int_cast(other, integer, False)
    bits = edit.create_bitcast(nearest, integer)
    below = edit.create_sub(bits, step)
    return edit.create_bitcast(edit.create_or(below, sticky), single)
