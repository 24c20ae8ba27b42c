"""Floats on the scalar unit, which gfx11.5 and gfx12 have.

Source: RDNA4 ISA, chapter 16 (SOP1, SOP2, SOPC).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import floats
from .decode import Instruction
from .memory import Array

__all__ = ["RELATIONS", "RULES", "codes"]

#: Instruction to kind of the result, kinds of the sources, and function.
RULES: dict[str, tuple[str, tuple[str, ...], Callable[..., Array], Any]] = {}


def _less_or_greater(a: Array, b: Array) -> Array:
    return (a < b) | (a > b)


def _unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


def _not(relation: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: ~relation(a, b)


#: Comparisons by the middle of their names. With a NaN only u and those with n are true.
RELATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "lg": _less_or_greater,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "u": _unordered,
    "o": _not(_unordered),
}
RELATIONS |= {f"n{name}": _not(RELATIONS[name]) for name in ("eq", "lg", "gt", "ge", "lt", "le")}


def codes(ins: Instruction) -> tuple[int, ...]:
    """Return the operands' codes in the order of the sources: a product's two factors, then its
    addend; a value, then the number of the bit to change."""
    fields, literal = ins.fields, 255
    first = fields["ssrc0"]
    if ins.mnemonic.startswith("s_fmaak"):
        return first, fields["ssrc1"], literal
    if ins.mnemonic.startswith("s_fmamk"):
        return first, literal, fields["ssrc1"]
    if ins.mnemonic.startswith("s_bitset"):
        return fields["sdst"], first
    if ins.mnemonic.startswith("s_fmac"):
        return first, fields["ssrc1"], fields["sdst"]
    return (first, fields["ssrc1"]) if "ssrc1" in fields else (first,)


def _rule(names: str, result: str, sources: str, function: Callable[..., Array]) -> None:
    for name in names.split():
        RULES["s_" + name] = (result, tuple(sources.split()), function, None)


def _half(function: Callable[..., Array]) -> Callable[..., Array]:
    """A result of 16 bits; the upper half of the register becomes zero."""

    def run(*values: Array) -> Array:
        return function(*values).astype(np.float16).view(np.uint16).astype(np.uint32)

    return run


def _packed(a: Array, b: Array) -> Array:
    low, high = (floats.rtz16(x).view(np.uint16).astype(np.uint32) for x in (a, b))
    return low | high << np.uint32(16)


_PAIRS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min_num": floats.least,
    "max_num": floats.greatest,
    "minimum": floats.minimum,
    "maximum": floats.maximum,
}
_ROUNDED: dict[str, Callable[..., Array]] = {
    "trunc": np.trunc,
    "floor": np.floor,
    "ceil": np.ceil,
    "rndne": np.rint,
}
for _name, _function in _PAIRS.items():
    _rule(f"{_name}_f32", "f32", "f32 f32", _function)
    _rule(f"{_name}_f16", "u32", "f16 f16", _half(_function))
for _name, _function in _ROUNDED.items():
    _rule(f"{_name}_f32", "f32", "f32", _function)
    _rule(f"{_name}_f16", "u32", "f16", _half(_function))
_rule("fmac_f32 fmaak_f32 fmamk_f32", "f32", "f32 f32 f32", floats.fma32)
_rule("fmac_f16", "u32", "f16 f16 f16", _half(floats.fma16))
_rule("cvt_f32_i32", "f32", "i32", lambda a: a.astype(np.float32))
_rule("cvt_f32_u32", "f32", "u32", lambda a: a.astype(np.float32))
_rule("cvt_i32_f32", "i32", "f32", floats.to_int(np.int32))
_rule("cvt_u32_f32", "u32", "f32", floats.to_int(np.uint32))
_rule("cvt_f16_f32", "u32", "f32", _half(lambda a: a))
_rule("cvt_f32_f16", "f32", "f16", lambda a: a.astype(np.float32))
_rule(
    "cvt_hi_f32_f16",
    "f32",
    "u32",
    lambda a: (a >> np.uint32(16)).astype(np.uint16).view(np.float16).astype(np.float32),
)
_rule("cvt_pk_rtz_f16_f32", "u32", "f32 f32", _packed)
