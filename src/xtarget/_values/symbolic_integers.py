"""`SymInt`: an integer that tells a tracer what is computed with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

__all__ = ["COMPUTE", "SymInt", "is_number", "peek", "symbolic_types"]

COMPUTE: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lshift": lambda a, b: a << b,
    "rshift": lambda a, b: a >> b,
    "neg": lambda a: -a,
    "bits": lambda a: a.bit_length(),
}


class Traces(Protocol):
    """The tracer that a symbol tells of its operations."""

    def operation(self, how: str, *given: Any) -> Any: ...
    def less(self, a: Any, b: Any) -> bool: ...
    def equal(self, a: Any, b: Any) -> bool: ...


def peek(value: Any) -> Any:
    """The value of a symbolic integer, without a guard; anything else as it is."""
    return value.value if type(value) is SymInt else value


def is_number(value: Any) -> bool:
    return type(value) is SymInt or isinstance(value, int)


class SymInt:
    """An integer of a traced computation. It passes as `int` in `isinstance`."""

    __slots__ = ("name", "tracer", "value")

    def __init__(self, tracer: Traces, name: str, value: int) -> None:
        self.tracer, self.name, self.value = tracer, name, value

    @property  # type: ignore[misc]  # `isinstance` reads it
    def __class__(self) -> type:
        return int

    # ------------------------------------------------------------------- what needs the number

    def __index__(self) -> int:
        self.tracer.equal(self, self.value)
        return self.value

    __int__ = __trunc__ = __hash__ = __index__

    def __bool__(self) -> bool:
        return not self.tracer.equal(self, 0)

    def __float__(self) -> float:
        return float(self.__index__())

    def __str__(self) -> str:
        return str(self.__index__())

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(self.__index__(), spec)

    def __getattr__(self, name: str) -> Any:  # what else int has
        return getattr(self.__index__(), name)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a symbolic integer belongs to its process")

    # -------------------------------------------------------------------------------- comparing

    def __eq__(self, other: object) -> bool:
        if not is_number(other):
            return self.__index__() == other
        return self.tracer.equal(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        if not is_number(other):
            return bool(self.__index__() < other)
        return self.tracer.less(self, other)

    def __gt__(self, other: Any) -> bool:
        if not is_number(other):
            return bool(self.__index__() > other)
        return self.tracer.less(other, self)

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    # ------------------------------------------------------------------------------- arithmetic

    def __neg__(self) -> Any:
        return self.tracer.operation("neg", self)

    def __pos__(self) -> SymInt:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __ceil__(self) -> SymInt:
        return self

    __floor__ = __ceil__

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None else round(self.__index__(), digits)

    def __invert__(self) -> Any:
        return -self - 1

    def bit_length(self) -> Any:
        return self.tracer.operation("bits", self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self.__index__() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.__index__()

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is None and type(other) is int and 1 <= other <= 4:
            result: Any = self
            for _ in range(other - 1):
                result = result * self
            return result
        return pow(self.__index__(), other, modulus)

    def __rpow__(self, other: Any) -> Any:
        return other ** self.__index__()


def _both_ways(how: str, plain: Callable[[Any, Any], Any], *, guarded: str = "") -> None:
    """Give `SymInt` an operation with the symbol on either side.

    Args:
        guarded: of the right operand: `nonzero` or `positive`; else Python's own error is raised.
    """

    def make(a: Any, b: Any) -> Any:
        if not (is_number(a) and is_number(b)):
            return plain(
                a.__index__() if type(a) is SymInt else a, b.__index__() if type(b) is SymInt else b
            )
        tracer = a.tracer if type(a) is SymInt else b.tracer
        if (guarded == "nonzero" and b == 0) or (guarded == "positive" and b < 0):
            return plain(peek(a), peek(b))  # raises
        return tracer.operation(how, a, b)

    setattr(SymInt, f"__{how}__", make)
    setattr(SymInt, f"__r{how}__", lambda self, other: make(other, self))


for _how in ("add", "sub", "mul", "and", "or", "xor"):
    _both_ways(_how, COMPUTE[_how])
for _how in ("floordiv", "mod"):
    _both_ways(_how, COMPUTE[_how], guarded="nonzero")
for _how in ("lshift", "rshift"):
    _both_ways(_how, COMPUTE[_how], guarded="positive")


#: Types of integers that a trace keeps as they are: ours, and torch's with `xtarget.torch`.
symbolic_types: set[type] = {SymInt}
