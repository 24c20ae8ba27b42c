"""C statements of single operations: each names its result."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from .dialects import Dialect
from .values import (
    BOOL,
    DType,
    Number,
    RefusedError,
    Value,
    common,
    dtype_of,
    fits,
    of_number,
)

__all__ = ["Emitter"]

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_WIDE = dtype_of("uint64")


class Emitter:
    """The text of a kernel's body.

    Attributes:
        lines: what was written.
        reads, writes: parameters whose memory is read or written, with the first line that does.
        double: something is computed in float64.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.lines: list[str] = []
        self.reads: dict[str, str] = {}
        self.writes: dict[str, str] = {}
        self.double = False
        self._depth = 2
        self._count = 0

    # ------------------------------------------------------------------------------------- text

    def line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    def open(self, text: str) -> None:
        self.line(text + " {")
        self._depth += 1

    def close(self) -> None:
        self._depth -= 1
        self.line("}")

    def name(self, start: str = "t") -> str:
        self._count += 1
        return f"{start}{self._count}"

    def value(self, code: str, dtype: DType, *parts: Value, base: str = "") -> Value:
        """A new constant of an expression that is made of `parts`."""
        name = self.name()
        self.double = self.double or dtype.is_fp64()
        qualifier = "" if dtype.is_ptr() else "const "
        self.line(f"{qualifier}{self.dialect.type(dtype)} {name} = {code};")
        return Value(name, dtype, any(part.block for part in parts), base)

    # ---------------------------------------------------------------------------------- numbers

    def number(self, number: Number, dtype: DType) -> Value:
        """A Python number as a value of a type.

        Raises:
            RefusedError: the type has no such number.
        """
        if dtype.is_bool():
            return Value("true" if number else "false", dtype)
        if dtype.is_int():
            if isinstance(number, float):
                number = int(number)
            if not fits(number, dtype):
                raise RefusedError(f"the number {number} as {dtype.name}")
            bits = number & ((1 << dtype.bits) - 1)
            suffix = "UL" if dtype.bits == 64 else "U"
            return Value(f"(({self.dialect.type(dtype)}){bits:#x}{suffix})", dtype)
        self.double = self.double or dtype.is_fp64()
        made = float(number)
        if dtype.is_fp64():
            return Value(_double(made), dtype)
        single = Value(_single(made), dtype_of("float32"))
        return self.cast(single, dtype) if dtype.narrow else single

    def tensor(self, operand: Any) -> Value:
        """An operand as a value; a Python number has the type that it has alone."""
        if isinstance(operand, Value):
            return operand
        if not isinstance(operand, bool | int | float):
            raise RefusedError(f"{operand!r} as a number")
        return self.number(operand, of_number(operand))

    def as_type(self, operand: Any, dtype: DType) -> Value:
        """An operand in the type that is computed in."""
        if isinstance(operand, Value):
            return self.cast(operand, dtype)
        return self.number(operand, dtype)

    def cast(self, value: Value, dtype: DType, *, bitcast: bool = False) -> Value:
        have = value.dtype
        if have == dtype:
            return value
        if have.is_ptr() and dtype.is_ptr():
            type_ = self.dialect.type(dtype)
            return self.value(f"({type_}){value.code}", dtype, value, base=value.base)
        if have.is_ptr() or dtype.is_ptr():
            raise RefusedError("an address as a number")
        if bitcast:
            return self._bitcast(value, dtype)
        if dtype.is_bool():
            return self.value(f"{value.code} != 0", dtype, value)
        code = value.code
        if dtype.narrow:
            if have.is_fp64():
                code = f"xt_odd({code})"
            elif have.is_int() and have.bits > 16:
                whole = f"xt_sticky_{self.dialect.type(have)}({code})" if have.bits > 32 else code
                code = f"xt_odd((double){whole})"
                self.double = True
            return self.value(self._rounded(f"(float){code}", dtype), dtype, value)
        return self.value(f"({self.dialect.type(dtype)}){code}", dtype, value)

    def _rounded(self, code: str, dtype: DType) -> str:
        """A float as one that the narrow type has."""
        return f"xt_from_{dtype.name}(xt_to_{dtype.name}({code}))"

    def _bitcast(self, value: Value, dtype: DType) -> Value:
        have, code = value.dtype, value.code
        if have.bits != dtype.bits or "b" in (have.kind, dtype.kind):
            raise RefusedError(f"the bits of {have.name} as {dtype.name}")
        if have.narrow:
            code = f"xt_to_{have.name}({code})"
        elif have.is_floating():
            code = f"{'xt_bits64' if have.is_fp64() else 'xt_bits'}({code})"
        if dtype.narrow:
            code = f"xt_from_{dtype.name}((ushort){code})"
        elif dtype.is_floating():
            unsigned = self.dialect.type(dtype_of(f"uint{dtype.bits}"))
            code = f"{'xt_double' if dtype.is_fp64() else 'xt_float'}(({unsigned}){code})"
        else:
            code = f"({self.dialect.type(dtype)}){code}"
        return self.value(code, dtype, value)

    # ------------------------------------------------------------------------------- operations

    def binary(self, sign: str, first: Any, second: Any) -> Value:
        """Python's operator, as Triton has it: `//` and `%` of integers are towards zero."""
        if sign in ("+", "-") and _is_address(first):
            return self._offset(first, second, sign)
        if sign == "+" and _is_address(second):
            return self._offset(second, first, sign)
        if sign in _COMPARISONS:
            dtype = common(first, second)
            a, b = self.as_type(first, dtype), self.as_type(second, dtype)
            return self.value(f"{a.code} {sign} {b.code}", BOOL, a, b)
        if sign in ("&", "|", "^", "<<", ">>"):
            return self._of_bits(sign, first, second)
        dtype = common(first, second, division=sign in ("/", "//", "%"))
        if sign == "/" and dtype.is_int():
            dtype = dtype_of("float32")
        a, b = self.as_type(first, dtype), self.as_type(second, dtype)
        if dtype.is_floating():
            return self._of_floats(sign, a, b)
        if dtype.is_bool():
            raise RefusedError(f"{sign} of bool")
        if sign in ("//", "%"):
            code = f"{a.code} {sign[0]} {b.code}"
        else:  # of signed integers an overflow would be undefined
            wide = self.dialect.type(dtype_of(f"uint{max(32, dtype.bits)}"))
            code = f"({wide}){a.code} {sign} ({wide}){b.code}"
        return self.value(f"({self.dialect.type(dtype)})({code})", dtype, a, b)

    def _of_floats(self, sign: str, a: Value, b: Value) -> Value:
        if sign == "//":
            raise RefusedError("// of floating numbers")
        code = f"{a.code} {sign} {b.code}"
        if sign == "%":
            code = self.call("fmod", a.dtype, a.code, b.code)
        if a.dtype.narrow:
            code = self._rounded(code, a.dtype)
        return self.value(code, a.dtype, a, b)

    def _of_bits(self, sign: str, first: Any, second: Any) -> Value:
        dtype = common(first, second)
        if not dtype.is_int():
            raise RefusedError(f"{sign} of floating numbers")
        a, b = self.as_type(first, dtype), self.as_type(second, dtype)
        if dtype.is_bool() and sign in ("<<", ">>"):
            raise RefusedError(f"{sign} of bool")
        left = a.code
        if sign == "<<":
            left = f"({self.dialect.type(dtype_of(f'uint{max(32, dtype.bits)}'))}){left}"
        return self.value(f"({self.dialect.type(dtype)})({left} {sign} {b.code})", dtype, a, b)

    def _offset(self, address: Value, by: Any, sign: str) -> Value:
        offset = self.tensor(by)
        if not offset.dtype.is_int():
            raise RefusedError("an address and no integer")
        code = f"{address.code} {sign} (long){offset.code}"
        return self.value(code, address.dtype, address, offset, base=address.base)

    def negative(self, value: Value) -> Value:
        if value.dtype.is_floating():
            return self.value(f"-{value.code}", value.dtype, value)
        return self.binary("-", 0, value)

    def inverted(self, value: Value) -> Value:
        if value.dtype.is_bool():
            return self.value(f"!{value.code}", BOOL, value)
        if not value.dtype.is_int():
            raise RefusedError("~ of floating numbers")
        return self.value(f"({self.dialect.type(value.dtype)})~{value.code}", value.dtype, value)

    def where(self, condition: Any, first: Any, second: Any) -> Value:
        chosen = self.as_type(condition, BOOL)
        if _is_address(first) or _is_address(second):
            raise RefusedError("a choice of addresses")
        dtype = common(first, second)
        a, b = self.as_type(first, dtype), self.as_type(second, dtype)
        return self.value(f"{chosen.code} ? {a.code} : {b.code}", dtype, chosen, a, b)

    def math(self, name: str, *operands: Any) -> Value:
        """A mathematical function of floating numbers of one type."""
        values = [self.tensor(operand) for operand in operands]
        dtype = values[0].dtype
        for value in values[1:]:
            dtype = common(dtype_value(dtype), value)
        if not dtype.is_floating():
            raise RefusedError(f"{name} of {dtype.name}")
        values = [self.cast(value, dtype) for value in values]
        code = self.call(name, dtype, *(value.code for value in values))
        return self.value(self._rounded(code, dtype) if dtype.narrow else code, dtype, *values)

    def call(self, name: str, dtype: DType, *codes: str) -> str:
        """The C text of a mathematical function.

        Raises:
            RefusedError: the language has none.
        """
        found = self.dialect.math.get(name)
        if found is None:
            raise RefusedError(f"the function {name}, which {self.dialect.name} does not have")
        suffix = "" if dtype.is_fp64() else self.dialect.float_suffix
        return f"{found}{suffix}({', '.join(codes)})"

    # ----------------------------------------------------------------------------------- memory

    def load(self, address: Value, mask: Value | None, where: str) -> Value:
        """An element; 0 where the mask is false."""
        element = address.dtype.element_ty
        assert element is not None
        code = f"*{address.code}"
        if element.narrow:
            code = f"xt_from_{element.name}({code})"
        elif element.is_bool():
            code = f"({code} != 0)"
        self.reads.setdefault(address.base, where)
        if mask is None:
            return self.value(code, element, address)
        return self.value(f"{mask.code} ? {code} : 0", element, address, mask)

    def store(self, address: Value, value: Value, mask: Value | None, where: str) -> None:
        element = address.dtype.element_ty
        assert element is not None
        if not address.block and (value.block or (mask is not None and mask.block)):
            raise RefusedError("a store of several lanes to one address")
        code = self._stored_as(self.cast(value, element).code, element)
        conditions = [] if mask is None else [mask.code]
        if not address.block:
            conditions.append("lane == 0")
        guard = f"if ({' && '.join(conditions)}) " if conditions else ""
        self.writes.setdefault(address.base, where)
        self.line(f"{guard}*{address.code} = {code};")

    @staticmethod
    def _stored_as(code: str, element: DType) -> str:
        """A value as it is in memory."""
        if element.narrow:
            return f"xt_to_{element.name}({code})"
        return f"(uchar){code}" if element.is_bool() else code

    # ------------------------------------------------------------------------ loops of the kernel

    def variable(self, before: Value) -> Value:
        """A variable that begins with a value."""
        name = self.name("v")
        self.line(f"{self.dialect.type(before.dtype)} {name} = {before.code};")
        # what a body makes of it may differ between lanes
        return Value(name, before.dtype, True, before.base)

    def current(self, variable: Value) -> Value:
        """The present value of a variable."""
        return self.value(variable.code, variable.dtype, variable, base=variable.base)

    def assign(self, pairs: Sequence[tuple[Value, Value]]) -> None:
        """Give variables, of which each was made constant by `current`, their next values."""
        for variable, after in pairs:
            self.line(f"{variable.code} = {after.code};")


def dtype_value(dtype: DType) -> Value:
    """A value of a type, for rules that ask for operands."""
    return Value("", dtype)


def _is_address(operand: Any) -> bool:
    return isinstance(operand, Value) and operand.dtype.is_ptr()


def _double(number: float) -> str:
    if not math.isfinite(number):
        bits = "0x7ff8000000000000UL" if number != number else "0x7ff0000000000000UL"
        return f"{'-' if number < 0 else ''}xt_double({bits})"
    return f"({number.hex()})"


def _single(number: float) -> str:
    """Rounded to float32, to the nearest."""
    if not math.isfinite(number):
        bits = "0x7fc00000U" if number != number else "0x7f800000U"
        return f"({'-' if number < 0 else ''}xt_float({bits}))"
    try:
        (near,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        return _single(math.copysign(math.inf, number))
    return f"({near.hex()}f)"
