"""Where a graph is cut into sections."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from . import picks
from .expansions import expansion_of
from .nodes import Node, Value
from .picks import pick_of
from .products import MOST_BESIDE, obstacle, product_of
from .sections import MOST_OPERANDS, MOST_STEPS, Section, function_of

__all__ = ["cut", "is_long"]

#: Folds of a section: each may be one more walk along the rows.
_MOST_FOLDS = 8
_MANY = f"a launch has no more than {MOST_OPERANDS} operands"
#: Rows that are so long, and so few, are cut into pieces by the kernels of reductions: a block for
#: each would leave most of a device idle.
_LONG, _FEW = 32768, 64


def is_long(shape: Sequence[int]) -> bool:
    """Whether an array has few long rows."""
    return len(shape) > 0 and shape[-1] >= _LONG and math.prod(shape[:-1]) < _FEW


def cut(
    nodes: Sequence[Node], results: Sequence[Value], most: Mapping[int, int] = {}
) -> list[Section]:
    """The sections of a graph, in an order in which they can be launched; what the results do not
    need is in none of them.

    Args:
        results: what the function returns.
        most: by the id of a section's last node, how many operators it may have.
    """
    users: dict[int, list[Node]] = {}
    for node in nodes:
        for own in node.operands:
            if isinstance(own, Value) and own.node is not None:
                users.setdefault(id(own.node), []).append(node)
    viewed: set[int] = set()
    returned = {id(result.node) for result in results}
    home: dict[int, Section] = {}
    for node in reversed(nodes):
        using = [user for user in users.get(id(node), ()) if id(user) in home]
        if not using and id(node) not in returned:
            continue
        homes = {id(home[id(user)]): home[id(user)] for user in using}
        section, *others = homes.values() or [Section(node)]
        ends = "it is a result" if id(node) in returned else ""
        if not ends and id(node) in viewed:
            ends = "it is read as a view"
        ends = ends or ("several launches need it" if others else _obstacle(node, section, most))
        if ends:
            section = Section(node, ends=ends)
        section.nodes.insert(0, node)
        viewed |= {id(own.node) for own in node.operands if isinstance(own, Value) and own.views}
        home[id(node)] = section
    found = {id(section): section for section in home.values()}
    order = {id(node): number for number, node in enumerate(nodes)}
    for section in found.values():
        section.nodes.sort(key=lambda node: order[id(node)])
    return sorted(found.values(), key=lambda section: order[id(section.root)])


def _obstacle(node: Node, section: Section, most: Mapping[int, int]) -> str:
    """Why a node cannot join the section that needs it; empty: it can."""
    nodes = [node, *section.nodes]
    products = any(product_of(one) is not None for one in nodes)
    for one in (section.root, node):
        known = function_of(one) or expansion_of(one) or product_of(one)
        if known is None and (one is section.root or pick_of(one) is None):
            return f"{one.spec.name} is a kernel of its own"
    if len(nodes) > most.get(id(section.root), len(nodes)):
        return "a launch of more operators would keep registers in memory, which costs more"
    if len(nodes) > MOST_STEPS:
        return f"a launch has no more than {MOST_STEPS} operators"
    operands = len(Section(section.root, nodes).arguments())
    if any(pick_of(one) is not None for one in nodes):
        if any(function_of(one) is None and pick_of(one) is None for one in nodes):
            return "elements that indices say are no rows, and no tiles of a product"
        return picks.obstacle(nodes, section.root) or (_MANY if operands > MOST_OPERANDS else "")
    if products:
        if any(expansion_of(one) is not None for one in nodes):
            return "rows that are reduced are not those of a tile of a product"
        if operands > MOST_BESIDE + 2:
            return f"a product has no more than {MOST_BESIDE} operands beside it"
        return obstacle(nodes, section.root)
    if operands > MOST_OPERANDS:
        return _MANY
    if rows_of(nodes, section.root) is None:
        root = section.root.spec.name
        return f"its rows are not those of {root}, lie across memory, or are few and long"
    return ""


def rows_of(nodes: Sequence[Node], root: Node) -> str | None:
    """The form of a section's result for each row: `wide`, `kept` or `dropped`; empty where it is
    elementwise. None: the nodes are not a section.

    Decided by the sizes of this trace. Another call with the same trace has other sizes, so each
    launch looks at its arguments (`fused`).
    """
    if all(function_of(node) is not None for node in nodes):
        return ""
    inside = {id(node) for node in nodes}
    arrays = [
        own
        for node in nodes
        for own in node.operands
        if isinstance(own, Value) and id(own.node) not in inside
    ]
    shapes = [own.type.shape for own in arrays]
    n = max((shape[-1] for shape in shapes if shape), default=1)
    if any(shape and shape[-1] not in (1, n) for shape in shapes) or any(0 in s for s in shapes):
        return None
    if n > 1 and any(own.type.shape[-1:] == (n,) and _is_turned(own) for own in arrays):
        return None  # rows that lie across memory: a block would read a piece of memory for each
    gives: dict[int, str] = {}
    folds = 0
    for node in nodes:
        kinds = {gives.get(id(own.node), "wide") for own in node.operands if isinstance(own, Value)}
        if function_of(node) is not None:
            if not kinds or kinds > {"dropped"}:  # a number of a row would be taken for a column
                return None
            gives[id(node)] = "wide" if "wide" in kinds else next(iter(kinds))
            continue
        expansion = expansion_of(node)
        first = node.operands[0]
        if expansion is None or kinds != {"wide"} or not isinstance(first, Value):
            return None
        if not first.type.shape or first.type.shape[-1] != n or is_long(first.type.shape):
            return None
        folds += 1
        gives[id(node)] = expansion.gives
    found = gives[id(root)]
    outer = math.prod(root.plan.outputs[0].shape) // (n if found == "wide" else 1)
    # fewer rows would be folded once more for each that they are broadcast to
    if any(_rows(node) not in (None, outer) for node in nodes):
        return None
    if found == "wide" and root.plan.outputs[0].shape[-1:] != (n,):
        return None
    return found if folds <= _MOST_FOLDS else None


def _is_turned(value: Value) -> bool:
    return any(view.operator == "permute" for view in value.views)


def _rows(node: Node) -> int | None:
    """How many rows a node folds; None: it is elementwise."""
    first = node.operands[0]
    if function_of(node) is not None or not isinstance(first, Value):
        return None
    return math.prod(first.type.shape[:-1])
