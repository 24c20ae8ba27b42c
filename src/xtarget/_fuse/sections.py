"""From a graph to few launches: which operators become one section.

An operator joins the section of what uses it if nothing else does, if it is elementwise, about rows
as they are, or a product of matrices whose tiles the others are done to (`cutting`), and if the
section then still has few enough operands for one launch. Its result is never written to memory.
What is used by several sections, or by another kind of kernel, is written once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from .._kernels.steps import Fold, Operand, Step, text_of
from .._values.float8 import FLOAT8
from .._values.types import DTYPES, DtypeConstant
from ..spec import Input, Launch, Scalar, ScalarType
from .expansions import expansion_of
from .nodes import Node, Number, Value, View
from .picks import pick_of
from .products import Head, first_of, heads_of, product_among, product_of
from .stored import is_read_through, places_of, stored_among

__all__ = [
    "LETTERS",
    "MOST_OPERANDS",
    "MOST_RESULTS",
    "MOST_STEPS",
    "Section",
    "function_of",
    "has_narrow",
    "reads_views",
    "steps_of_nodes",
    "text_of_head",
    "text_of_section",
]

_FORM = re.compile(r"elementwise:(?:unary|binary|ternary|quaternary)\(([^()]*)\)")
#: Arguments of a section's kernel. More of them are more addresses than registers hold.
MOST_OPERANDS = 8
#: Steps of a section: more of them make a kernel that waits for its own registers.
MOST_STEPS = 48
#: Results of a section: each is one more address (`kernels/plans/elementwise.py`).
MOST_RESULTS = 4
LETTERS = "abcdefgh"
#: What one letter stands for: of a number its dtype, of an array its views.
_Name: TypeAlias = tuple[int, int, str | tuple[View, ...]]


@dataclass(slots=True)
class Section:
    """Nodes that become one launch. One alone is launched as it is, unless it is a product to which
    something is added or done, which its own kernel stores in between, or an elementwise operator
    that reads views.

    Attributes:
        root: the node whose result is written.
        nodes: in the order of their calls, the root last.
        ends: why the root's result is written.
        also: other nodes whose results are written, and why.
    """

    root: Node
    nodes: list[Node] = field(default_factory=list)
    ends: str = ""
    also: list[tuple[Node, str]] = field(default_factory=list)

    @property
    def results(self) -> list[tuple[Node, int]]:
        """The results that are written: nodes and the indices of their results."""
        own = [(self.root, index) for index in range(len(self.root.plan.outputs))]
        return [*own, *((node, 0) for node, _ in self.also)]

    @property
    def fused(self) -> bool:
        if len(self.nodes) > 1:
            return True
        product = product_of(self.root)
        if product is not None:
            return len(product.steps) > 0
        return function_of(self.root) is not None and reads_views(self.root)

    def arguments(self) -> list[tuple[Value | Number, str]]:
        """The section's arguments: arrays from outside and the function's numbers, each with the
        dtype in which it is given."""
        heads = self.heads()
        made = {node for head in heads_of(self.nodes) for node in head.nodes}
        nodes = [node for node in self.nodes if node not in made]
        return [*heads.values(), *self._given(nodes, heads)]

    def _given(
        self, nodes: Sequence[Node], but: Collection[tuple[Node, int]] = ()
    ) -> list[tuple[Value | Number, str]]:
        """The inputs of some of the nodes from outside, each once, with the dtypes.

        Args:
            but: operands that do not count, by node and place.
        """
        found: dict[tuple[Any, ...], tuple[Value | Number, str]] = {}
        inside = set(map(id, self.nodes))
        for node in nodes:
            for place, own in enumerate(node.operands):
                if (node, place) in but:
                    continue
                if isinstance(own, Number) and own.index is not None:
                    dtype = travelling(_dtype_of(node, place))
                    found.setdefault((own.index, f"number {dtype}"), (own, dtype))
                elif isinstance(own, Value) and id(own.node) not in inside:
                    source = own.index if own.node is None else id(own.node)
                    what = "argument" if own.node is None else f"result {own.index}"
                    found.setdefault((source, what, own.views), (own, own.type.dtype))
        return list(found.values())

    def of_head(self, head: Head) -> list[tuple[Value | Number, str]]:
        """The values that a factor of the section's product, or other input of its kernel, is made
        of, an array of its shape first."""
        given, own = self._given(head.nodes), first_of(head)
        if own is None:
            return given
        first = next(one for one in given if _same_array(one[0], own))
        return [first, *(one for one in given if one is not first)]

    def heads(self) -> dict[tuple[Node, int], tuple[Value | Number, str]]:
        """The first arguments, by node and place: the matrices of a product, the arrays of a
        convolution or a scan, or the arrays and the indices of gathers."""
        return self.factors() or self.picks() or self.stored()

    def stored(self) -> dict[tuple[Node, int], tuple[Value | Number, str]]:
        """The arrays of the section's convolution or scan, by node and place."""
        node = stored_among(self.nodes)
        places = None if node is None else places_of(node)
        if node is None or places is None or is_read_through(self.nodes, self.root):
            return {}
        return self._heads(node, places)

    def picks(self) -> dict[tuple[Node, int], tuple[Value | Number, str]]:
        """The array and the indices of each gather, by node and place."""
        found: dict[tuple[Node, int], tuple[Value | Number, str]] = {}
        for node in self.nodes:
            pick = pick_of(node)
            for place in () if pick is None else pick.places:
                own = node.operands[place]
                assert isinstance(own, Value)
                found[node, place] = own, own.type.dtype
        return found

    def factors(self) -> dict[tuple[Node, int], tuple[Value | Number, str]]:
        """The matrices of the section's product, by node and place."""
        node = product_among(self.nodes)
        product = None if node is None else product_of(node)
        if node is None or product is None:
            return {}
        return self._heads(node, product.factors)

    def _heads(
        self, node: Node, places: Sequence[int]
    ) -> dict[tuple[Node, int], tuple[Value | Number, str]]:
        """A node's arrays, and behind them what else one of them is made of."""
        found: dict[tuple[Node, int], tuple[Value | Number, str]] = {}
        made = {head.place: self.of_head(head) for head in heads_of(self.nodes)}
        for place in places:
            own = node.operands[place]
            assert isinstance(own, Value)
            found[node, place] = made[place][0] if made.get(place) else (own, own.type.dtype)
        others = [one for of_place in made.values() for one in of_place[1:]]
        # no operand of the node has such a place
        return found | {(node, -place): one for place, one in enumerate(others, 1)}


def _same_array(one: Value | Number, other: Value) -> bool:
    return isinstance(one, Value) and (one.node, one.index, one.views) == (
        other.node,
        other.index,
        other.views,
    )


def has_narrow(node: Node) -> bool:
    """Whether a node reads or writes floats of 8 bits."""
    return any(type_.dtype in FLOAT8 for type_ in (*node.types, *node.plan.outputs))


def reads_views(node: Node) -> bool:
    """Whether an operand of a node is a view."""
    return any(isinstance(own, Value) and own.views for own in node.operands)


def travelling(dtype: str) -> str:
    """The dtype in which a number is given to a launch that computes it in `dtype`."""
    if dtype in ("bool", "uint64", "float64"):
        return dtype
    return "float32" if DTYPES[dtype].kind == "f" else "int64"


def _dtype_of(node: Node, place: int) -> str:
    type_ = node.types[place]
    assert isinstance(type_, ScalarType)
    return type_.dtype


def function_of(node: Node) -> str | None:
    """The device function of an elementwise node of our library; None: it is another kernel, or
    gives nothing (arrays without elements)."""
    plan = node.plan
    if (
        not node.own
        or not node.spec.elementwise
        or len(plan.launches) != 1
        or len(plan.outputs) != 1
    ):
        return None
    match = _FORM.fullmatch(plan.launches[0].source)
    return None if match is None else match[1]


def text_of_section(section: Section) -> tuple[str, tuple[int, ...]]:
    """The section as a device function, in steps (`_kernels.steps`); and the steps that give what
    is written beside the last one's result."""
    first = len(section.heads())
    # `a` is what a convolution or a scan gives, as it is of a product of two
    before = 2 if section.stored() or section.factors() else first
    made_before = {node for head in heads_of(section.nodes) for node in head.nodes}
    letters = {
        _name(own, dtype): LETTERS[number - first + before]
        for number, (own, dtype) in enumerate(section.arguments())
        if number >= first
    }
    values: dict[int, Operand] = {}
    steps: list[Step | Fold] = []
    taken = iter(LETTERS[::2])
    for node in section.nodes:
        if node in made_before:
            continue
        if pick_of(node) is not None:
            values[id(node)] = next(taken), ()
            continue
        if node is section.root and is_read_through(section.nodes, node):
            continue
        if places_of(node) is not None:
            values[id(node)] = LETTERS[0], (node.plan.outputs[0].dtype,)
            continue
        made = None if function_of(node) else product_of(node) or expansion_of(node)
        if made is None:
            steps.append(_elementwise(node, letters, values))
            values[id(node)] = str(len(steps) - 1), ()
        else:
            values[id(node)] = _later(made.result, len(steps))
            steps += _expanded(node, made.steps, len(steps), letters, values)
    return text_of(steps), tuple(int(values[id(node)][0]) for node, _ in section.also)


def text_of_head(section: Section, head: Head) -> str:
    """The text of a factor of the section's product, or of other input of its kernel, as a device
    function of `Section.of_head`."""
    letters = {
        _name(own, dtype): letter
        for letter, (own, dtype) in zip(LETTERS, section.of_head(head), strict=False)
    }
    return _text(head.nodes, letters)


def steps_of_nodes(nodes: Sequence[Node], given: Sequence[Value]) -> str:
    """Elementwise nodes as a device function of what they are given."""
    letters = {_name(own, ""): letter for letter, own in zip(LETTERS, given, strict=False)}
    return _text(nodes, letters)


def _text(nodes: Sequence[Node], letters: dict[_Name, str]) -> str:
    values: dict[int, Operand] = {}
    steps: list[Step | Fold] = []
    for node in nodes:
        steps.append(_elementwise(node, letters, values))
        values[id(node)] = str(len(steps) - 1), ()
    return text_of(steps)


def _later(operand: Operand, first: int) -> Operand:
    """An operand of steps that begin with number 0, where they begin with `first`."""
    what, dtypes = operand
    return (str(int(what) + first) if what.isdigit() else what), dtypes


def _elementwise(node: Node, letters: dict[_Name, str], values: dict[int, Operand]) -> Step:
    launch = node.plan.launches[0]
    operands = []
    for letter in LETTERS:
        if letter not in launch.args:
            break
        operands.append(_operand(node, launch, letter, letters, values))
    function = function_of(node)
    assert function is not None
    dtype = node.plan.outputs[0].dtype
    # floats of 8 bits are their bits there
    return Step(function, tuple(operands), "uint8" if dtype in FLOAT8 else dtype)


def _expanded(
    node: Node,
    steps: Sequence[Step | Fold],
    first: int,
    letters: dict[_Name, str],
    values: dict[int, Operand],
) -> list[Step | Fold]:
    """A node's own steps, from step `first` on."""

    def placed(operand: Operand) -> Operand:
        what, dtypes = operand
        if what.startswith("@"):
            own = node.operands[int(what[1:])]
            assert isinstance(own, Value)
            if id(own.node) in values:
                made, before = values[id(own.node)]
                return made, (*before, *dtypes)
            return letters[_name(own, "")], dtypes
        return _later(operand, first)

    return [replace(step, operands=tuple(map(placed, step.operands))) for step in steps]


def _name(own: Value | Number, dtype: str) -> _Name:
    if isinstance(own, Number):
        return -1, own.index or 0, dtype
    return id(own.node), own.index, own.views


def _operand(
    node: Node,
    launch: Launch,
    letter: str,
    letters: dict[_Name, str],
    values: dict[int, Operand],
) -> Operand:
    """An operand of a step, from the launch that the node would be alone."""
    given = launch.args[letter]
    computed = _constant(launch, f"T{letter.upper()}")
    if isinstance(given, Scalar):  # an option
        return _literal(given.value, given.dtype), (given.dtype, computed)
    assert isinstance(given, Input)
    own = node.operands[given.index]
    if isinstance(own, Value):
        if id(own.node) in values:
            made, before = values[id(own.node)]
            return made, (*before, computed)
        return letters[_name(own, "")], (computed,)
    dtype = _dtype_of(node, given.index)
    if own.index is None:
        return _literal(own.value, dtype), (dtype, computed)
    return letters[_name(own, travelling(dtype))], (dtype, computed)


def _constant(launch: Launch, name: str) -> str:
    value = launch.constants[name]
    assert isinstance(value, DtypeConstant)
    return value.name


def _literal(value: bool | int | float, dtype: str) -> str:
    if dtype == "bool" or DTYPES[dtype].kind in "iu":
        return f"={int(value)}"
    return f"={float(value).hex()}"
