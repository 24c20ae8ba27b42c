"""Gathers at the head of a section: their elements are read where the indices say, in the launch of
the elementwise operators that need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from .._values import environment
from .._values.value_classes import value_class
from .nodes import Node, Value

__all__ = ["Pick", "obstacle", "pick_of", "takes_indices"]

#: By operator, the places of the array and of the indices among its operands.
_PLACES: Mapping[str, tuple[int, int]] = {
    "embedding": (1, 0),
    "gather": (0, 1),
    "index_select": (0, 1),
    "take": (0, 1),
    "take_along_axis": (0, 1),
}


@value_class(frozen=True, slots=True)
class Pick:
    """A node that takes elements of an array.

    Attributes:
        places: of the array and of the indices among its operands.
        axis: that the indices count along, from 0 on.
    """

    operator: str
    places: tuple[int, int]
    axis: int


def takes_indices(node: Node) -> bool:
    """Whether a node is cut otherwise where indices are checked (`XTARGET_CHECK`)."""
    return node.spec.name in _PLACES


@lru_cache(maxsize=256)
def pick_of(node: Node) -> Pick | None:
    """A node as a gather that a section can begin with; None: it is none, or its indices are
    checked, or do not stay inside by its option `mode`."""
    places = _PLACES.get(node.spec.name)
    options = {**node.spec.options, **node.options}
    if places is None or not node.own or environment.check_indices() or options.get("check"):
        return None
    if options["mode"] != "clip" or len(node.plan.launches) != 1:
        return None
    array = node.operands[places[0]]
    if not all(isinstance(node.operands[place], Value) for place in places):
        return None
    assert isinstance(array, Value)
    axis = options.get("axis", 0)
    if axis is None:
        axis = 0 if array.type.ndim == 1 else None
    if type(axis) is not int:
        return None
    return Pick(node.spec.name, places, axis % max(array.type.ndim, 1))


def obstacle(nodes: Sequence[Node], root: Node) -> str:
    """Why nodes with gathers among them are not a section; empty: they are."""
    made = {id(node) for node in nodes}
    for node in nodes:
        if pick_of(node) is None:
            continue
        if node is root:
            return f"{node.spec.name} ends it"
        if any(isinstance(own, Value) and id(own.node) in made for own in node.operands):
            return f"{node.spec.name} reads it"
    return ""
