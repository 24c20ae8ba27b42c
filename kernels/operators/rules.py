"""Dtypes: which an operator takes, which its results have, and which it is computed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xtarget.spec import ArgumentError, DtypeRules

from ..plans.elementwise import DtypeRule, compute_dtype

__all__ = [
    "ALL",
    "AS_IT_IS",
    "BITS",
    "CASTABLE",
    "COMPARED",
    "DIFFERENCE",
    "FILLED",
    "FLOATING",
    "FLOATING_AS_IT_IS",
    "FLOATING_TWO",
    "FLOATS",
    "FLOATS_OF_8_BITS",
    "INTEGERS",
    "NEAR",
    "NUMBERS",
    "PREDICATE",
    "PROMOTED",
    "PROMOTED_TWO",
    "QUOTIENT",
    "QUOTIENT_TWO",
    "SELECTED",
    "SELECTED_BY_BOOL",
    "SIGNED",
    "quotient_of",
]

_Options = Mapping[str, Any]

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = INTEGERS + FLOATS
ALL = ("bool", *NUMBERS)
BITS = ("bool", *INTEGERS)
FLOATS_OF_8_BITS = ("float8_e4m3fn", "float8_e5m2")
CASTABLE = (*ALL, *FLOATS_OF_8_BITS)
SIGNED = (*INTEGERS[:4], *FLOATS)


def _rule(
    result: Callable[[DtypeRules, Sequence[str]], str],
    operands: Callable[[DtypeRules, Sequence[str]], str] | None = None,
    computed: Callable[[str], str] = compute_dtype,
    results: int = 1,
) -> DtypeRule:
    """A rule by which all operands are computed in one dtype: the result's unless `operands`."""

    def rule(
        rules: DtypeRules, given: Sequence[str], _: _Options
    ) -> tuple[Sequence[str], Sequence[str]]:
        own = result(rules, given)
        within = computed(operands(rules, given) if operands else own)
        return (own,) * results, (within,) * len(given)

    return rule


def _promoted(rules: DtypeRules, dtypes: Sequence[str]) -> str:
    return rules.promote(*dtypes)


def _floating(rules: DtypeRules, dtypes: Sequence[str]) -> str:
    if all(dtype in BITS for dtype in dtypes):  # uint8 and int8 give float16, their sum is int16
        return rules.promote(*map(rules.floating, dtypes))
    return rules.floating(rules.promote(*dtypes))


def quotient_of(dtype: str) -> str:
    """NumPy's `/`: integers and bool give float64."""
    return dtype if dtype in FLOATS else "float64"


def _quotient(rules: DtypeRules, dtypes: Sequence[str]) -> str:
    return quotient_of(rules.promote(*dtypes))


def _compared(rules: DtypeRules, dtypes: Sequence[str]) -> str:
    if "uint64" in dtypes and any(dtype.startswith("int") for dtype in dtypes):
        raise ArgumentError(
            "uint64 is compared with a signed integer, and no dtype has the values of both. "
            "Convert one to the other's dtype."
        )
    return rules.promote(*dtypes)


def _difference(rules: DtypeRules, dtypes: Sequence[str]) -> str:
    dtype = rules.promote(*dtypes)
    if dtype == "bool":
        raise ArgumentError(
            "both arguments are bool, of which NumPy knows no difference. Convert one to an "
            "integer."
        )
    return dtype


def _selected(
    rules: DtypeRules, given: Sequence[str], _: _Options
) -> tuple[Sequence[str], Sequence[str]]:
    own = rules.promote(*given[1:])
    return (own,), ("bool", compute_dtype(own), compute_dtype(own))


def _selected_by_bool(
    rules: DtypeRules, given: Sequence[str], options: _Options
) -> tuple[Sequence[str], Sequence[str]]:
    if given[0] != "bool":
        raise ArgumentError(
            f"the condition is {given[0]}; it has to be bool. Compare it (x != 0) or run where. "
            "torch's select(x, dim, index) is a view: call x.select(dim, index)."
        )
    return _selected(rules, given, options)


def _filled(
    rules: DtypeRules, given: Sequence[str], _: _Options
) -> tuple[Sequence[str], Sequence[str]]:
    own = given[0]
    if rules.promote(own, given[2]) != own:
        raise ArgumentError(
            f"value is {given[2]} and x is {own}, which does not hold all its values. Convert one "
            "of them."
        )
    return (own,), (compute_dtype(own), "bool", compute_dtype(own))


#: The dtype that NumPy's promotion gives; computed in it, half types in float32.
PROMOTED = _rule(_promoted)
PROMOTED_TWO = _rule(_promoted, results=2)
#: The same, and bool has none.
DIFFERENCE = _rule(_difference)
#: The same, and computed in the dtype itself: bits, neighbours, functions that know half types.
AS_IT_IS = _rule(_promoted, computed=str)
#: NumPy's functions of floating numbers: int8 gives float16, int16 float32, int32 float64.
FLOATING = _rule(_floating)
FLOATING_TWO = _rule(_floating, results=2)
#: The same, and computed in the dtype itself, by a function that knows half types.
FLOATING_AS_IT_IS = _rule(_floating, computed=str)
QUOTIENT = _rule(_quotient)
QUOTIENT_TWO = _rule(_quotient, results=2)
FLOAT64 = _rule(lambda _rules, _given: "float64")
#: bool, of operands in the promoted dtype.
COMPARED = _rule(lambda _rules, _given: "bool", _compared)
PREDICATE = _rule(lambda _rules, _given: "bool", _promoted)
#: A condition, then two that are promoted.
SELECTED = _selected
#: The same, where the first one is bool.
SELECTED_BY_BOOL = _selected_by_bool
#: One, a condition, and another one that the first one's dtype holds.
FILLED = _filled
#: bool, of floating operands.
NEAR = _rule(lambda _rules, _given: "bool", _quotient)


def COUNTED(
    _rules: DtypeRules, given: Sequence[str], _: _Options
) -> tuple[Sequence[str], Sequence[str]]:
    """A small number, of a computed dtype that is the argument's own."""
    return ("uint8",), tuple(given)


def FREXP(
    rules: DtypeRules, given: Sequence[str], _: _Options
) -> tuple[Sequence[str], Sequence[str]]:
    """A floating number, and an exponent."""
    own = _floating(rules, given)
    return (own, "int32"), (compute_dtype(own),)


def SCALED(
    rules: DtypeRules, given: Sequence[str], _: _Options
) -> tuple[Sequence[str], Sequence[str]]:
    """A floating number and an exponent give a floating number."""
    if given[0] not in FLOATS or given[1] not in BITS:
        raise ArgumentError(
            f"x is {given[0]} and exponent is {given[1]}; they have to be floating and an integer. "
            "Convert them."
        )
    return given[:1], (compute_dtype(given[0]), "int32")


def CAST(
    _rules: DtypeRules, given: Sequence[str], options: _Options
) -> tuple[Sequence[str], Sequence[str]]:
    """The dtype that the option `dtype` names."""
    asked = options["dtype"]
    wanted = asked if isinstance(asked, str) else getattr(asked, "name", None)
    wanted = wanted or getattr(asked, "__name__", None)
    if wanted not in CASTABLE:
        raise ArgumentError(f"dtype is {asked!r}; it has to be one of {', '.join(CASTABLE)}.")
    if given[0] in FLOATS_OF_8_BITS:
        return (wanted,), ("uint8",)
    return (wanted,), ("float32" if wanted in FLOATS_OF_8_BITS else compute_dtype(given[0]),)
