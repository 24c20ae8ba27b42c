"""A kernel's work on one element, as steps that templates have an instruction for."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from ..._values.value_classes import value_class
from .._c.folding import FOLDED
from .._c.operations import Operations
from .._c.values import BOOL, DType, Number, RefusedError, Value, dtype_of

__all__ = ["Operand", "Recorded", "Step", "Steps", "held", "in_memory"]

#: The names that instructions have in the tables of each language.
_NAMES: Final = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "//": "div",
    "%": "rem",
    "&": "and",
    "|": "or",
    "^": "xor",
    "<<": "shl",
    ">>": "shr",
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
}
#: How `struct` names the types of floats.
_PACKED: Final = {"float16": "<e", "bfloat16": "bfloat16", "float32": "<f"}
_LONG, _FLOAT, _DOUBLE = (dtype_of(name) for name in ("int64", "float32", "float64"))


@value_class(frozen=True, slots=True)
class Operand(Value):
    """A value by its number, or a number that is known.

    Attributes:
        number: of the value; -1 of a known number.
        constant: the known number.
    """

    number: int = -1
    constant: Number = 0

    @property
    def known(self) -> bool:
        return self.number < 0


class Step(NamedTuple):
    """An instruction: `add`, `lt`, `select`, `cast`, `load`, or a mathematical function.

    Attributes:
        dtype: of the operands; of a cast, what it is from; of memory, the element in it.
        operands: of a load the address, of a store the address and the value; a mask may follow.
        name: of a parameter, whose value the result is; else empty.
    """

    name: str
    dtype: DType
    operands: tuple[Operand, ...]
    result: Operand
    parameter: str = ""


class Recorded(NamedTuple):
    """The steps of a function with unknown values, to be repeated with known ones.

    Attributes:
        inputs: how many values it takes; they are numbered first.
        steps: those that follow.
        result: its value.
    """

    inputs: int
    steps: tuple[Step, ...]
    result: Operand


def held(dtype: DType) -> DType:
    """The type that a value of a type is computed in: a half type's is a float of its values."""
    return _FLOAT if dtype.narrow else dtype


@dataclass(slots=True, eq=False)
class Steps(Operations):
    """The steps of one element, in their order.

    Attributes:
        native: the mathematical functions that the language has, by type.
        composed: calls a function that is made of other steps, by its name (`composed`).
        found: the steps.
    """

    native: Callable[[str, DType], bool]
    composed: Callable[[str, Sequence[Value]], Value]
    reads: dict[str, str] = field(default_factory=dict)
    writes: dict[str, str] = field(default_factory=dict)
    found: list[Step] = field(default_factory=list)
    count: int = 0
    _same: dict[tuple[object, ...], Operand] = field(default_factory=dict)
    _halves: dict[int, Value] = field(default_factory=dict)

    def add(
        self, name: str, dtype: DType, result: DType, *operands: Value, parameter: str = "",
        base: str = "",
    ) -> Operand:  # fmt: skip
        """A step's result; that of an equal one, if there is one."""
        given: tuple[Any, ...] = operands
        about: tuple[object, ...] = (name, dtype, result, parameter)
        known = True
        for one in given:
            if one.number < 0:  # -0.0 and True are other numbers than 0.0 and 1
                about += (repr(one.constant),)
            else:
                known = False
                about += (one.number,)
        if known and given and name != "constant":
            first = given[0]
            given = (self.add("constant", first.dtype, first.dtype, first), *given[1:])
            return self.add(name, dtype, result, *given, parameter=parameter, base=base)
        made = self._same.get(about)
        if made is not None:
            return made
        made = Operand("", result, base=base, number=self.count)
        self.count += 1
        self.found.append(Step(name, dtype, given, made, parameter))
        if name != "load":
            self._same[about] = made
        return made

    @staticmethod
    def _operand(value: Value) -> Operand:
        assert isinstance(value, Operand)
        return value

    def repeat(self, about: tuple[object, ...], done: Recorded, values: Sequence[Value]) -> Operand:
        """Do what was recorded; `about` names it."""
        given: list[Any] = [
            self.add("constant", v.dtype, v.dtype, v) if self._operand(v).known else v
            for v in values
        ]
        about = (about, *(one.number for one in given))
        made = self._same.get(about)
        if made is not None:
            return made
        same = self._same
        for name, dtype, operands, result, _ in done.steps:
            own = tuple([given[o.number] if o.number >= 0 else o for o in operands])
            one = (
                *(name, dtype, result.dtype, ""),
                *[o.number if o.number >= 0 else repr(o.constant) for o in own],
            )
            new = same.get(one)  # functions share steps
            if new is None:
                new = same[one] = Operand("", result.dtype, number=self.count)
                self.count += 1
                self.found.append(Step(name, dtype, own, new))
            given.append(new)
        made = done.result if done.result.known else given[done.result.number]
        self._same[about] = made
        return made

    def index(self) -> Operand:
        """The number of the element, which the skeleton counts."""
        return self.add("index", _LONG, _LONG)

    # ----------------------------------------------------------------------------------- memory

    def parameter(self, name: str, dtype: DType) -> Operand:
        if dtype.is_bool():
            byte = dtype_of("uint8")
            raw = self.add("parameter", byte, byte, parameter=name)
            return self.add("ne", byte, BOOL, raw, self._literal(0, byte))
        base = name if dtype.is_ptr() else ""
        return self.add("parameter", dtype, dtype, parameter=name, base=base)

    def load(self, address: Value, mask: Value | None, where: str) -> Value:
        element = address.dtype.element_ty
        assert element is not None
        self.reads.setdefault(address.base, where)
        kept = in_memory(element)
        raw = self.add("load", kept, kept, address, *self._masks(mask))
        if element.narrow:
            return self._of_half(self.cast(raw, dtype_of("uint32")), element)
        return self.cast(raw, BOOL) if element.is_bool() else raw

    def store(self, address: Value, value: Value, mask: Value | None, where: str) -> None:
        element = address.dtype.element_ty
        assert element is not None
        self.writes.setdefault(address.base, where)
        kept, made = in_memory(element), self.cast(value, element)
        if element.narrow:
            made = self._half_bits(made, element)
        operands = address, self.cast(made, kept), *self._masks(mask)
        given = tuple(map(self._operand, operands))
        self.found.append(Step("store", kept, given, Operand("", kept)))

    def _masks(self, mask: Value | None) -> tuple[Value, ...]:
        if mask is None or (self._operand(mask).known and self._operand(mask).constant):
            return ()
        return (mask,)

    def grid(self, what: str, axis: int) -> Value:
        raise RefusedError("the number of a block")

    # ------------------------------------------------------------------------------- operations

    def scaled(self, value: Value, exponent: Value) -> Value:
        return self._function("ldexp", value.dtype, [value, exponent])

    def _literal(self, number: Number, dtype: DType) -> Operand:
        if dtype.is_floating() and not dtype.is_fp64():
            number = _nearest(_nearest(number, "<f"), _PACKED[dtype.name])
        return Operand("", dtype, constant=number)

    def _pointer(self, value: Value, dtype: DType) -> Value:
        return self.add("pointer", value.dtype, dtype, value, base=value.base)

    def _bits_as(self, value: Value, dtype: DType) -> Value:
        have = value.dtype
        if have.narrow:
            return self.cast(self._half_bits(value, have), dtype)
        if dtype.narrow:
            bits = self.cast(value, dtype_of("uint16"))
            return self._of_half(self.cast(bits, dtype_of("uint32")), dtype)
        return self.add("bits", have, dtype, value)

    def _of_half(self, bits: Value, dtype: DType) -> Operand:
        """The half type's number of these bits, as uint32."""
        made = replace(self._operand(self.composed(f"from_{dtype.name}", [bits])), dtype=dtype)
        self._halves[made.number] = bits
        return made

    def _converted(self, value: Value, dtype: DType) -> Value:
        have, one = value.dtype, self._operand(value)
        if one.known and not dtype.narrow:
            return self.number(one.constant, dtype)
        if dtype.is_bool():
            return self.add("ne", held(have), BOOL, value, self._literal(0, held(have)))
        if dtype.narrow:
            return self._rounded(self._as_float(value), dtype)
        if held(have) == dtype:
            return self._held(value)
        return self.add("cast", held(have), dtype, value)

    def _as_float(self, value: Value) -> Value:
        """A float that becomes the half type's number that the value itself would become."""
        have = value.dtype
        if have.is_int() and have.bits > 16:
            if have.bits > 32:
                value = self.composed(f"sticky_{have.name}", [value])
            value = self.cast(value, _DOUBLE)
        if value.dtype.is_fp64():
            return self.composed("odd", [value])
        return value if held(value.dtype) == _FLOAT else self.cast(value, _FLOAT)

    def _rounded(self, value: Value, dtype: DType) -> Operand:
        return self._of_half(self._half_bits(value, dtype), dtype)

    def _half_bits(self, value: Value, dtype: DType) -> Value:
        """The bits of the half type's number that is next to a float, as uint32."""
        if value.dtype == dtype and self._operand(value).number in self._halves:
            return self._halves[self._operand(value).number]
        return self.composed(f"to_{dtype.name}", [self._held(value)])

    def _held(self, value: Value) -> Operand:
        """The value in the type that it is computed in."""
        return replace(self._operand(value), dtype=held(value.dtype))

    def _compared(self, sign: str, a: Value, b: Value) -> Value:
        if self._operand(a).known and self._operand(b).known:
            same = FOLDED[sign](self._operand(a).constant, self._operand(b).constant)
            return self._literal(bool(same), BOOL)
        if not a.dtype.is_bool():
            return self.add(_NAMES[sign], held(a.dtype), BOOL, a, b)
        if sign not in ("==", "!="):
            byte = dtype_of("uint8")
            return self._compared(sign, self.cast(a, byte), self.cast(b, byte))
        apart = self._of_bits("^", a, b)
        return self.inverted(apart) if sign == "==" else apart

    def _of_bits(self, sign: str, a: Value, b: Value) -> Value:
        for one, other in ((a, b), (b, a)):
            if a.dtype.is_bool() and sign in "&|" and self._operand(one).known:
                decided = bool(self._operand(one).constant) == (sign == "|")
                return one if decided else other
        return self.add(_NAMES[sign], a.dtype, a.dtype, a, b)

    def _of_floats(self, sign: str, a: Value, b: Value) -> Value:
        if sign == "%":
            return self._function("fmod", a.dtype, [a, b])
        return self._settled(self.add(_NAMES[sign], held(a.dtype), held(a.dtype), a, b), a.dtype)

    def _settled(self, value: Operand, dtype: DType) -> Operand:
        return self._rounded(value, dtype) if dtype.narrow else value

    def _of_integers(self, sign: str, a: Value, b: Value) -> Value:
        return self.add(_NAMES[sign], a.dtype, a.dtype, a, b)

    def _offset(self, address: Value, offset: Value, sign: str) -> Value:
        distance = self.cast(offset, _LONG)
        if sign == "-":
            distance = self.negative(distance)
        return self.add(
            "offset", address.dtype, address.dtype, address, distance, base=address.base
        )

    def _negated(self, value: Value) -> Value:
        one = self._operand(value)
        if one.known:
            return self._literal(-one.constant, value.dtype)
        return self.add("neg", held(value.dtype), value.dtype, value)

    def _inverted(self, value: Value) -> Value:
        one = self._operand(value)
        if one.known and value.dtype.is_bool():
            return self._literal(not one.constant, BOOL)
        return self.add("not", value.dtype, value.dtype, value)

    def _chosen(self, condition: Value, a: Value, b: Value) -> Value:
        known = self._operand(condition)
        if known.known:
            return a if known.constant else b
        if not a.dtype.is_bool():
            return self.add("select", held(a.dtype), a.dtype, condition, a, b)
        first = self._of_bits("&", condition, a)
        return self._of_bits("|", first, self._of_bits("&", self.inverted(condition), b))

    def _function(self, name: str, dtype: DType, values: Sequence[Value]) -> Value:
        own = held(dtype)
        if self.native(name, own):
            return self._settled(self.add(name, own, own, *values), dtype)
        made = self.composed(f"{name}_{own.name}", list(map(self._held, values)))
        return self._settled(self._operand(self.cast(made, own)), dtype)


def _nearest(number: float, packed: str) -> float:
    """Rounded to a floating type."""
    try:
        if packed != "bfloat16":
            (near,) = struct.unpack(packed, struct.pack(packed, number))
            return float(near)
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
        if number == number:
            bits += 0x7FFF + (bits >> 16 & 1)
        (near,) = struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))
        return float(near)
    except OverflowError:
        return math.copysign(math.inf, number)


def in_memory(dtype: DType) -> DType:
    """Return what an element is in memory: the bits of half types, a byte of bool."""
    if dtype.narrow or dtype.is_bool():
        return dtype_of("uint16" if dtype.narrow else "uint8")
    return dtype
