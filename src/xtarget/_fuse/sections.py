"""From a graph to few launches: which elementwise operators become one section.

An operator joins the section of what uses it if nothing else does, if it is elementwise as they
are, and if the section then still has few enough operands for one launch. Its result is never
written to memory. What is used by several sections, or by another kind of kernel, is written once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .._kernels.composed import Step, text_of
from .._values.types import DTYPES, DtypeConstant
from ..spec import Input, Launch, Scalar, ScalarType
from .tracing import Node, Number, Value

__all__ = ["Section", "cut", "text_of_section"]

_FORM = re.compile(r"elementwise:(?:unary|binary|ternary|quaternary)\(([^()]*)\)")
#: Arguments of a kernel of `elementwise.py`.
_MOST_OPERANDS = 4
#: Steps of a section: more of them make a kernel that waits for its own registers.
_MOST_STEPS = 48
_LETTERS = "abcdefgh"


@dataclass(slots=True)
class Section:
    """Nodes that become one launch. One alone is launched as it is.

    Attributes:
        root: the node whose result is written.
        nodes: in the order of their calls, the root last.
    """

    root: Node
    nodes: list[Node] = field(default_factory=list)

    @property
    def fused(self) -> bool:
        return len(self.nodes) > 1

    def arguments(self) -> list[tuple[Value | Number, str]]:
        """What the section is launched with: arrays from outside and the function's numbers, each
        with the dtype in which it is given."""
        found: dict[tuple[int, str], tuple[Value | Number, str]] = {}
        inside = set(map(id, self.nodes))
        for node in self.nodes:
            for place, own in enumerate(node.operands):
                if isinstance(own, Number) and own.index is not None:
                    dtype = travelling(_dtype_of(node, place))
                    found.setdefault((own.index, f"number {dtype}"), (own, dtype))
                elif isinstance(own, Value) and id(own.node) not in inside:
                    source = own.index if own.node is None else id(own.node)
                    what = "argument" if own.node is None else f"result {own.index}"
                    found.setdefault((source, what), (own, own.type.dtype))
        return list(found.values())


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


def cut(nodes: Sequence[Node], results: Sequence[Value]) -> list[Section]:
    """The sections of a graph, in an order in which they can be launched; what the results do not
    need is in none of them.

    Args:
        results: what the function returns.
    """
    users: dict[int, list[Node]] = {}
    for node in nodes:
        for own in node.operands:
            if isinstance(own, Value) and own.node is not None:
                users.setdefault(id(own.node), []).append(node)
    returned = {id(result.node) for result in results}
    home: dict[int, Section] = {}
    for node in reversed(nodes):
        using = [user for user in users.get(id(node), ()) if id(user) in home]
        if not using and id(node) not in returned:
            continue
        homes = {id(home[id(user)]): home[id(user)] for user in using}
        section = next(iter(homes.values())) if len(homes) == 1 else None
        joins = section is not None and id(node) not in returned and _may_join(node, section)
        if joins and section is not None:
            section.nodes.insert(0, node)
        else:
            section = Section(node, [node])
        home[id(node)] = section
    found = {id(section): section for section in home.values()}
    order = {id(node): number for number, node in enumerate(nodes)}
    for section in found.values():
        section.nodes.sort(key=lambda node: order[id(node)])
    return sorted(found.values(), key=lambda section: order[id(section.root)])


def _may_join(node: Node, section: Section) -> bool:
    if function_of(node) is None or function_of(section.root) is None:
        return False
    together = Section(section.root, [node, *section.nodes])
    return len(together.nodes) <= _MOST_STEPS and len(together.arguments()) <= _MOST_OPERANDS


def text_of_section(section: Section) -> str:
    """The section as a device function, in steps (`_kernels.composed`)."""
    letters = {
        _name(own, dtype): _LETTERS[number]
        for number, (own, dtype) in enumerate(section.arguments())
    }
    numbers = {id(node): number for number, node in enumerate(section.nodes)}
    steps = []
    for node in section.nodes:
        launch = node.plan.launches[0]
        operands = []
        for letter in _LETTERS:
            if letter not in launch.args:
                break
            operands.append(_operand(node, launch, letter, letters, numbers))
        function = function_of(node)
        assert function is not None
        steps.append(Step(function, tuple(operands), node.plan.outputs[0].dtype))
    return text_of(steps)


def _name(own: Value | Number, dtype: str) -> tuple[int, int, str]:
    if isinstance(own, Number):
        return -1, own.index or 0, dtype
    return id(own.node), own.index, ""


def _operand(
    node: Node,
    launch: Launch,
    letter: str,
    letters: dict[tuple[int, int, str], str],
    numbers: dict[int, int],
) -> tuple[str, tuple[str, ...]]:
    """An operand of a step, from the launch that the node would be alone."""
    given = launch.args[letter]
    computed = _constant(launch, f"T{letter.upper()}")
    if isinstance(given, Scalar):  # an option
        return _literal(given.value, given.dtype), (given.dtype, computed)
    assert isinstance(given, Input)
    own = node.operands[given.index]
    if isinstance(own, Value):
        if id(own.node) in numbers:
            return str(numbers[id(own.node)]), (computed,)
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
