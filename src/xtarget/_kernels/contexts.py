"""The context in which the rules of `@xtarget.kernel` are evaluated, and their results.

A rule is a user's function, or a formula as text. A `Context` (the `c` of `lambda c: c.n`) has the
call's layouts, sizes, constants and flags as attributes; what is given by a rule is computed when
it is first read, so that rules may use each other in any order.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Set
from types import CodeType
from typing import Any, Final, TypeAlias, cast

from .._system.signals import raised_by_handler
from .._values.authoring import dtype_named
from .._values.errors import ArgumentError, XTargetError, shortened
from .._values.sizes import cdiv, next_power_of_2
from .._values.symbolic_integers import symbolic_types
from .._values.types import DTYPES, Constant
from ..spec import ArrayType

__all__ = [
    "Context",
    "Dtype",
    "Heuristic",
    "Questions",
    "Rule",
    "dtype_of",
    "formula",
    "integer",
    "is_formula",
]

#: What a size, an output or a grid is computed from.
Rule: TypeAlias = Callable[[Any], Any]
#: One of Triton's: asked with the call, and with what was given for its parameter, if anything.
Heuristic: TypeAlias = Callable[..., Any]
#: What formulas may call.
_FUNCTIONS: Final = {
    "__builtins__": {},
    "cdiv": cdiv,
    "next_power_of_2": next_power_of_2,
    "min": min,
    "max": max,
}


class Context:
    """The call as rules see it: attributes, or items by name. Every attribute is of the kernel."""

    def __init__(self, known: Mapping[str, Any], unknown: Mapping[str, str]) -> None:
        """Make a context without rules.

        Args:
            unknown: names that are something, but have no value yet, and why.
        """
        self.__dict__.update(known)
        self.__dict__["_rules"] = {}
        self.__dict__["_unknown"] = unknown

    def __getattr__(self, name: str) -> Any:  # asked for what is not computed yet
        rules = self.__dict__["_rules"]
        ask = rules.get(name)
        if ask is None:
            raise AttributeError(name, name=name, obj=self)
        rules[name] = _unending(name)
        try:
            value = ask()
        except BaseException:
            rules[name] = ask
            raise
        del rules[name]
        self.__dict__[name] = value
        return value

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(name) from error

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self.__dict__ if not name.startswith("_"))
        yield from self.__dict__["_rules"]


def _unending(name: str) -> Callable[[], Any]:
    def ask() -> Any:
        raise ArgumentError(f"{name!r} is computed from itself")

    return ask


def formula(part: str, text: str) -> Rule:
    """A rule that is written as text: `cdiv(M, BLOCK_M), B`.

    Raises:
        ArgumentError: it is not an expression.
    """
    try:
        code: CodeType = compile(text.strip(), f"<{part}>", "eval")
    except (SyntaxError, ValueError) as error:
        raise ArgumentError(
            f"its {part} is {text!r:.120}, which is not a formula: {error}. Write one of names, "
            "numbers, + - * // %, cdiv, next_power_of_2, min and max; or give a function."
        ) from None

    def rule(context: Any) -> Any:
        return eval(code, _FUNCTIONS, context)

    return rule


def is_formula(text: str) -> bool:
    """Whether text that may be a constant itself is a formula: it calls what those may call."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return False
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return any(isinstance(name, ast.Name) and name.id in _FUNCTIONS for name in called)


class Questions:
    """Asks the rules of a spec. Whatever they raise or give that does not fit becomes an error that
    names the kernel and the part of its spec."""

    def __init__(
        self, kernel_name: str, context: Context, constants: Mapping[str, Constant]
    ) -> None:
        self._kernel, self._context = kernel_name, context
        values = ", ".join(f"{name}={value!r}" for name, value in constants.items())
        self._constants = f" (constants: {values})" if values else ""

    def layout(self, part: str, rule: str | Rule) -> tuple[tuple[int, ...], str]:
        """Shape and dtype of an output or a workspace."""
        if isinstance(rule, str):
            like = self.ask(part, lambda context: getattr(context, rule))
            if not isinstance(like, ArrayType):
                raise ArgumentError(
                    f"{self._kernel}: its {part} is like {rule}, which was left out. Give {rule}."
                )
            return like.shape, str(like.dtype)
        answer = self.ask(part, rule)
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise self.wrong(part, answer, "it has to be a pair: (shape, dtype)")
        shape, dtype = answer
        lengths = _integers(shape)
        if lengths is None or any(length < 0 for length in lengths):  # compares no two
            raise self.wrong(part, answer, "its shape has to be of whole numbers ≥ 0")
        name = dtype_of(dtype)
        if name is None:
            raise self.wrong(part, answer, f"its dtype has to be one of {', '.join(DTYPES)}")
        return lengths, name

    def size(self, part: str, rule: Rule) -> int:
        answer = self.ask(part, rule)
        value = integer(answer)
        if value is None or not -(2**63) <= value < 2**63:
            raise self.wrong(part, answer, "it has to be a whole number of at most 64 bits")
        return value

    def grid(self, rule: Rule) -> tuple[int, int, int]:
        answer = self.ask("grid", rule)
        blocks = _integers(answer)
        if blocks is None or not 1 <= len(blocks) <= 3 or min(blocks) < 0:
            raise self.wrong("grid", answer, "it has to be 1 to 3 dimensions, whole numbers ≥ 0")
        padded = (*blocks, 1, 1)
        return padded[0], padded[1], padded[2]

    def ask(self, part: str, rule: Rule) -> Any:
        """The answer of a rule.

        Raises:
            ArgumentError: it has none.
        """
        try:
            answer = rule(self._context)
        except XTargetError:
            raise  # says what it has to say
        except Exception as error:  # the rule is a user's
            interrupted = raised_by_handler(error)
            if interrupted is not None:
                raise interrupted from interrupted.__cause__
            raise ArgumentError(
                f"{self._kernel}: its {part} cannot be computed: {self._reason(error)}"
                f"{self._constants}. Correct it in @xtarget.kernel."
            ) from error
        return str(answer) if type(answer) is Dtype else answer

    def _reason(self, error: Exception) -> str:
        name = getattr(error, "name", None)
        ours = isinstance(error, AttributeError) and error.obj is self._context
        if not name or not (ours or isinstance(error, NameError)):
            return f"{type(error).__name__}: {error}"
        why = self._context.__dict__["_unknown"].get(name)
        return why or f"there is no {name!r}, only {', '.join(self._context)}"

    def wrong(self, part: str, answer: Any, rule: str) -> ArgumentError:
        return ArgumentError(
            f"{self._kernel}: its {part} gave {shortened(answer)}; {rule}{self._constants}. "
            "Correct it in @xtarget.kernel."
        )


def integer(value: Any) -> int | None:
    """A whole number of Python or NumPy, also one that is written as a float, or a tracer's; else
    None."""
    if type(value) in symbolic_types:
        return cast(int, value)
    try:
        return operator.index(value)
    except TypeError:
        whole = isinstance(value, float) and value.is_integer()
        return int(value) if whole else None


def _integers(value: Any) -> tuple[int, ...] | None:
    """Whole numbers; one alone is a tuple of one."""
    if isinstance(value, bool):
        return None
    one = integer(value)
    if one is not None:
        return (one,)
    if isinstance(value, str | bytes | Set | Mapping):  # without an order, or no numbers
        return None
    try:
        numbers = [integer(n) for n in value]
    except TypeError:
        return None
    whole = tuple(n for n in numbers if n is not None)
    return whole if len(whole) == len(numbers) else None


def dtype_of(dtype: Any) -> str | None:
    """Our name of a dtype by name or as NumPy, torch or Triton writes it (`numpy.float32`,
    `x.dtype`); None where there is none."""
    if isinstance(dtype, str) and dtype in DTYPES:
        return str(dtype)
    import numpy as np

    from .._arrays.dtypes import name_of

    if dtype is None or (hasattr(dtype, "dtype") and not isinstance(dtype, type)):
        return None  # float64 to NumPy; an array or a number has a dtype and is none
    try:
        return name_of(np.dtype(dtype))
    except (TypeError, ValueError):  # ArgumentError is a ValueError
        return None if isinstance(dtype, str | type) else dtype_named(dtype)


class Dtype(str):
    """An element type, equal to what torch, NumPy and Triton call it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str(self) == (other if isinstance(other, str) else dtype_of(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    @property
    def itemsize(self) -> int:
        return DTYPES[str(self)].itemsize

    @property
    def is_floating_point(self) -> bool:
        return DTYPES[str(self)].kind == "f"
