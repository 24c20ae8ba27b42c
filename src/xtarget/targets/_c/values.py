"""Types and values of a kernel that is translated, by Triton's rules of promotion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import cache
from typing import Any, TypeAlias

from ..._values.value_classes import value_class

__all__ = [
    "BOOL",
    "INT32",
    "DType",
    "Number",
    "RefusedError",
    "Tile",
    "Value",
    "common",
    "dtype_of",
    "of_number",
]


class RefusedError(Exception):
    """The translator does not know this; the text says what, as the end of a sentence."""


Number: TypeAlias = bool | int | float


def _is(name: str) -> Callable[[DType], bool]:
    return lambda dtype: dtype.name == name


@value_class(frozen=True, slots=True, eq=False)
class DType:
    """A scalar type, or a pointer to one. The members have Triton's names. There is one object of
    each (`dtype_of`, `pointer_to`).

    Attributes:
        kind: `b`, `i`, `u`, `f`, or `p` for a pointer.
        bits: of the number.
        name: as NumPy and Triton's language have it (`float32`, `int1`).
        element_ty: what a pointer points to.
        narrow: kept as a float that has one of its values.
    """

    kind: str
    bits: int
    name: str
    element_ty: DType | None = None
    narrow: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "narrow", self.kind == "f" and self.bits == 16)

    @property
    def scalar(self) -> DType:
        return self

    @property
    def primitive_bitwidth(self) -> int:
        return self.bits

    @property
    def int_bitwidth(self) -> int:
        return self.bits

    def is_floating(self) -> bool:
        return self.kind == "f"

    def is_int(self) -> bool:
        return self.kind in "biu"

    def is_int_signed(self) -> bool:
        return self.kind == "i"

    def is_int_unsigned(self) -> bool:
        return self.kind in "bu"

    def is_bool(self) -> bool:
        return self.kind == "b"

    def is_ptr(self) -> bool:
        return self.kind == "p"

    is_int1 = is_bool
    is_fp16, is_bf16 = _is("float16"), _is("bfloat16")
    is_fp32, is_fp64 = _is("float32"), _is("float64")


BOOL = DType("b", 1, "int1")
_INTEGERS = tuple(
    DType(kind, bits, f"{word}{bits}")
    for kind, word in (("i", "int"), ("u", "uint"))
    for bits in (8, 16, 32, 64)
)
_FLOATS = (
    DType("f", 16, "float16"),
    DType("f", 16, "bfloat16"),
    DType("f", 32, "float32"),
    DType("f", 64, "float64"),
)
_BY_NAME = {dtype.name: dtype for dtype in (BOOL, *_INTEGERS, *_FLOATS)} | {"bool": BOOL}
#: As Triton writes the types of parameters.
_SIGNATURE = {
    **{f"{dtype.kind}{dtype.bits}": dtype for dtype in _INTEGERS},
    "i1": BOOL,
    "u1": BOOL,
    "fp16": _FLOATS[0],
    "bf16": _FLOATS[1],
    "fp32": _FLOATS[2],
    "fp64": _FLOATS[3],
}
INT32, _FLOAT32, _FLOAT64 = _BY_NAME["int32"], _FLOATS[2], _FLOATS[3]


@cache
def dtype_of(name: str) -> DType:
    """A type by NumPy's name, or as a signature has it (`fp32`, `*i8`).

    Raises:
        RefusedError: C has none like it.
    """
    if name.startswith("*"):
        return pointer_to(dtype_of(name[1:]))
    found = _BY_NAME.get(name) or _SIGNATURE.get(name)
    if found is None:
        raise RefusedError(f"the type {name}")
    return found


@cache
def pointer_to(element: DType) -> DType:
    return DType("p", 64, f"pointer<{element.name}>", element)


@value_class(frozen=True, slots=True)
class Value:
    """A number or an address that is known when the kernel runs.

    Attributes:
        code: C that names it; it has no effect.
        dtype: its type.
        block: every lane of a block has its own.
        base: of an address, the parameter that it comes from.
    """

    code: str
    dtype: DType
    block: bool = False
    base: str = ""

    @property
    def dims(self) -> tuple[Any, ...]:
        """Its shape; one axis, if lanes have numbers of their own."""
        return ("block",) if self.block else ()


@value_class(frozen=True, slots=True)
class Tile(Value):
    """The elements of a block of any shape (`tiles`).

    Attributes:
        code: stands for the element at the indices of the loop that it is used in.
        array: where the elements are, if they are kept.
        sizes: of the array.
        shape: of the value.
        axes: of the value, as axes of the array; None for one that was added.
    """

    array: str = ""
    sizes: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    axes: tuple[int | None, ...] = ()

    @property
    def dims(self) -> tuple[Any, ...]:
        return self.shape


def of_number(number: Number) -> DType:
    """The type of a Python number that stands alone."""
    if isinstance(number, bool):
        return BOOL
    if isinstance(number, int):
        for dtype in (INT32, _BY_NAME["uint32"], _BY_NAME["int64"], _BY_NAME["uint64"]):
            if fits(number, dtype):
                return dtype
        raise RefusedError(f"the integer {number}")
    size = abs(number)
    ordinary = 2.0**-126 <= size <= (2 - 2**-23) * 2.0**127
    plain = number != number or size in (0.0, float("inf")) or ordinary
    return _FLOAT32 if plain else _FLOAT64


def fits(number: int, dtype: DType) -> bool:
    """Return whether an integer type has the number."""
    signed = dtype.kind == "i"
    low = -(1 << (dtype.bits - 1)) if signed else 0
    return low <= number < low + (1 << dtype.bits)


def _type(operand: Any) -> DType:
    return operand.dtype if isinstance(operand, Value) else of_number(operand)


_RANK = {"b": 0, "i": 1, "u": 1, "f": 2}


def common(first: Any, second: Any, *, division: bool = False) -> DType:
    """The type that two operands are computed in. A Python number takes the other one's type,
    unless it is of a higher kind.
    """
    a, b = _type(first), _type(second)
    if a.is_ptr() or b.is_ptr():
        raise RefusedError("arithmetic of addresses")
    numbers = isinstance(first, Value), isinstance(second, Value)
    if numbers[0] != numbers[1]:
        tensor, number = (a, b) if numbers[0] else (b, a)
        if _RANK[number.kind] <= _RANK[tensor.kind]:
            a = b = tensor
    if "float64" in (a.name, b.name):
        return _FLOAT64
    floating = a.is_floating() or b.is_floating()
    if floating and (division or "float32" in (a.name, b.name)):
        return _FLOAT32
    if "float16" in (a.name, b.name):
        return _FLOATS[0]
    if floating:
        return a if a == b else _FLOAT32
    return _integers(a, b)


def _integers(a: DType, b: DType) -> DType:
    if a.is_int_signed() == b.is_int_signed():
        return a if a.bits > b.bits else b
    unsigned, signed = (a, b) if a.is_int_unsigned() else (b, a)
    return unsigned if unsigned.bits >= signed.bits else signed
