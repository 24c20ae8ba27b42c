"""C statements of single operations: each names its result."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from .dialects import Dialect
from .operations import Operations
from .values import BOOL, INT32, DType, Number, RefusedError, Value, dtype_of

__all__ = ["Emitter", "c_name"]


class Emitter(Operations):
    """The text of a kernel's body.

    Attributes:
        lines: what was written.
        double: something is computed in float64.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self.dialect = dialect
        self.lines: list[str] = []
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

    # ------------------------------------------------------------------------------- operations

    def parameter(self, name: str, dtype: DType) -> Value:
        own = c_name(name)
        if dtype.is_bool():
            return self.value(f"{own} != 0", dtype)
        return Value(own, dtype, base=name if dtype.is_ptr() else "")

    def grid(self, what: str, axis: int) -> Value:
        return self.value(f"xt_{what}({axis})", INT32)

    def scaled(self, value: Value, exponent: Value) -> Value:
        if value.dtype.narrow:
            raise RefusedError("ldexp of a half type")
        code = self.call("ldexp", value.dtype, value.code, exponent.code)
        return self.value(code, value.dtype, value, exponent)

    def _literal(self, number: Number, dtype: DType) -> Value:
        if dtype.is_bool():
            return Value("true" if number else "false", dtype)
        if dtype.is_int():
            bits = int(number) & ((1 << dtype.bits) - 1)
            suffix = "UL" if dtype.bits == 64 else "U"
            return Value(f"(({self.dialect.type(dtype)}){bits:#x}{suffix})", dtype)
        self.double = self.double or dtype.is_fp64()
        if dtype.is_fp64():
            return Value(_double(number), dtype)
        single = Value(_single(number), dtype_of("float32"))
        return self.cast(single, dtype) if dtype.narrow else single

    def _pointer(self, value: Value, dtype: DType) -> Value:
        return self.value(
            f"({self.dialect.type(dtype)}){value.code}", dtype, value, base=value.base
        )

    def _converted(self, value: Value, dtype: DType) -> Value:
        have, code = value.dtype, value.code
        if dtype.is_bool():
            return self.value(f"{code} != 0", dtype, value)
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

    def _bits_as(self, value: Value, dtype: DType) -> Value:
        have, code = value.dtype, value.code
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

    def _compared(self, sign: str, a: Value, b: Value) -> Value:
        return self.value(f"{a.code} {sign} {b.code}", BOOL, a, b)

    def _of_integers(self, sign: str, a: Value, b: Value) -> Value:
        dtype = a.dtype
        if sign in ("//", "%"):
            code = f"{a.code} {sign[0]} {b.code}"
        else:  # of signed integers an overflow would be undefined
            wide = self.dialect.type(dtype_of(f"uint{max(32, dtype.bits)}"))
            code = f"({wide}){a.code} {sign} ({wide}){b.code}"
        return self.value(f"({self.dialect.type(dtype)})({code})", dtype, a, b)

    def _of_floats(self, sign: str, a: Value, b: Value) -> Value:
        code = f"{a.code} {sign} {b.code}"
        if sign == "%":
            code = self.call("fmod", a.dtype, a.code, b.code)
        if a.dtype.narrow:
            code = self._rounded(code, a.dtype)
        return self.value(code, a.dtype, a, b)

    def _of_bits(self, sign: str, a: Value, b: Value) -> Value:
        dtype, left = a.dtype, a.code
        if sign == "<<":
            left = f"({self.dialect.type(dtype_of(f'uint{max(32, dtype.bits)}'))}){left}"
        return self.value(f"({self.dialect.type(dtype)})({left} {sign} {b.code})", dtype, a, b)

    def _offset(self, address: Value, offset: Value, sign: str) -> Value:
        code = f"{address.code} {sign} (long){offset.code}"
        return self.value(code, address.dtype, address, offset, base=address.base)

    def _negated(self, value: Value) -> Value:
        return self.value(f"-{value.code}", value.dtype, value)

    def _inverted(self, value: Value) -> Value:
        if value.dtype.is_bool():
            return self.value(f"!{value.code}", BOOL, value)
        return self.value(f"({self.dialect.type(value.dtype)})~{value.code}", value.dtype, value)

    def _chosen(self, condition: Value, a: Value, b: Value) -> Value:
        return self.value(f"{condition.code} ? {a.code} : {b.code}", a.dtype, condition, a, b)

    def _function(self, name: str, dtype: DType, values: Sequence[Value]) -> Value:
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

    def leave_unless(self, condition: Value) -> None:
        """Leave the loop where a condition does not hold."""
        self.line(f"if (!{condition.code}) break;")

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


def c_name(parameter: str) -> str:
    return f"p_{parameter.replace('.', '_')}"


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
