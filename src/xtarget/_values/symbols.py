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

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .intervals import Bounds, Made, Range, interval, through
from .programs import TEXT, IntegerProgram, Name, Operand, Program, Step
from .symbolic_integers import COMPUTE, SymInt, peek

__all__ = ["SymInt", "Tracer", "peek"]

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
#: Characters of an expression in a guard's text; the rest is left out.
_LONGEST_TEXT = 1000
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


class Tracer:
    """Symbols of one computation, with what it does and compares."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self._named: dict[str, SymInt] = {}
        self._made: dict[Made, SymInt] = {}
        #: By name, in the order in which they were made.
        self._how: dict[str, Made] = {}
        self._ranges: dict[str, Range] = {}
        #: What `_bounds` found since the last guard: expressions share parts, many times over.
        self._found: dict[str, Bounds] = {}
        self._texts: dict[str, str] = {}
        self._between: dict[tuple[str, str, str], None] = {}

    def symbol(self, shown: str, value: int, *, least: int | None = None) -> Any:
        """An integer of the call.

        Args:
            shown: what the guards' text calls it.
            least: it is never below.
        """
        name = f"v{len(self._shown)}"
        self._shown[name] = shown
        self._ranges[name] = Range(least)
        return self._new(name, value)

    def _new(self, name: str, value: int) -> SymInt:
        self._named[name] = made = SymInt(self, name, value)
        return made

    # ------------------------------------------------------------------------------ expressions

    def operation(self, how: str, *given: Any) -> Any:
        """The result of an operation: a symbolic integer, or a number where it is one."""
        operands = [self._operand(value) for value in given]
        value = COMPUTE[how](*map(peek, given))
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
            self._ranges[name] = Range()
            self._ranges[name] = Range(self._bounds(name)[0])
            found = self._made[key] = self._new(name, value)
        return found

    def _operation(self, operand: Operand) -> str:
        """The operation that gives an operand; empty for a number or a symbol."""
        return self._how[operand][0] if type(operand) is str and operand in self._how else ""

    def _bounds(self, operand: Operand) -> Bounds:
        """Between what an operand is, by the guards so far."""
        if type(operand) is int:
            return operand, operand
        name = str(operand)
        if name in self._found:
            return self._found[name]
        known = self._ranges[name]
        low, high = known.low, known.high
        made = self._how.get(name)
        if made is not None:
            below, above = interval(made[0], *map(self._bounds, made[1]))
            low = below if low is None else low if below is None else max(low, below)
            high = above if high is None else high if above is None else min(high, above)
        self._found[name] = low, high
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
            simpler = through(made, low, high, self._bounds(made[1][0])[0])
            if simpler is None or type(simpler[0]) is int:
                break
            name, low, high = str(simpler[0]), *simpler[1:]
        self._ranges[name].narrow(low, high)
        self._found.clear()

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
            simpler = through(self._how[name], value, value, None)
            if simpler is None or type(simpler[0]) is int or simpler[1] is None:
                break
            name, value = str(simpler[0]), simpler[1]
        known = self._ranges[name]
        known.never.add(value)
        known.narrow(None, None)
        self._found.clear()

    # -------------------------------------------------------------------------------- the result

    def _needed(self, name: str, known: Range) -> bool:
        """Whether there are guards on an expression that those on what it is made of do not imply.
        Each says something of what is simpler, so that none implies itself."""
        if not known.guarded:
            return False
        if name not in self._how:
            return True
        how, operands = self._how[name]
        low, high = interval(how, *map(self._bounds, operands))
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

    def reached(self, names: Iterable[str]) -> set[str]:
        """The symbols and operations that these and the guards are made of, by name; not the guard
        that a symbol is not 0, which is every array's that is not empty."""
        todo: list[Operand] = [*names]
        todo += [
            name
            for name, known in self._ranges.items()
            if self._needed(name, known)
            and (name in self._how or known.high is not None or known.never or known.low != 1)
        ]
        todo += [one for _, *both in self._between for one in both]
        found: set[str] = set()
        while todo:
            name = todo.pop()
            if type(name) is str and name not in found:
                found.add(name)
                if name in self._how:
                    todo += self._how[name][1]
        return found

    def failing(self, values: Sequence[int]) -> list[str]:
        """The guards that do not hold for other values of the symbols.

        Args:
            values: in the order of the symbols.
        """
        known: dict[Operand, int] = dict(zip(self._shown, values, strict=True))
        for name, (how, operands) in self._how.items():
            given = [one if type(one) is int else known[one] for one in operands]
            try:
                known[name] = COMPUTE[how](*given)
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
        if name in self._texts:
            return self._texts[name]
        parts = [
            str(one)
            if type(one) is int
            else f"({self._written(str(one))})"
            if one in self._how
            else self._written(str(one))
            for one in made[1]
        ]
        text = TEXT[made[0]].format(*parts)
        # in full, expressions that share parts would double with each step
        self._texts[name] = text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + " ..."
        return self._texts[name]

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
