"""Which keys a function of attention's scores hides from a query whatever the score is: those are
not computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._values.value_classes import value_class
from .nodes import Node, Number, Value

__all__ = ["Condition", "conditions_of", "needed", "options_of"]

#: Comparisons of integers, as `left - right >= least` (of the turned ones `right - left`).
_LEAST: Mapping[str, tuple[int, int]] = {"ge": (1, 0), "gt": (1, 1), "le": (-1, 0), "lt": (-1, 1)}
#: By an operator that is no longer true, the one that is.
_OPPOSITE: Mapping[str, str] = {"ge": "lt", "gt": "le", "le": "gt", "lt": "ge"}
_AND = frozenset(("bitwise_and", "logical_and"))
_NOT = frozenset(("bitwise_not", "logical_not"))
#: Numbers beside those of queries and keys are smaller, so that no int32 overflows.
_SMALL = 2**30


@value_class(frozen=True, slots=True)
class Condition:
    """A query sees a key only if `value` is true, or where `opposite`, false."""

    value: Value
    opposite: bool


@value_class(frozen=True, slots=True)
class _Sum:
    """`queries` times the number of the query, `keys` times that of the key, and a constant."""

    queries: int
    keys: int
    constant: int


def needed(nodes: Sequence[Node], results: Sequence[Value]) -> list[Node]:
    """The operators that some results need, in their order."""
    wanted = {id(own.node) for own in results}
    found: list[Node] = []
    for node in reversed(nodes):
        if id(node) in wanted:
            found.insert(0, node)
            for own in node.operands:
                if isinstance(own, Value):
                    wanted.add(id(own.node))
    return found


def conditions_of(
    nodes: Sequence[Node], result: Value, score: int, places: tuple[int, int]
) -> tuple[list[Condition], Value]:
    """The conditions under which a key is seen, each of which has to hold, and the result without
    those that `options_of` says by itself.

    Args:
        nodes: the operators that the function calls.
        result: what it returns.
        score: the number of the stand-in for the scores.
        places: those of the numbers of the query and the key.
    """
    found: list[Condition] = []
    at, plain = result, True
    while (seen := _selected(at)) is not None:
        first, at = seen
        own = [one for one in _parts(first) if not _reads(nodes, one.value, score)]
        plain = plain and len(own) == len(_parts(first))
        plain = plain and all(_bounds(one, places) is not None for one in own)
        found += own
        if plain:
            result = at
    return found, result


def options_of(conditions: Sequence[Condition], places: tuple[int, int]) -> dict[str, Any]:
    """Attention's options that hide what conditions on the numbers of query and key hide; none: no
    condition is one, or no query sees a key by these.

    Args:
        places: as of `conditions_of`.
    """
    before: int | None = None  # a query sees keys from so many before its own number,
    after: int | None = None  # to so many after it
    for one in conditions:
        for least, is_before in _bounds(one, places) or ():
            if is_before:
                before = least if before is None else min(before, least)
            else:
                after = least if after is None else min(after, least)
    if before is None and after is None:
        return {}
    if before is None:
        return {"causal": True, "offset": after}
    if after is None:
        return {"window": (max(before, 0), -1), "offset": max(-before, 0)}
    if before + after < 0:
        return {}
    return {"window": (before + after, 0), "offset": after}


def _selected(value: Value) -> tuple[Condition, Value] | None:
    """Of `where` with -inf, the condition on which it gives the other one, and that."""
    node = value.node
    if node is None or node.spec.name != "where" or not node.own or value.views:
        return None
    condition, first, second = node.operands
    if not isinstance(condition, Value) or condition.type.dtype != "bool":
        return None
    for kept, hidden, opposite in ((first, second, False), (second, first, True)):
        if _is_hidden(hidden) and isinstance(kept, Value) and kept.type.shape == value.type.shape:
            return Condition(condition, opposite), kept
    return None


def _is_hidden(own: Value | Number) -> bool:
    return isinstance(own, Number) and own.index is None and bool(own.value == -math.inf)


def _parts(one: Condition) -> list[Condition]:
    """Conditions all of which hold where one does."""
    node = one.value.node
    if node is None or not node.own or one.value.views:
        return [one]
    arrays = [own for own in node.operands if isinstance(own, Value) and own.type.dtype == "bool"]
    if len(arrays) < len(node.operands):
        return [one]
    if node.spec.name in _NOT:
        return _parts(Condition(arrays[0], not one.opposite))
    if node.spec.name in _AND and not one.opposite:
        return [part for own in arrays for part in _parts(Condition(own, opposite=False))]
    return [one]


def _reads(nodes: Sequence[Node], value: Value, score: int) -> bool:
    """Whether something depends on the scores."""
    given = [own for node in needed(nodes, [value]) for own in node.operands]
    return any(
        isinstance(own, Value) and own.node is None and own.index == score
        for own in (*given, value)
    )


def _bounds(one: Condition, places: tuple[int, int]) -> list[tuple[int, bool]] | None:
    """A condition as how many keys a query sees at most, before its own number (True) and after it;
    None: it is about something else."""
    node = one.value.node
    if node is None or not node.own or one.value.views or len(node.operands) != 2:
        return None
    name = _OPPOSITE.get(node.spec.name, "") if one.opposite else node.spec.name
    if name not in _LEAST:
        return None
    sign, less = _LEAST[name]
    left, right = node.operands if sign > 0 else reversed(node.operands)
    return _apart(left, right, less, places) or _within(left, right, less, places)


def _apart(
    left: Value | Number, right: Value | Number, less: int, places: tuple[int, int]
) -> list[tuple[int, bool]] | None:
    """left - right >= less, of sums."""
    a, b = _sum(left, places), _sum(right, places)
    if a is None or b is None:
        return None
    slope = a.queries - b.queries
    constant = a.constant - b.constant - less
    if abs(slope) != 1 or a.keys - b.keys != -slope:
        return None
    return [(constant, slope < 0)]


def _within(
    left: Value | Number, right: Value | Number, less: int, places: tuple[int, int]
) -> list[tuple[int, bool]] | None:
    """left - |right| >= less, of a constant and a sum."""
    node = right.node if isinstance(right, Value) else None
    most = _sum(left, places)
    if most is None or most.queries or most.keys or node is None or not node.own:
        return None
    if node.spec.name != "abs" or (isinstance(right, Value) and right.views):
        return None
    inner = _sum(node.operands[0], places)
    if inner is None or abs(inner.queries) != 1 or inner.keys != -inner.queries:
        return None
    constant = most.constant - less
    # -constant <= queries * i + keys * j + inner.constant <= constant
    turned = inner.queries < 0
    return [(constant - inner.constant, not turned), (constant + inner.constant, turned)]


def _sum(own: Value | Number, places: tuple[int, int]) -> _Sum | None:
    if isinstance(own, Number):
        whole = own.index is None and isinstance(own.value, int) and not isinstance(own.value, bool)
        return _Sum(0, 0, int(own.value)) if whole and abs(own.value) < _SMALL else None
    node = own.node
    if own.views or own.type.dtype not in ("int32", "int64"):
        return None
    if node is None:
        return _Sum(int(own.index == places[0]), int(own.index == places[1]), 0) if (
            own.index in places
        ) else None  # fmt: skip
    combine = _COMBINED.get(node.spec.name)
    if combine is None or not node.own or len(node.operands) != 2:
        return None
    a, b = (_sum(one, places) for one in node.operands)
    if a is None or b is None:
        return None
    made = _Sum(
        combine(a.queries, b.queries), combine(a.keys, b.keys), combine(a.constant, b.constant)
    )
    fits = abs(made.queries) <= 1 and abs(made.keys) <= 1 and abs(made.constant) < _SMALL
    return made if fits and made.queries != made.keys else None


_COMBINED: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b,
}  # fmt: skip
