"""Where a graph is cut into sections."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from .._values.float8 import FLOAT8
from . import picks, stored
from .expansions import expansion_of
from .nodes import Node, Value
from .picks import pick_of
from .products import MOST_ARGUMENTS, MOST_BESIDE, MOST_OF_HEAD, heads_of, obstacle, product_of
from .sections import MOST_OPERANDS, MOST_RESULTS, MOST_STEPS, Section, function_of, has_narrow

__all__ = ["cut", "forms_of", "is_long", "is_long_across"]

#: Folds of a section: each may be one more walk along the rows.
_MOST_FOLDS = 8
_MANY = f"a launch has no more than {MOST_OPERANDS} operands"
#: Rows that are so long, and so few, are cut into pieces by the kernels of reductions: a block for
#: each would leave most of a device idle.
_LONG, _FEW = 32768, 64
#: Longer rows that lie across memory are cut into pieces too, however many there are: walked along,
#: they take 1.1 to 11 times as long (H200, 333 to 8,192 rows of 512 to 16,384 elements).
_LONG_ACROSS = 32


def is_long(shape: Sequence[int]) -> bool:
    """Whether an array has few long rows."""
    return len(shape) > 0 and shape[-1] >= _LONG and math.prod(shape[:-1]) < _FEW


def is_long_across(shape: Sequence[int]) -> bool:
    """Whether the last axis of rows that lie across memory is long for blocks that take several
    rows."""
    return len(shape) > 0 and shape[-1] > _LONG_ACROSS


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
        homes = list({id(home[id(user)]): home[id(user)] for user in using}.values())
        ends = "it is a result" if id(node) in returned else ""
        if not ends and id(node) in viewed:
            ends = "it is read as a view"
        ends = ends or ("several launches need it" if len(homes) > 1 else "")
        section = None if ends else homes[0]
        if section is not None:
            ends = _obstacle([node, *section.nodes], section.root, section.also, most)
        elif id(node) not in viewed:
            section = _writes_too(node, homes, home, most)
            if section is not None:
                section.also.append((node, ends))
                ends = ""
        if section is None or ends:
            section = Section(node, ends=ends)
        section.nodes.insert(0, node)
        viewed |= {id(own.node) for own in node.operands if isinstance(own, Value) and own.views}
        home[id(node)] = section
    order = {id(node): number for number, node in enumerate(nodes)}

    def wanted(node: Node, inside: set[int]) -> bool:
        using = (user for user in users.get(id(node), ()) if id(user) in home)
        return id(node) in returned or any(id(user) not in inside for user in using)

    _merge(home, order, most, wanted)
    for section in home.values():
        section.nodes.sort(key=lambda node: order[id(node)])
    return _in_order(home, order)


def _writes_too(
    node: Node, homes: Sequence[Section], home: Mapping[int, Section], most: Mapping[int, int]
) -> Section | None:
    """The section among those that need a node's result that writes it, for the others too."""
    if not homes or len(node.plan.outputs) != 1:
        return None
    needs = _needs(home)
    for section in homes:
        others = {id(other) for other in homes} - {id(section)}
        if others & _reached(needs, id(section)):
            continue  # it waits for one that would wait for it
        also = [*section.also, (node, "")]
        if not _obstacle([node, *section.nodes], section.root, also, most):
            return section
    return None


def _merge(
    home: dict[int, Section],
    order: Mapping[int, int],
    most: Mapping[int, int],
    wanted: Callable[[Node, set[int]], bool],
) -> None:
    """Put sections that read the same array, or one what the other writes, into one launch.

    Args:
        wanted: whether a node's result is needed outside of a section, by the ids of its nodes.
    """
    found = sorted({id(s): s for s in home.values()}.values(), key=lambda s: order[id(s.root)])
    for number, second in enumerate(found):
        for first in found[:number]:
            if home[id(first.root)] is not first or not _read_alike(first, second):
                continue
            if id(first.root) in most or id(second.root) in most:
                continue
            if _apart(_needs(home), id(first), id(second)):
                continue
            nodes = sorted([*first.nodes, *second.nodes], key=lambda node: order[id(node)])
            inside = set(map(id, nodes))
            also = [*second.also, *first.also, (first.root, first.ends)]
            also = [(node, ends) for node, ends in also if wanted(node, inside)]
            if _obstacle(nodes, second.root, also, most):
                continue
            second.nodes, second.also = nodes, also
            home |= {id(node): second for node in first.nodes}


def _apart(needs: Mapping[int, set[int]], first: int, second: int) -> bool:
    """Whether one of two sections needs what a third makes of the other's results."""
    for one, other in ((first, second), (second, first)):
        for between in needs[one] - {other}:
            if other in _reached(needs, between):
                return True
    return False


def _read_alike(first: Section, second: Section) -> bool:
    """Whether two sections read an array of some dimensions that both need, or one what the other
    writes, and as it is."""

    def read(section: Section) -> dict[tuple[object, ...], Value]:
        return {
            (id(own.node), own.index, own.views): own
            for own, _ in section.arguments()
            if isinstance(own, Value) and own.type.ndim
        }

    one, other = read(first), read(second)
    inside = {id(node) for node in (*first.nodes, *second.nodes)}
    between = [own for own in (*one.values(), *other.values()) if id(own.node) in inside]
    if any(own.views for own in between):
        return False
    return len(between) > 0 or not one.keys().isdisjoint(other)


def _needs(home: Mapping[int, Section]) -> dict[int, set[int]]:
    """By section, those whose results it reads."""
    found: dict[int, set[int]] = {}
    for section in home.values():
        own = found.setdefault(id(section), set())
        for node in section.nodes:
            for operand in node.operands:
                if isinstance(operand, Value) and id(operand.node) in home:
                    own.add(id(home[id(operand.node)]))
        own.discard(id(section))
    return found


def _reached(needs: Mapping[int, set[int]], start: int) -> set[int]:
    """The sections that have to be launched before one, itself not among them."""
    found: set[int] = set()
    waiting = [start]
    while waiting:
        new = needs.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _in_order(home: Mapping[int, Section], order: Mapping[int, int]) -> list[Section]:
    """The sections, each behind those that it needs, else as their roots are called."""
    needs = _needs(home)
    left = sorted({id(s): s for s in home.values()}.values(), key=lambda s: order[id(s.root)])
    found: list[Section] = []
    done: set[int] = set()
    while left:
        section = next(one for one in left if needs[id(one)] <= done)
        left.remove(section)
        found.append(section)
        done.add(id(section))
    return found


def _obstacle(
    nodes: Sequence[Node],
    root: Node,
    also: Sequence[tuple[Node, str]],
    most: Mapping[int, int],
) -> str:
    """Why nodes cannot be one section; empty: they can.

    Args:
        nodes: the one that would join first.
        also: those whose results are written beside the root's.
    """
    through = [one for one in nodes if stored.places_of(one) is not None]
    products = bool(through) or any(product_of(one) is not None for one in nodes)
    for one in (root, nodes[0]):
        known = function_of(one) or expansion_of(one) or product_of(one) or one in through
        if not known and pick_of(one) is None:
            return f"{one.spec.name} is a kernel of its own"
    if len(nodes) > most.get(id(root), len(nodes)):
        return "a launch of more operators would keep registers in memory, which costs more"
    if len(nodes) > MOST_STEPS:
        return f"a launch has no more than {MOST_STEPS} operators"
    if len(also) >= MOST_RESULTS:
        return f"a launch gives no more than {MOST_RESULTS} results"
    operands = len(Section(root, list(nodes)).arguments())
    picked = any(pick_of(one) is not None for one in nodes)
    if also and (picked or products):
        return "gathers, products of matrices, convolutions, scans and attention give one result"
    if any(map(has_narrow, nodes)) and not _takes_narrow(nodes):
        return (
            "floats of 8 bits are written among elementwise operators only, and read among these "
            "or before a product or attention"
        )
    if picked:
        if any(function_of(one) is None and pick_of(one) is None for one in nodes):
            return "elements that indices say are no rows, and no tiles of a product"
        return picks.obstacle(nodes, root) or (_MANY if operands > MOST_OPERANDS else "")
    if products:
        if any(expansion_of(one) is not None for one in nodes):
            return "rows that are reduced are not those of a tile of a product"
        section = Section(root, list(nodes))
        why = obstacle(nodes, root)
        if why:
            return why
        what = through[0].spec.name if through else "a product"
        for head in heads_of(nodes):
            if len(section.of_head(head)) > MOST_OF_HEAD:
                made = "what it reads" if through else "a factor"
                return f"{what}: {made} is made of no more than {MOST_OF_HEAD} operands"
        heads = len(section.heads()) or 1  # one that is read through
        beside = stored.most_beside(through[0]) if through else MOST_BESIDE
        if operands > beside + heads:
            return f"{what} has no more than {beside} operands beside it"
        if operands > MOST_ARGUMENTS:
            return f"a launch has no more than {MOST_ARGUMENTS} operands"
        return ""
    if operands > MOST_OPERANDS:
        return _MANY
    if forms_of(nodes, root, [node for node, _ in also]) is None:
        return f"its rows are not those of {root.spec.name}, lie across memory, or are few and long"
    return ""


def _takes_narrow(nodes: Sequence[Node]) -> bool:
    """Whether floats of 8 bits are read and written among elementwise operators, or read by those
    that give a product's factor or attention's arrays."""
    if all(map(function_of, nodes)):
        return True
    heads = [head for head in heads_of(nodes) if not stored.is_scan(head.node)]
    made = [node for head in heads for node in head.nodes]
    last = [head.nodes[-1].plan.outputs[0].dtype for head in heads]
    return not any(dtype in FLOAT8 for dtype in last) and all(
        node in made or not has_narrow(node) for node in nodes
    )


def forms_of(
    nodes: Sequence[Node], root: Node, also: Sequence[Node] = ()
) -> tuple[str, ...] | None:
    """The form of each of a section's results for each row, the root's first: `wide`, `kept` or
    `dropped`; empty where the section is elementwise. None: the nodes are not a section.

    Decided by the sizes of this trace. Another call with the same trace has other sizes, so each
    launch looks at its arguments (`fused`), and results of different shapes are computed apart.
    """
    shape = root.plan.outputs[0].shape
    if all(function_of(node) is not None for node in nodes):
        alike = all(node.plan.outputs[0].shape == shape for node in also)
        return ("",) * (1 + len(also)) if alike else None
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
    found = tuple(gives[id(node)] for node in (root, *also))
    outer = math.prod(shape) // (n if found[0] == "wide" else 1)
    # fewer rows would be folded once more for each that they are broadcast to
    if folds > _MOST_FOLDS or any(_rows(node) not in (None, outer) for node in nodes):
        return None
    if found[0] == "wide" and shape[-1:] != (n,):
        return None
    turned = [own for own in arrays if n > 1 and own.type.shape[-1:] == (n,) and _is_turned(own)]
    if turned and ("wide" in found or any(is_long_across(own.type.shape) for own in turned)):
        return None  # rows that lie across memory: a block would write a piece of it for each
    front = shape if found[0] == "dropped" else shape[:-1]
    wanted = {"wide": (*front, n), "kept": (*front, 1), "dropped": front}
    if any(
        node.plan.outputs[0].shape != wanted[form]
        for node, form in zip(also, found[1:], strict=True)
    ):
        return None
    return found


def _is_turned(value: Value) -> bool:
    return any(view.operator == "permute" for view in value.views)


def _rows(node: Node) -> int | None:
    """How many rows a node folds; None: it is elementwise."""
    first = node.operands[0]
    if function_of(node) is not None or not isinstance(first, Value):
        return None
    return math.prod(first.type.shape[:-1])
