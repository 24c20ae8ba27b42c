"""The launches of a traced function: how they are made and reported."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from .._arrays.dtypes import numpy_dtype
from .._kernels import libraries
from .._kernels.programs import program
from .._kernels.steps import alone, kernel_text
from .._values.types import Target
from .._values.value_classes import value_class
from ..spec import ArrayType, KernelSpec, ScalarType
from . import attended_scores
from .cutting import cut, forms_of
from .nodes import Node, Number, Value
from .picks import pick_of
from .products import heads_of, product_among, product_of
from .scores import Report, not_moved, reports
from .sections import LETTERS, Section, text_of_head, text_of_section
from .stored import is_attention, is_read_through, places_of, stored_among
from .views import Graph, last_axis

__all__ = [
    "PREFIX",
    "Launch",
    "Program",
    "layouts_of",
    "only",
    "operands_of",
    "program_of",
    "stand_in",
    "told",
]  # fmt: skip

#: Names of a section's arguments (`kernels/fused.py`).
_INPUTS = "abcdefghijklmnop"
#: Of the names of sections.
PREFIX = "fused "


@value_class(frozen=True, slots=True)
class Launch:
    """A section as it is launched.

    Attributes:
        kernel: its name in the catalog.
        section: what it is made of.
        operands: places of its arguments among the values; of a number with its dtype; else a
            constant.
        options: of a kernel that is launched as it is.
        places: of its results among the values.
        results: which of the function's results each of them is; -1: none.
        last: places of what no later launch needs.
        text: of its device function, where it is fused; in front of it, on lines of their own, what
            makes a factor of a product, what a scan reads, and arrays of attention.
        whole: each element of the result may need every one of an argument, so that it lies apart.
        rows: of a section over rows, its arrays by number, whether they have elements for each of a
            row (the others have one for all), and the axes that are their rows.
        straight: the places of its arguments, where none is a number or a constant.
    """

    kernel: str
    section: Section
    operands: tuple[tuple[str, Any, str], ...]
    options: Mapping[str, Any]
    places: tuple[int, ...]
    results: tuple[int, ...]
    text: str
    last: tuple[int, ...] = ()
    whole: bool = False
    rows: tuple[tuple[int, bool, tuple[int, ...] | None], ...] = ()
    straight: tuple[int, ...] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if all(how == "value" for how, _, _ in self.operands):
            object.__setattr__(self, "straight", tuple(own for _, own, _ in self.operands))


@value_class(frozen=True, slots=True)
class Program:
    """The program of a traced function.

    Attributes:
        launches: in their order.
        values: how many values there are; the function's arguments come first.
        returned: places of the results.
        form: puts results into what the function returns.
        operators: that the function calls.
        holds: whether what the function reads beside its arguments is what it was.
        compiled: by section's kernel, what the compiler says of it for the target that was given.
        alone: the only launch, whose result is the function's.
    """

    launches: tuple[Launch, ...]
    values: int
    returned: tuple[int, ...]
    form: Callable[[Sequence[Any]], Any]
    operators: Sequence[Node]
    holds: Callable[[], bool]
    compiled: Mapping[str, list[Report]]
    alone: Launch | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if len(self.launches) == 1 and self.launches[0].results == (0,) and self.form is only:
            object.__setattr__(self, "alone", self.launches[0])


def only(values: Sequence[Any]) -> Any:
    """The result of a function that gives one."""
    return values[0]


def operands_of(launch: Launch) -> list[tuple[Value | Number, str]]:
    """The arguments of a launch, and the dtypes of numbers."""
    if launch.text:
        return launch.section.arguments()
    return [(own, "") for own in launch.section.root.operands]


def stand_in(operand: tuple[Value | Number, str], values: Sequence[Any]) -> Any:
    """An array of the layout, or a number, to compile for."""
    own, dtype = operand
    if isinstance(own, Number):
        value = own.value if own.index is None else values[own.index]
        return numpy_dtype(dtype).type(value) if dtype else value
    if own.node is None:
        return values[own.index]
    return np.empty(own.given.shape, numpy_dtype(own.given.dtype))


def layouts_of(launch: Launch) -> tuple[ArrayType | ScalarType, ...]:
    """Of what a launch is given, at the sizes that were traced; arrays in C order."""
    if not launch.text:
        root = launch.section.root
        pairs = zip(root.operands, root.types, strict=True)
        return tuple(own.given if isinstance(own, Value) else type_ for own, type_ in pairs)
    return tuple(
        own.given if isinstance(own, Value) else ScalarType(dtype)
        for own, dtype in operands_of(launch)
    )


def program_of(
    graph: Graph,
    count: int,
    operators: Sequence[Node],
    form: Callable[[Sequence[Any]], Any],
    holds: Callable[[], bool],
    target: Target | None = None,
) -> Program:
    """The traced operators, as launches.

    Args:
        count: of the function's arguments.
        operators: that the function calls.
        form: puts results into what the function returns.
        target: sections that cost more there, by registers that are kept in memory, than they save
            are cut again.
    """
    most: dict[int, int] = {}
    compiled: dict[str, list[Report]] = {}
    while True:
        sections = cut(graph.nodes, graph.results, most)
        launches, values, returned = _joined(graph, count, sections)
        found = Program(launches, values, returned, form, operators, holds, compiled)
        if target is None:
            return found
        costly = {}
        for launch in found.launches:
            if launch.text:
                if launch.kernel not in compiled:
                    types = layouts_of(launch)
                    compiled[launch.kernel] = reports(launch.kernel, types, {}, target)
                spilled = sum(report.spilled for report in compiled[launch.kernel])
                if spilled > not_moved(launch.section):
                    spilled -= _spilled_alone(launch.section, target)
                if spilled > not_moved(launch.section):
                    costly[id(launch.section.root)] = len(launch.section.nodes) // 2
        if not costly:
            return found
        most |= costly


def _spilled_alone(section: Section, target: Target) -> int:
    """Bytes that a section's attention moves for want of registers by itself, whatever is done
    around it."""
    node = stored_among(section.nodes)
    if node is None or not is_attention(node):
        return 0
    found = reports(node.kernel, node.types, node.options, target)
    return sum(report.spilled for report in found)


def _joined(
    graph: Graph, count: int, sections: Sequence[Section]
) -> tuple[tuple[Launch, ...], int, tuple[int, ...]]:
    """A launch for each section, the number of all values, and those that are returned."""
    places: dict[tuple[int, int], int] = {}
    launches = []
    values = count
    wanted = [None if own.node is None else (id(own.node), own.index) for own in graph.results]
    for section in sections:
        made = [(id(node), index) for node, index in section.results]
        own = tuple(range(values, values + len(made)))
        values += len(made)
        places |= zip(made, own, strict=True)
        ends = tuple(wanted.index(one) if one in wanted else -1 for one in made)
        launches.append(_launch_of(section, places, own, ends))
    returned = tuple(
        own.index if own.node is None else places[id(own.node), own.index] for own in graph.results
    )
    return _with_ends(launches, returned), values, returned


def _with_ends(launches: list[Launch], returned: tuple[int, ...]) -> tuple[Launch, ...]:
    """The launches with what each is the last one to need: memory that is free then."""
    seen = set(returned)
    found = []
    for launch in reversed(launches):
        used = {own for how, own, _ in launch.operands if how != "constant"} | {*launch.places}
        found.append(replace(launch, last=tuple(sorted(used - seen))))
        seen |= used
    return tuple(reversed(found))


def _launch_of(
    section: Section,
    places: Mapping[tuple[int, int], int],
    own: tuple[int, ...],
    ends: tuple[int, ...],
) -> Launch:
    def place(value: Value) -> int:
        return value.index if value.node is None else places[id(value.node), value.index]

    operands: list[tuple[str, Any, str]] = []
    if not section.fused:
        for operand in section.root.operands:
            if isinstance(operand, Value):
                operands.append(("value", place(operand), ""))
            elif operand.index is None:
                operands.append(("constant", operand.value, ""))
            else:
                operands.append(("value", operand.index, ""))
        root = section.root
        kernel, views = root.kernel, _views_of(root.operands)
        if views:
            digest = hashlib.sha256(f"{kernel} {views}".encode()).hexdigest()[:12]
            kernel = f"{PREFIX}{root.spec.name} of views {digest}"
            if not libraries.is_registered(kernel):
                libraries.register_through_views(kernel, root.kernel, views)
        whole = bool(views)
        return Launch(kernel, section, tuple(operands), root.options, own, ends, "", whole=whole)
    arguments = section.arguments()
    for operand, dtype in arguments:
        if isinstance(operand, Value):
            operands.append(("value", place(operand), ""))
        else:
            operands.append(("number", operand.index, dtype))
    text, written = text_of_section(section)
    how = _product_of(section)
    picks = tuple(
        (pick.operator, pick.axis) for pick in map(pick_of, section.nodes) if pick is not None
    )
    base = _base_of(section)
    also = [node for node, _ in section.also]
    forms = None if how or picks or base else forms_of(section.nodes, section.root, also)
    gives = forms[0] if forms else ""
    rows = _rows_among(arguments) if gives else ()
    results, further = _results_of(section, text, written, forms or ())
    result = section.root.plan.outputs[0].dtype
    dtypes = tuple(dtype for _, dtype in arguments)
    views = _views_of([operand for operand, _ in arguments])
    parts = f"{text} {dtypes} {result} {gives} {how} {views or ''} {picks or ''}".rstrip()
    parts += further
    read = ""
    if base:
        if is_read_through(section.nodes, section.root):
            type_ = section.root.types[0]
            assert isinstance(type_, ArrayType)
            read = type_.dtype
        parts += f" {base[0].name} {sorted(base[1].items())} {base[2]} {read}"
    heads = _heads_of(section)
    parts += "".join(f" {head}" for head in heads)
    digest = hashlib.sha256(parts.encode()).hexdigest()[:12]
    names = [node.spec.name for node in section.nodes]
    kernel = f"{PREFIX}{' '.join(names)[:60]} {digest}"
    if not libraries.is_registered(kernel):
        libraries.register_section(
            kernel, text, dtypes, result, gives, how, views, picks, results, further, base, read,
            heads,
        )  # fmt: skip
    if rows:  # shown for rows that a block holds; it walks along longer ones
        letters = "".join(LETTERS[index] for index, _, _ in rows)
        text = kernel_text("whole", letters, text, written)
    elif written:
        text = kernel_text("each", "", text, written)
    if picks:
        text = kernel_text("picks", LETTERS[: 2 * len(picks)], text)
    if heads:
        text = "\n".join(part for part in (*(head[0] for head in heads), text) if part)
    return Launch(
        kernel, section, tuple(operands), {}, own, ends, text, rows=rows,
        whole=bool(how or base or views or picks or written),
    )  # fmt: skip


def _base_of(section: Section) -> tuple[KernelSpec, Mapping[str, Any], tuple[int, ...]] | None:
    """Of a section that goes on in the kernel of a convolution or a scan: that, its options, and
    the places of its arrays."""
    node = stored_among(section.nodes)
    places = None if node is None else places_of(node)
    if node is None or places is None:
        return None
    return node.spec, {**node.spec.options, **node.options}, places


def _results_of(
    section: Section, text: str, written: Sequence[int], forms: Sequence[str]
) -> tuple[tuple[tuple[Any, ...], ...], str]:
    """The description of several results for `fused.section`, and the steps that give them, as in a
    kernel's text; nothing of one."""
    if not written:
        return (), ""
    last = text.count(";")
    nodes = [node for node, _ in section.results]
    found = []
    for node, number, form in zip(nodes, (last, *written), forms, strict=True):
        steps, places, folds = alone(text, number)
        found.append((node.plan.outputs[0].dtype, form, places, steps, folds))
    return tuple(found), "".join(f".{number}" for number in written)


def _views_of(
    operands: Sequence[Value | Number],
) -> tuple[tuple[tuple[str, dict[str, Any]], ...], ...]:
    """As which views a kernel reads its arguments; empty: it reads all as they are."""
    found = tuple(
        tuple((view.operator, dict(view.options)) for view in own.views)
        if isinstance(own, Value)
        else ()
        for own in operands
    )
    return found if any(found) else ()


def _product_of(section: Section) -> tuple[str, bool, int | None] | None:
    """Of a section with a product: its dtype, whether its second factor is turned, and which of the
    section's arguments has one number for each column."""
    node = product_among(section.nodes)
    product = None if node is None else product_of(node)
    if node is None or product is None:
        return None
    vector = None
    if product.vector and product.added is not None:
        given = node.operands[product.added]
        first = len(section.heads())
        vector = next(
            index
            for index, (own, _) in enumerate(section.arguments())
            if index >= first and isinstance(own, Value) and isinstance(given, Value)
            and (own.node, own.index, own.views) == (given.node, given.index, given.views)
        )  # fmt: skip
        vector -= first - 2  # as among those of a product without what makes a factor
    return node.plan.outputs[0].dtype, product.turned, vector


def _heads_of(section: Section) -> tuple[tuple[str, str, int, int], ...]:
    """Of a section with a product, a scan or attention, what makes arrays of it: steps, dtype,
    which of them, and how many arguments belong to it beside the one in its place."""
    found = []
    for head in heads_of(section.nodes):
        product = product_of(head.node)
        dtype = head.nodes[-1].plan.outputs[0].dtype
        place = head.place if product is None else product.factors.index(head.place)
        count = len(section.of_head(head)) - 1
        found.append((text_of_head(section, head), dtype, place, count))
    return tuple(found)


def _rows_among(
    arguments: Sequence[tuple[Value | Number, str]],
) -> tuple[tuple[int, bool, tuple[int, ...] | None], ...]:
    arrays = {i: own for i, (own, _) in enumerate(arguments) if isinstance(own, Value)}
    n = max((own.type.shape[-1] for own in arrays.values() if own.type.shape), default=1)
    return tuple((i, own.type.shape[-1:] == (n,), last_axis(own)) for i, own in arrays.items())


def told(launch: Launch, target: Target | None, compiled: Sequence[Report]) -> list[str]:
    """A launch's operators, the bytes that fusing saves, and the reason why it ends where it does.

    Args:
        target: that `compiled` is for.
    """
    nodes = launch.section.nodes
    names = " ".join(node.spec.name for node in nodes)
    operands = [own for own, _ in operands_of(launch)]
    inputs = (
        _INPUTS if launch.text else [one.rstrip("?") for one in launch.section.root.spec.inputs]
    )
    views = [
        f"   {inputs[number]} is a view: {', then '.join(map(str, own.views))}."
        for number, own in enumerate(operands)
        if isinstance(own, Value) and own.views
    ]
    if not launch.text:
        said = f"{names} (as it is). Its result is written: {launch.section.ends}."
        steps = attended_scores.steps_among(launch.section.root)
        shown = program(steps).rstrip().splitlines() if steps else []
        return [said, *views, *(f"   {line}" for line in shown)]
    dtypes = ", ".join(dtype for _, dtype in launch.section.arguments())
    also = "".join(
        f" That of {node.spec.name} is written too: {ends}." for node, ends in launch.section.also
    )
    return [
        f"{names}, from {dtypes}. Launches saved: {len(nodes) - 1}. Bytes that are not moved: "
        f"{not_moved(launch.section):,}. Its result is written: {launch.section.ends}.{also}",
        *views,
        *(f"   On {target}: {report}." for report in compiled),
        *(
            f"   {line}"
            for text in launch.text.split("\n")
            for line in program(text).rstrip().splitlines()
        ),
    ]
