"""The bytes that a kernel reads its arguments from (AMD: the kernarg segment).

Triton lays parameters out in their order, each on its natural alignment, hidden pointers last.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..._types import Parameter
from ..base import Value

__all__ = ["Field", "layout", "packer", "segment_bytes"]

_POINTER = "Q"
#: Triton's scalar types: struct format of the value as it is stored.
_FORMATS = {
    "i1": "B",
    "u1": "B",
    "i8": "b",
    "u8": "B",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
    "fp16": "H",
    "bf16": "H",
    "fp32": "I",
    "fp64": "d",
}


def _fp64_bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def _fp32_bits(value: float) -> int:
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:  # struct refuses what the hardware rounds to infinity
        return 0x7F800000 if value > 0 else 0xFF800000


def _fp16_bits(value: float) -> int:
    try:
        return int.from_bytes(struct.pack("<e", value), "little")
    except OverflowError:
        return 0x7C00 if value > 0 else 0xFC00


def _bf16_bits(value: float) -> int:
    """Round to nearest even, straight from float64 (by way of float32 would round twice)."""
    if math.isnan(value):
        return 0x7FC0
    sign = 0x8000 if math.copysign(1.0, value) < 0 else 0
    magnitude = abs(value)
    if math.isinf(magnitude):
        return sign | 0x7F80
    exponent = max(math.frexp(magnitude)[1] - 1, -126)
    # below 2**-126 the step stays that of the smallest normal number: subnormals
    steps = round(math.ldexp(magnitude, 7 - exponent))
    # carrying into the next exponent, and from there to infinity, is what the bits do by themselves
    return sign | min(((exponent + 126) << 7) + steps, 0x7F80)


def _truth(value: Value) -> int:
    return 1 if value else 0


#: Types whose value is not what struct takes.
_CONVERSIONS: dict[str, Callable[[Value], int]] = {
    "i1": _truth,
    "u1": _truth,
    "fp16": _fp16_bits,
    "bf16": _bf16_bits,
    "fp32": _fp32_bits,
}


@dataclass(frozen=True, slots=True)
class Field:
    """Place of one parameter in the segment, bytes."""

    offset: int
    size: int
    is_pointer: bool


def _format(parameter: Parameter) -> str:
    return _POINTER if parameter.is_pointer else _FORMATS[parameter.type]


def layout(parameters: Sequence[Parameter]) -> tuple[Field, ...]:
    """Where each parameter lies.

    Raises:
        KeyError: a type that has no place here; the key is its text.
    """
    fields, end = [], 0
    for parameter in parameters:
        size = struct.calcsize("<" + _format(parameter))
        offset = -(-end // size) * size
        fields.append(Field(offset, size, parameter.is_pointer))
        end = offset + size
    return tuple(fields)


def segment_bytes(fields: Sequence[Field]) -> int:
    """Size of the segment: to the end of the last parameter, in whole 8 bytes."""
    return -(-max((f.offset + f.size for f in fields), default=0) // 8) * 8


def packer(parameters: Sequence[Parameter], head: str) -> struct.Struct:
    """A `Struct` for the parameters' stored values, led by the fields of the format `head`.

    The head's size must be a multiple of 8, so that alignment does not move.
    """
    parts, end = ["<", head], 0
    fields = layout(parameters)
    for parameter, field in zip(parameters, fields, strict=True):
        parts += [f"{field.offset - end}x", _format(parameter)]
        end = field.offset + field.size
    return struct.Struct("".join([*parts, f"{segment_bytes(fields) - end}x"]))


def conversion(parameter: Parameter) -> Callable[[Value], int] | None:
    """What turns a value into the one that `packer` takes; None when it takes the value itself."""
    return None if parameter.is_pointer else _CONVERSIONS.get(parameter.type)
