"""The bytes that a kernel reads its arguments from (AMD: the kernarg segment).

Triton lays parameters out in their order, each on its natural alignment, hidden pointers last.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from ..._values.types import Parameter
from ..._values.value_classes import value_class
from .._objects.scalars import PACK
from ..base import Value

__all__ = ["Field", "conversion", "layout", "packer", "segment_bytes"]

_POINTER = "Q"
#: Triton's scalar types: struct format of the value as it is stored.
_FORMATS = {
    **dict(zip(("i8", "i16", "i32", "i64"), "bhiq", strict=True)),
    **dict(zip(("u8", "u16", "u32", "u64"), "BHIQ", strict=True)),
    **dict(zip(("i1", "u1", "fp16", "bf16", "fp32", "fp64"), "BBHHId", strict=True)),
}


#: Types whose value goes through its stored bits, because struct does not take or round it.
_BY_BITS = ("i1", "u1", "fp16", "bf16", "fp32")


@value_class(frozen=True, slots=True)
class Field:
    """Place of one parameter in the segment, bytes."""

    offset: int
    size: int
    is_pointer: bool


def _format(parameter: Parameter) -> str:
    return _POINTER if parameter.is_pointer else _FORMATS[parameter.type]


def layout(parameters: Sequence[Parameter]) -> tuple[Field, ...]:
    """Return the place of each parameter.

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


def packer(parameters: Sequence[Parameter], head: str = "", nbytes: int = 0) -> struct.Struct:
    """A `Struct` for the parameters' stored values.

    Args:
        parameters: of the kernel.
        head: format of what comes before them; a multiple of 8 bytes.
        nbytes: size of the segment, as the binary says it (zeros behind the parameters); 0: as
            Triton makes it.
    """
    parts, end = ["<", head], 0
    fields = layout(parameters)
    for parameter, field in zip(parameters, fields, strict=True):
        parts += [f"{field.offset - end}x", _format(parameter)]
        end = field.offset + field.size
    return struct.Struct("".join([*parts, f"{max(nbytes or segment_bytes(fields), end) - end}x"]))


def conversion(parameter: Parameter) -> Callable[[Value], int] | None:
    """Return a function that converts a value for `packer`; None if `packer` takes it as it is."""
    if parameter.type not in _BY_BITS:
        return None
    pack = PACK[parameter.type]
    return lambda value: int.from_bytes(pack(value), "little")
