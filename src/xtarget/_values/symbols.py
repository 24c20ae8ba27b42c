"""Symbolic integers: what a computation on sizes would do for other sizes.

A `Tracer` gives symbols that stand for integers of a call and that have their values. Arithmetic on
a symbol gives an expression with its value. A comparison answers for the values at hand, and the
tracer records it as a guard: other values for which all guards hold take the same branches, so the
expressions give their results. Whatever needs a number (`int`, `range`, a look-up, text) gets the
value, with a guard that the expression equals it. So a computation stays right whatever it does.

`Tracer.program` puts guards and expressions in a row, `Tracer.compile` makes one Python function of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from .programs import TEXT, IntegerProgram, Name, Operand, Program, Step

__all__ = ["SymInt", "Tracer", "peek"]

_Bounds = tuple[int | None, int | None]
#: An operation and its operands.
_Made = tuple[str, tuple[Operand, ...]]

_COMPUTE: dict[str, Callable[..., int]] = {
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
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
#: Powers of two that limits are followed through.
_MOST_BITS = 128
_EITHER_WAY = frozenset({"add", "mul", "and", "or", "xor"})
#: (operation, place of the number, the number): the other operand is the result.
_NO_CHANGE = frozenset(
    {
        ("add", 0, 0),
        ("add", 1, 0),
        ("sub", 1, 0),
        ("mul", 0, 1),
        ("mul", 1, 1),
        ("floordiv", 1, 1),
        ("lshift", 1, 0),
        ("rshift", 1, 0),
    }
)


class _Range:
    """What the guards on one expression say about it.

    Attributes:
        given: its lower limit without any guard.
    """

    __slots__ = ("given", "high", "low", "never")

    def __init__(self, given: int | None = None) -> None:
        self.given = self.low = given
        self.high: int | None = None
        self.never: set[int] = set()

    @property
    def guarded(self) -> bool:
        return self.low != self.given or self.high is not None or bool(self.never)

    def holds(self, value: int) -> bool:
        return (
            (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and value not in self.never
        )

    def narrow(self, low: int | None, high: int | None) -> None:
        if low is not None and (self.low is None or low > self.low):
            self.low = low
        if high is not None and (self.high is None or high < self.high):
            self.high = high
        for value in sorted(self.never):
            if value == self.low:
                self.low += 1
        for value in sorted(self.never, reverse=True):
            if value == self.high:
                self.high -= 1
        low, high = self.low, self.high
        self.never = {
            value
            for value in self.never
            if (low is None or value > low) and (high is None or value < high)
        }

    def checks(self, name: str) -> Iterator[tuple[str, Operand, Operand]]:
        if self.low is not None and self.low == self.high:
            yield "==", name, self.low
        else:
            if self.low is not None and self.low != self.given:
                yield "<=", self.low, name
            if self.high is not None:
                yield "<=", name, self.high
        for value in sorted(self.never):
            yield "!=", name, value

    def text(self, name: str) -> Iterator[str]:
        if self.low is not None and self.low == self.high:
            yield f"{name} == {self.low}"
        elif self.high is not None and self.low is not None and self.low != self.given:
            yield f"{self.low} <= {name} <= {self.high}"
        elif self.high is not None:
            yield f"{name} <= {self.high}"
        elif self.low is not None and self.low != self.given:
            yield f"{name} >= {self.low}"
        for value in sorted(self.never):
            yield f"{name} != {value}"


def _interval(how: str, a: _Bounds, b: _Bounds = (None, None)) -> _Bounds:
    """Between what a result is when its operands are within theirs; None where it has no limit."""
    (al, ah), (bl, bh) = a, b
    if how == "neg":
        return None if ah is None else -ah, None if al is None else -al
    if how == "add":
        return _sum(al, bl), _sum(ah, bh)
    if how == "sub":
        return _sum(al, None if bh is None else -bh), _sum(ah, None if bl is None else -bl)
    if how == "mod" and bl is not None and bl > 0:
        return 0, None if bh is None else bh - 1
    if how == "floordiv" and bl is not None and bl > 0:
        return _quotient(a, b)
    if how == "mul" and not (al is None or ah is None or bl is None or bh is None):
        products = (al * bl, al * bh, ah * bl, ah * bh)
        return min(products), max(products)
    if al is None or al < 0 or (how != "bits" and (bl is None or bl < 0)):
        return None, None
    if how == "bits":
        return al.bit_length(), None if ah is None else ah.bit_length()
    assert bl is not None
    if how == "mul":
        return al * bl, None
    if how == "lshift" and bl <= _MOST_BITS:
        if ah is None or bh is None or bh > _MOST_BITS:
            return al << bl, None
        return al << bl, ah << bh
    if how == "rshift":
        return 0 if bh is None else al >> bh, None if ah is None else ah >> bl
    return 0, None


def _quotient(a: _Bounds, b: _Bounds) -> _Bounds:
    """Of `a // b` for positive b."""
    (al, ah), (bl, bh) = a, b
    assert bl is not None
    low = high = None
    if al is not None:
        low = al // bl if al < 0 else 0 if bh is None else al // bh
    if ah is not None:
        high = ah // bl if ah >= 0 else -1 if bh is None else ah // bh
    return low, high


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _up(a: int | None, b: int) -> int | None:
    return None if a is None else -(-a // b)


def _through(
    made: _Made, low: int | None, high: int | None, least: int | None
) -> tuple[Operand, int | None, int | None] | None:
    """Limits of an operand that say the same as limits of the result; None: there are none.

    Args:
        made: the operation and its operands.
        least: lower limit of its first operand.
    """
    how, operands = made
    x, c = operands[0], operands[-1]

    if how == "neg":
        return x, None if high is None else -high, None if low is None else -low
    if how == "sub" and type(x) is int:
        return c, None if high is None else x - high, None if low is None else x - low
    if how == "lshift" and x == 1:
        most = None if high is None or high < 1 else high.bit_length() - 1
        return c, None if low is None or low <= 1 else (low - 1).bit_length(), most
    wide = max(low or 0, high or 0) > _MOST_BITS
    if how == "bits" and least is not None and least >= 0 and not wide:
        most = None if high is None else (1 << high) - 1
        return x, None if low is None or low <= 0 else 1 << (low - 1), most
    if type(c) is not int:
        return None
    if how == "add":
        return x, _sum(low, -c), _sum(high, -c)
    if how == "sub":
        return x, _sum(low, c), _sum(high, c)
    if how == "mul" and c > 0:
        return x, _up(low, c), None if high is None else high // c
    if (how == "floordiv" and c > 0) or (how == "rshift" and 0 < c <= _MOST_BITS):
        step = c if how == "floordiv" else 1 << c
        return (
            x,
            None if low is None else low * step,
            None if high is None else high * step + step - 1,
        )
    return None


class Tracer:
    """Symbols of one computation, with what it does and compares."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self._named: dict[str, SymInt] = {}
        self._made: dict[_Made, SymInt] = {}
        #: By name, in the order in which they were made.
        self._how: dict[str, _Made] = {}
        self._ranges: dict[str, _Range] = {}
        self._between: dict[tuple[str, str, str], None] = {}

    def symbol(self, shown: str, value: int, *, least: int | None = None) -> Any:
        """An integer of the call.

        Args:
            shown: what the guards' text calls it.
            least: it is never below.
        """
        name = f"v{len(self._shown)}"
        self._shown[name] = shown
        self._ranges[name] = _Range(least)
        return self._new(name, value)

    def _new(self, name: str, value: int) -> SymInt:
        self._named[name] = made = SymInt(self, name, value)
        return made

    # ------------------------------------------------------------------------------ expressions

    def operation(self, how: str, *given: Any) -> Any:
        """The result of an operation: a symbolic integer, or a number where it is one."""
        operands = [self._operand(value) for value in given]
        value = _COMPUTE[how](*map(peek, given))
        if not any(type(one) is str for one in operands):
            return value
        for place, one in enumerate(operands):
            if type(one) is int and (how, place, one) in _NO_CHANGE:
                return given[1 - place]
        if how in ("mul", "and") and 0 in operands:
            return 0
        if how == "sub" and operands[0] == operands[1]:
            return 0
        if how == "neg" and self._operation(operands[0]) == "neg":
            return self._named[str(self._how[str(operands[0])][1][0])]
        if how in _EITHER_WAY:
            operands.sort(key=lambda one: (type(one) is int, str(one)))
        key = (how, tuple(operands))
        found = self._made.get(key)
        if found is None:
            name = f"_{len(self._made)}"
            self._how[name] = key
            self._ranges[name] = _Range()
            self._ranges[name] = _Range(self._bounds(name)[0])
            found = self._made[key] = self._new(name, value)
        return found

    def _operation(self, operand: Operand) -> str:
        """What gives an operand; nothing does a number or a symbol."""
        return self._how[operand][0] if type(operand) is str and operand in self._how else ""

    def _bounds(self, operand: Operand) -> _Bounds:
        """Between what an operand is, by the guards so far."""
        if type(operand) is int:
            return operand, operand
        known = self._ranges[str(operand)]
        low, high = known.low, known.high
        made = self._how.get(str(operand))
        if made is not None:
            below, above = _interval(made[0], *map(self._bounds, made[1]))
            low = below if low is None else low if below is None else max(low, below)
            high = above if high is None else high if above is None else min(high, above)
        return low, high

    def _operand(self, value: Any) -> Operand:
        return value.name if type(value) is SymInt else int(value)

    # ----------------------------------------------------------------------------------- guards

    def _limit(self, name: str, low: int | None, high: int | None) -> None:
        """Note limits of an expression, as limits of the simplest one that they say the same of."""
        known_low, known_high = self._bounds(name)
        if low is not None and known_low is not None and known_low >= low:
            low = None
        if high is not None and known_high is not None and known_high <= high:
            high = None
        while name in self._how:
            made = self._how[name]
            simpler = _through(made, low, high, self._bounds(made[1][0])[0])
            if simpler is None or type(simpler[0]) is int:
                break
            name, low, high = str(simpler[0]), *simpler[1:]
        self._ranges[name].narrow(low, high)

    def less(self, a: Any, b: Any) -> bool:
        """`a < b` for the values at hand, which is recorded."""
        one, other = self._operand(a), self._operand(b)
        answer: bool = peek(a) < peek(b)
        if one == other:
            return answer
        if type(one) is str and type(other) is str:
            self._between[("<", one, other) if answer else ("<=", other, one)] = None
        elif type(one) is str and type(other) is int:
            self._limit(one, None if answer else other, other - 1 if answer else None)
        elif type(other) is str and type(one) is int:
            self._limit(other, one + 1 if answer else None, None if answer else one)
        return answer

    def equal(self, a: Any, b: Any) -> bool:
        """`a == b` for the values at hand, which is recorded."""
        one, other = self._operand(a), self._operand(b)
        answer: bool = peek(a) == peek(b)
        if type(one) is int:
            one, other = other, one
        if one == other or type(one) is int:
            return answer
        one = str(one)
        if type(other) is str:
            first, second = sorted((one, other))
            self._between["==" if answer else "!=", first, second] = None
        elif type(other) is int and answer:
            self._limit(one, other, other)
        elif type(other) is int:
            self._differ(one, other)
        return answer

    def _differ(self, name: str, value: int) -> None:
        """Note that an expression is not a number."""
        low, high = self._bounds(name)
        if self._operation(name) == "mod":
            self._never(name, value)
        elif low == value:
            self._limit(name, value + 1, None)
        elif high == value:
            self._limit(name, None, value - 1)
        elif (low is None or low < value) and (high is None or high > value):
            self._never(name, value)

    def _never(self, name: str, value: int) -> None:
        while self._operation(name) in ("add", "sub", "neg"):  # one operand for each result
            simpler = _through(self._how[name], value, value, None)
            if simpler is None or type(simpler[0]) is int or simpler[1] is None:
                break
            name, value = str(simpler[0]), simpler[1]
        known = self._ranges[name]
        known.never.add(value)
        known.narrow(None, None)

    # -------------------------------------------------------------------------------- the result

    def _needed(self, name: str, known: _Range) -> bool:
        """Whether there are guards on an expression that those on what it is made of do not imply.
        Each says something of what is simpler, so that none implies itself."""
        if not known.guarded:
            return False
        if name not in self._how:
            return True
        how, operands = self._how[name]
        low, high = _interval(how, *map(self._bounds, operands))
        return not (
            (known.low is None or (low is not None and low >= known.low))
            and (known.high is None or (high is not None and high <= known.high))
            and all(
                (low is not None and value < low) or (high is not None and value > high)
                for value in known.never
            )
        )

    def guards(self) -> list[str]:
        """The conditions in Python's notation, with the symbols' names."""
        found = [
            text
            for name, known in self._ranges.items()
            if self._needed(name, known)
            for text in known.text(self._written(name))
        ]
        return found + [
            f"{self._written(a)} {how} {self._written(b)}" for how, a, b in self._between
        ]

    def failing(self, values: Sequence[int]) -> list[str]:
        """The guards that do not hold for other values of the symbols.

        Args:
            values: in the order of the symbols.
        """
        known: dict[Operand, int] = dict(zip(self._shown, values, strict=True))
        for name, (how, operands) in self._how.items():
            given = [one if type(one) is int else known[one] for one in operands]
            try:
                known[name] = _COMPUTE[how](*given)
            except (ZeroDivisionError, ValueError):  # a guard on the divisor or the shift fails
                known[name] = 0
        found = [
            text
            for name, limits in self._ranges.items()
            if self._needed(name, limits) and not limits.holds(known[name])
            for text in limits.text(self._written(name))
        ]
        for how, a, b in self._between:
            if not _COMPARE[how](known[a], known[b]):
                found.append(f"{self._written(a)} {how} {self._written(b)}")
        return found

    def _written(self, name: str) -> str:
        made = self._how.get(name)
        if made is None:
            return self._shown[name]
        parts = [
            str(one)
            if type(one) is int
            else f"({self._written(str(one))})"
            if one in self._how
            else self._written(str(one))
            for one in made[1]
        ]
        return TEXT[made[0]].format(*parts)

    def program(self, results: Any) -> IntegerProgram:
        """Guards and expressions in a row.

        Args:
            results: tuples with symbolic integers, numbers and anything else.
        """
        steps: list[Step] = []
        done: set[str] = set(self._shown)

        def need(name: Operand) -> None:
            if type(name) is str and name not in done:
                how, operands = self._how[name]
                for one in operands:
                    need(one)
                steps.append((name, how, operands))
                done.add(name)

        def written(value: Any) -> Any:
            if type(value) is tuple:
                return tuple(map(written, value))
            if type(value) is SymInt:
                need(value.name)
                return Name(value.name)
            return value

        checks: list[tuple[str, Operand, Operand]] = [
            check
            for name, known in self._ranges.items()
            if self._needed(name, known)
            for check in known.checks(name)
        ]
        checks += self._between
        position = {name: number for number, name in enumerate((*self._shown, *self._how))}
        checks.sort(key=lambda check: max(position.get(str(one), 0) for one in check[1:]))
        for how, a, b in checks:
            need(a)
            need(b)
            steps.append(("", how, (a, b)))
        made = written(results)
        return IntegerProgram(tuple(self._shown), tuple(steps), made)

    def compile(self, results: Any) -> Program:
        """A function of the symbols' values, in their order, that gives `results` for them."""
        return self.program(results).function()


def peek(value: Any) -> Any:
    """The value of a symbolic integer, without a guard; anything else as it is."""
    return value.value if type(value) is SymInt else value


def _number(value: Any) -> bool:
    return type(value) is SymInt or isinstance(value, int)


class SymInt:
    """An integer of a traced computation. It passes as `int` in `isinstance`."""

    __slots__ = ("name", "tracer", "value")

    def __init__(self, tracer: Tracer, name: str, value: int) -> None:
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
        if not _number(other):
            return self.__index__() == other
        return self.tracer.equal(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        if not _number(other):
            return bool(self.__index__() < other)
        return self.tracer.less(self, other)

    def __gt__(self, other: Any) -> bool:
        if not _number(other):
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
        if not (_number(a) and _number(b)):
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
    _both_ways(_how, _COMPUTE[_how])
for _how in ("floordiv", "mod"):
    _both_ways(_how, _COMPUTE[_how], guarded="nonzero")
for _how in ("lshift", "rshift"):
    _both_ways(_how, _COMPUTE[_how], guarded="positive")
