"""Operations of Triton's language by its rules of types, whatever is made of them.

`Emitter` makes C of them, `_template.steps` the steps of one element.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from .values import BOOL, DType, Number, RefusedError, Value, common, dtype_of, fits, of_number

__all__ = ["Operations", "dtype_value"]

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


class Operations(ABC):
    """The operations of a kernel's text, one after the other.

    Attributes:
        reads, writes: parameters whose memory is read or written, with the first line that does.
    """

    def __init__(self) -> None:
        self.reads: dict[str, str] = {}
        self.writes: dict[str, str] = {}

    # ---------------------------------------------------------------------------------- numbers

    def number(self, number: Number, dtype: DType) -> Value:
        """A Python number as a value of a type.

        Raises:
            RefusedError: the type has no such number.
        """
        if dtype.is_bool():
            return self._literal(bool(number), dtype)
        if dtype.is_int():
            whole = int(number)
            if not fits(whole, dtype):
                raise RefusedError(f"the number {whole} as {dtype.name}")
            return self._literal(whole, dtype)
        return self._literal(float(number), dtype)

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
            return self._pointer(value, dtype)
        if have.is_ptr() or dtype.is_ptr():
            raise RefusedError("an address as a number")
        if bitcast:
            if have.bits != dtype.bits or "b" in (have.kind, dtype.kind):
                raise RefusedError(f"the bits of {have.name} as {dtype.name}")
            return self._bits_as(value, dtype)
        return self._converted(value, dtype)

    # ------------------------------------------------------------------------------- operations

    def binary(self, sign: str, first: Any, second: Any) -> Value:
        """Python's operator, as Triton has it: `//` and `%` of integers are towards zero."""
        if sign in ("+", "-") and _is_address(first):
            return self._offset(first, self._distance(second), sign)
        if sign == "+" and _is_address(second):
            return self._offset(second, self._distance(first), sign)
        if sign in _COMPARISONS:
            dtype = common(first, second)
            return self._compared(sign, self.as_type(first, dtype), self.as_type(second, dtype))
        if sign in ("&", "|", "^", "<<", ">>"):
            dtype = common(first, second)
            if not dtype.is_int():
                raise RefusedError(f"{sign} of floating numbers")
            a, b = self.as_type(first, dtype), self.as_type(second, dtype)
            if dtype.is_bool() and sign in ("<<", ">>"):
                raise RefusedError(f"{sign} of bool")
            return self._of_bits(sign, a, b)
        dtype = common(first, second, division=sign in ("/", "//", "%"))
        if sign == "/" and dtype.is_int():
            dtype = dtype_of("float32")
        a, b = self.as_type(first, dtype), self.as_type(second, dtype)
        if dtype.is_floating():
            if sign == "//":
                raise RefusedError("// of floating numbers")
            return self._of_floats(sign, a, b)
        if dtype.is_bool():
            raise RefusedError(f"{sign} of bool")
        return self._of_integers(sign, a, b)

    def _distance(self, by: Any) -> Value:
        offset = self.tensor(by)
        if not offset.dtype.is_int():
            raise RefusedError("an address and no integer")
        return offset

    def negative(self, value: Value) -> Value:
        return self._negated(value) if value.dtype.is_floating() else self.binary("-", 0, value)

    def inverted(self, value: Value) -> Value:
        if not value.dtype.is_int():
            raise RefusedError("~ of floating numbers")
        return self._inverted(value)

    def where(self, condition: Any, first: Any, second: Any) -> Value:
        chosen = self.as_type(condition, BOOL)
        if _is_address(first) or _is_address(second):
            raise RefusedError("a choice of addresses")
        dtype = common(first, second)
        return self._chosen(chosen, self.as_type(first, dtype), self.as_type(second, dtype))

    def math(self, name: str, *operands: Any) -> Value:
        """A mathematical function of floating numbers of one type."""
        values = [self.tensor(operand) for operand in operands]
        dtype = values[0].dtype
        for value in values[1:]:
            dtype = common(dtype_value(dtype), value)
        if not dtype.is_floating():
            raise RefusedError(f"{name} of {dtype.name}")
        return self._function(name, dtype, [self.cast(value, dtype) for value in values])

    # ------------------------------------------------------------------------- what is made of it

    @abstractmethod
    def parameter(self, name: str, dtype: DType) -> Value:
        """The value of a parameter; a bool comes as a byte."""

    @abstractmethod
    def load(self, address: Value, mask: Value | None, where: str) -> Value:
        """An element; 0 where the mask is false."""

    @abstractmethod
    def store(self, address: Value, value: Value, mask: Value | None, where: str) -> None: ...

    @abstractmethod
    def grid(self, what: str, axis: int) -> Value:
        """`block`, this one's number, or `blocks`, how many there are."""

    @abstractmethod
    def scaled(self, value: Value, exponent: Value) -> Value:
        """The value times two to an exponent of int32."""

    @abstractmethod
    def _literal(self, number: Number, dtype: DType) -> Value: ...

    @abstractmethod
    def _pointer(self, value: Value, dtype: DType) -> Value:
        """The address as one of elements of another type."""

    @abstractmethod
    def _bits_as(self, value: Value, dtype: DType) -> Value: ...

    @abstractmethod
    def _converted(self, value: Value, dtype: DType) -> Value: ...

    @abstractmethod
    def _offset(self, address: Value, offset: Value, sign: str) -> Value: ...

    @abstractmethod
    def _compared(self, sign: str, a: Value, b: Value) -> Value: ...

    @abstractmethod
    def _of_bits(self, sign: str, a: Value, b: Value) -> Value: ...

    @abstractmethod
    def _of_floats(self, sign: str, a: Value, b: Value) -> Value: ...

    @abstractmethod
    def _of_integers(self, sign: str, a: Value, b: Value) -> Value: ...

    @abstractmethod
    def _negated(self, value: Value) -> Value: ...

    @abstractmethod
    def _inverted(self, value: Value) -> Value: ...

    @abstractmethod
    def _chosen(self, condition: Value, a: Value, b: Value) -> Value: ...

    @abstractmethod
    def _function(self, name: str, dtype: DType, values: Sequence[Value]) -> Value: ...


def dtype_value(dtype: DType) -> Value:
    """A value of a type, for rules that ask for operands."""
    return Value("", dtype)


def _is_address(operand: Any) -> bool:
    return isinstance(operand, Value) and operand.dtype.is_ptr()
