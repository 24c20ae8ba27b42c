"""Lengths that a shape says within a formula alone: D of `In["T", "M", "2 * D"]`, and SEQUENCES of
`In["int32", "SEQUENCES + 1"]`."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Mapping, Set
from typing import Any

from .._values.authoring import ArrayRule
from .._values.errors import ArgumentError
from .contexts import Rule, formula

__all__ = ["solved_lengths"]


def solved_lengths(arrays: Mapping[str, ArrayRule], known: Set[str]) -> dict[str, tuple[str, Rule]]:
    """Names that are not known otherwise (or only by arrays that may be left out), each with the
    array that says it, and how.

    A formula of `+`, `-` and `*` with one such name is solved for it; others are left. Arrays that
    may be left out are asked last. Whether the lengths fit the formula is checked as of any other.
    """
    found: dict[str, tuple[str, Rule]] = {}
    for array, rule in sorted(arrays.items(), key=lambda item: item[1].optional):
        for place, dim in enumerate(rule.dims or ()):
            if not isinstance(dim, str) or dim.isidentifier():
                continue
            names = _linear(dim) - known - found.keys()
            if len(names) == 1:
                after = ... in (rule.dims or ())[:place]  # counted from the end then
                axis = place - len(rule.dims or ()) if after else place
                (name,) = names
                found[name] = array, _solution(array, axis, dim, name)
    return found


def _linear(dim: str) -> frozenset[str]:
    """The names of a formula of sums and products in which each stands once; none: another one."""
    try:
        tree = ast.parse(dim.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return frozenset()  # said where the formula is read
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.append(node.id)
        elif not isinstance(
            node, ast.BinOp | ast.Constant | ast.Add | ast.Sub | ast.Mult | ast.Load
        ):
            return frozenset()
    return frozenset(names) if len(names) == len(set(names)) else frozenset()


def _solution(array: str, axis: int, dim: str, name: str) -> Rule:
    rule = formula(f"dimension {axis} of {array!r}", dim)

    def length(context: Any) -> Any:
        given = getattr(context, array)
        if given is None:
            raise ArgumentError(f"{name} is a length of {array}, which was left out. Give {array}.")
        first, second = (rule(ChainMap({name: n}, context)) for n in (0, 1))
        step = second - first
        return (given.shape[axis] - first) // step if step else 0

    return length
