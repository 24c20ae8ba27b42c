"""Integer programs: the guards and expressions of a traced computation, one step after the other.

A step computes a number from earlier ones, or checks one: where a check fails, the program ends
without a result. `function` makes a Python function of it, `flat` the words that the compiled core
runs (`_core/program.h`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .value_classes import value_class

__all__ = ["TEXT", "Flat", "IntegerProgram", "Name", "Operand", "Program", "Step"]

#: A number, or the name of a symbol or of an expression.
Operand = int | str
#: From the values of the symbols to the results; None: a guard does not hold.
Program = Callable[[Sequence[int]], Any]
#: The name of what is computed ("": a check), how, and its operands.
Step = tuple[str, str, tuple[Operand, ...]]
#: Number of symbols, constants, steps (operation, operands), results: `_core/program.h`.
Flat = tuple[int, tuple[int, ...], tuple[tuple[int, int, int], ...], tuple[int, ...]]

TEXT = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "mod": "{} % {}",
    "and": "{} & {}",
    "or": "{} | {}",
    "xor": "{} ^ {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "neg": "-{}",
    "bits": "({}).bit_length()",
    "<": "{} < {}",
    "<=": "{} <= {}",
    "==": "{} == {}",
    "!=": "{} != {}",
}
#: The core's numbers of them: `enum xt_operation` has the same order.
_NUMBERS = {how: number for number, how in enumerate(TEXT)}
#: `XT_MOST_REGISTERS` and `XT_MOST_RESULTS` of the core.
_MOST_REGISTERS, _MOST_RESULTS = 512, 96


class Name(str):
    """The name of a symbol or of an expression, among results that may be text."""

    __slots__ = ()


@value_class(frozen=True, slots=True)
class IntegerProgram:
    """Steps in their order.

    Attributes:
        results: tuples of `Name`, numbers and anything else.
    """

    symbols: tuple[str, ...]
    steps: tuple[Step, ...]
    results: Any

    def function(self) -> Program:
        """The program in Python."""
        lines: list[str] = []
        checks: list[str] = []
        constants: list[Any] = []

        def close() -> None:
            if checks:
                lines.append(f"if not ({' and '.join(checks)}): return None")
                checks.clear()

        for name, how, operands in self.steps:
            text = TEXT[how].format(*(f"({one})" if type(one) is int else one for one in operands))
            if not name:
                checks.append(text)
            else:
                close()
                lines.append(f"{name} = {text}")
        close()

        def written(value: Any) -> str:
            if type(value) is tuple:
                return "(" + "".join(written(one) + ", " for one in value) + ")"
            if type(value) is Name or type(value) is int or value is None:
                return f"({value})"
            constants.append(value)
            return f"c[{len(constants) - 1}]"

        taken = "".join(f"{name}, " for name in self.symbols)
        lines.append(f"return {written(self.results)}")
        body = "\n    ".join([f"{taken}= v" if taken else "pass", *lines])
        namespace: dict[str, Any] = {"c": constants}
        exec(f"def program(v):\n    {body}\n", namespace)
        program: Program = namespace["program"]
        return program

    def flat(self) -> Flat | None:
        """The program for the core; None: it has numbers of more than 64 bits, is too long, or has
        results that are not integers."""
        results: list[Any] = list(_leaves(self.results))
        if not all(type(one) in (Name, int) for one in results):
            return None
        used: list[Operand] = [one for _, _, operands in self.steps for one in operands]
        numbers = dict.fromkeys(one for one in (*used, *results) if type(one) is int)
        if not all(-(2**63) <= number < 2**63 for number in numbers):
            return None
        places: dict[Any, int] = {}
        for one in (*self.symbols, *numbers):
            places[one] = len(places)
        made = len(places)
        steps = []
        for name, how, given in self.steps:
            steps.append((_NUMBERS[how], places[given[0]], places[given[-1]]))
            if name:
                places[name] = made
                made += 1
        if made > _MOST_REGISTERS or len(results) > _MOST_RESULTS:
            return None
        return len(self.symbols), tuple(numbers), tuple(steps), tuple(places[r] for r in results)


def _leaves(value: Any) -> Iterator[Any]:
    """The results one by one."""
    if type(value) is tuple:
        for one in value:
            yield from _leaves(one)
    else:
        yield value
