"""Operators that move nothing (permute, reshape, expand_dims, ...) in a graph: what needs their
result reads their argument through other strides, and no kernel runs.

A view of what elementwise operators give is made of their arguments instead, so that the operators
join the section of what reads it. Reductions of several last axes are turned into some of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._kernels import libraries
from .._values.value_classes import value_class
from ..spec import ArrayType, ScalarType, contiguous_strides
from .cutting import is_long, is_long_across
from .expansions import expansion_of
from .nodes import Node, Number, Value, View, node_of
from .products import product_of
from .sections import function_of

__all__ = ["Graph", "last_axis", "through_views"]

_KINDS = frozenset(
    ("broadcast_to", "expand_dims", "flatten", "flatten_2d", "moveaxis", "permute", "reshape",
     "squeeze", "strided_slice", "swapaxes")
)  # fmt: skip
_IN_ORDER = frozenset(("flatten", "flatten_2d", "reshape"))


@value_class(frozen=True, slots=True)
class Graph:
    """Nodes and results in which views stand for operators.

    Attributes:
        by_shape: it holds for these shapes only.
        across: whether it has a reduction of other axes than the last ones that may join a section.
    """

    nodes: Sequence[Node]
    results: list[Value]
    by_shape: bool
    across: bool


def through_views(nodes: Sequence[Node], results: Sequence[Value]) -> Graph:
    """The graph in which results of operators that move nothing are views of their arguments."""
    work = _Rewriting(nodes, results)
    for node in nodes:
        work.take(node)
    found = [work.whole(work.made.get((id(one.node), one.index), one)) for one in results]
    return Graph(work.nodes, found, work.by_shape, work.across)


def last_axis(value: Value) -> tuple[int, ...] | None:
    """The axes of the array whose lengths, multiplied, are that of the view's last one; None: it
    takes more to say it."""
    axes: list[tuple[int, ...] | None] = [(axis,) for axis in range(value.given.ndim)]
    for view in value.views:
        options = dict(view.options)
        if view.operator == "permute":
            order = options["axes"]
            axes = axes[::-1] if order is None else [axes[a] for a in _tuple(order)]
        elif view.operator == "expand_dims":
            count = len(_tuple(options["axis"])) + len(axes)
            for axis in sorted(a % count for a in _tuple(options["axis"])):
                axes.insert(axis, ())
        elif view.operator == "squeeze":
            gone = {a % len(axes) for a in _tuple(options["axis"])}
            axes = [own for axis, own in enumerate(axes) if axis not in gone]
        elif view.operator == "flatten" and axes:
            first, last = (options[name] % len(axes) for name in ("start", "end"))
            merged: list[int] | None = []
            for own in axes[first : last + 1]:
                merged = None if merged is None or own is None else [*merged, *own]
            axes[first : last + 1] = [None if merged is None else tuple(merged)]
        else:
            return None
    return axes[-1] if axes else ()


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _view_of(node: Node) -> View | None:
    """The view that a node gives of its first operand; None: it gives none, or one that begins
    elsewhere in memory."""
    name = node.spec.name
    if not node.own or name not in _KINDS or len(node.operands) != 1:
        return None
    options = {**node.spec.options, **node.options}
    if name == "squeeze" and options["axis"] is None:  # which axes these are depends on lengths
        return None
    if name == "strided_slice":
        steps = options["steps"]
        if any(_tuple(options["starts"])) or any(s < 1 for s in _tuple(steps or ())):
            return None
    if name == "expand_dims" and options["axis"] is None:
        return None
    return _view(name, options)


def _view(operator: str, options: Mapping[str, Any]) -> View:
    return View(
        operator,
        tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in sorted(options.items())),
    )


class _Rewriting:
    """One pass over a graph.

    Attributes:
        made: what stands for a value, by its node's id and its index.
    """

    def __init__(self, nodes: Sequence[Node], results: Sequence[Value]) -> None:
        self.nodes: list[Node] = []
        self.by_shape = self.across = False
        self.made: dict[tuple[int, int], Value] = {}
        self._whole: dict[tuple[Any, ...], Value] = {}
        self._users: dict[int, list[Node]] = {}
        for node in nodes:
            for own in node.operands:
                if isinstance(own, Value) and own.node is not None:
                    self._users.setdefault(id(own.node), []).append(node)
        self._returned = Counter(id(one.node) for one in results)
        # how often a new node's result is needed
        self._needed: dict[int, int] = {}

    def take(self, node: Node) -> None:
        """Add a node, or what it becomes."""
        operands = tuple(
            own if isinstance(own, Number) else self.made.get((id(own.node), own.index), own)
            for own in node.operands
        )
        view = _view_of(node)
        first = operands[0] if operands else None
        if view is not None and isinstance(first, Value) and first.type.size:
            self._stands(node, self._seen(first, view, lift=self._lifts(node)))
            return
        turned = self._along_last(node, first) if isinstance(first, Value) else None
        if turned is not None:
            self._stands(node, turned)
            return
        if not _reads_views(node):
            operands = tuple(o if isinstance(o, Number) else self.whole(o) for o in operands)
        if any(new is not old for new, old in zip(operands, node.operands, strict=True)):
            node = self._replaced(node, operands)
        self._add(node, node)

    def _replaced(self, node: Node, operands: tuple[Value | Number, ...]) -> Node:
        found = replace(node, operands=operands)
        for index in range(len(node.plan.outputs)):
            self.made[id(node), index] = Value(_type(node, index), index, found)
        self._needed[id(found)] = self._needs(node)
        return found

    def _add(self, node: Node, stands_for: Node) -> None:
        self.nodes.append(node)
        self._needed.setdefault(id(node), self._needs(stands_for))

    def _needs(self, node: Node) -> int:
        return len(self._users.get(id(node), ())) + self._returned[id(node)]

    def _stands(self, node: Node, value: Value) -> None:
        self.made[id(node), 0] = value
        if value.node is not None and not value.views:
            self._needed[id(value.node)] = self._needs(node)

    def _lifts(self, node: Node) -> bool:
        """Whether a view is better made of what is computed before: those that need it then compute
        it themselves."""
        users = self._users.get(id(node), ())
        wide = node.spec.name == "broadcast_to"
        return all(
            function_of(one) is not None
            or (not wide and (_view_of(one) or expansion_of(one) or _reduces(one)))
            for one in users
        ) and not (wide and self._returned[id(node)])

    def _seen(self, value: Value, view: View, *, lift: bool) -> Value:
        """A view of a value."""
        node = value.node
        liftable = (
            lift
            and node is not None
            and not value.views
            and function_of(node) is not None
            and self._needed.get(id(node), 0) == 1
        )
        if node is None or not liftable or not self._passes(node, view):
            return _viewed(value, view)
        ndim = len(_type(node, 0).shape)
        operands: list[Value | Number] = []
        types: list[ArrayType | ScalarType] = []
        for own, type_ in zip(node.operands, node.types, strict=True):
            if isinstance(own, Value):
                if own.type.ndim < ndim and view.operator != "broadcast_to":
                    front = tuple(range(ndim - own.type.ndim))
                    own = self._seen(own, _view("expand_dims", {"axis": front}), lift=True)
                own = self._seen(own, view, lift=True)
                type_ = own.type
            operands.append(own)
            types.append(type_)
        made = node_of(
            node.kernel, node.spec, tuple(operands), tuple(types), node.options, node.line, node.own
        )
        self.nodes.append(made)
        self._needed[id(made)] = 1
        return Value(_type(made, 0), 0, made)

    def _passes(self, node: Node, view: View) -> bool:
        """Whether a view of an elementwise result is made of the same views of its operands."""
        arrays = [own for own in node.operands if isinstance(own, Value)]
        if view.operator == "strided_slice":  # of an axis of 1 it leaves the 1
            stops = dict(view.options)["stops"]
            return stops is None or all(n is None or n >= 0 for n in _tuple(stops))
        if view.operator in _IN_ORDER:
            if any(own.type.shape != _type(node, 0).shape for own in arrays):
                return False
            self.by_shape |= any(_same(own) != _same(arrays[0]) for own in arrays)
        return True

    def _along_last(self, node: Node, value: Value) -> Value | None:
        """A reduction of several axes, or of others than the last, as one of the last axis, where
        it joins a section so."""
        axes = _reduces(node)
        if axes is None or not value.type.size:
            return None
        before = value.node
        lifts = before is not None and not value.views and function_of(before) is not None
        lifts = lifts and self._needed.get(id(before), 0) == 1
        users = self._users.get(id(node), ())
        kept = {**node.spec.options, **node.options}["keepdims"]
        joins = lifts or (not kept and len(users) == 1 and function_of(users[0]) is not None)
        ndim = value.type.ndim
        last = axes == tuple(range(ndim - len(axes), ndim))
        # others lie across memory, and have kernels of their own, but for what is computed first
        if not (joins if last else lifts) or axes == (ndim - 1,):
            return None
        if axes != tuple(range(axes[0], axes[0] + len(axes))):
            return None
        self.across |= not last
        if not last and len(axes) > 1 and not self._is_of_one_shape(value):
            return None  # where one of several axes is broadcast they do not become one
        n = 1
        for axis in axes:
            n *= value.type.shape[axis]
        rows = value.type.size // n, n
        if is_long(rows) or (not last and is_long_across(rows)):
            return None
        views = []
        if not last:
            order = [axis for axis in range(ndim) if axis not in axes]
            views.append(_view("permute", {"axes": (*order, *axes)}))
        if len(axes) > 1:
            views.append(_view("flatten", {"start": ndim - len(axes), "end": ndim - 1}))
        options = {**node.options, "axis": -1, "keepdims": False}

        def reduction(own: Value) -> Node:
            return node_of(node.kernel, node.spec, (own,), (own.type,), options, node.line, True)

        seen = value
        for view in views:
            seen = _viewed(seen, view)
        if expansion_of(reduction(seen)) is None:
            return None
        for view in views:
            value = self._seen(value, view, lift=True)
        made = reduction(value)
        self.nodes.append(made)
        self._needed[id(made)] = self._needs(node)
        found = Value(_type(made, 0), 0, made)
        if kept:
            return _viewed(found, _view("expand_dims", {"axis": axes}))
        return found

    def _is_of_one_shape(self, value: Value) -> bool:
        """Whether what a view of a value would be made of (`_seen`) has its shape throughout."""
        node = value.node
        if node is None or value.views or function_of(node) is None:
            return True
        if self._needed.get(id(node), 0) != 1:
            return True
        arrays = [own for own in node.operands if isinstance(own, Value)]
        shape = value.type.shape
        return all(own.type.shape == shape and self._is_of_one_shape(own) for own in arrays)

    def whole(self, value: Value) -> Value:
        """A value as an array: a view of it is copied."""
        if not value.views:
            return value
        key = _same(value)
        if key not in self._whole:
            *before, view = value.views
            base = Value(value.given, value.index, value.node)
            for one in before:
                base = _viewed(base, one)
            kernel = libraries.find(view.operator)
            line = "" if value.node is None else value.node.line
            made = node_of(
                view.operator, kernel.spec, (base,), (base.type,), dict(view.options), line, True
            )
            self.nodes.append(made)
            self._whole[key] = Value(_type(made, 0), 0, made)
        return self._whole[key]


def _same(value: Value) -> tuple[Any, ...]:
    return id(value.node), value.index, value.views


def _type(node: Node, index: int) -> ArrayType:
    out = node.plan.outputs[index]
    return ArrayType(out.dtype, out.shape, contiguous_strides(out.shape))


def _viewed(value: Value, view: View) -> Value:
    spec = libraries.find(view.operator).spec
    made = node_of(view.operator, spec, (value,), (value.type,), dict(view.options), "", True)
    return Value(_type(made, 0), value.index, value.node, (*value.views, view), value.given)


def _reduces(node: Node) -> tuple[int, ...] | None:
    """The axes that a reduction of our library is over; None: it is none."""
    options = {**node.spec.options, **node.options}
    first = node.operands[0] if node.operands else None
    if not node.own or len(node.operands) != 1 or not isinstance(first, Value):
        return None
    if not {"axis", "keepdims"} <= options.keys() or not isinstance(options["keepdims"], bool):
        return None
    if not node.plan.launches or not node.plan.launches[0].source.startswith("reduction:"):
        return None
    ndim = first.type.ndim
    given = range(ndim) if options["axis"] is None else _tuple(options["axis"])
    if not ndim or not all(type(a) is int for a in given):
        return None
    return tuple(sorted(a % ndim for a in given)) or None


def _reads_views(node: Node) -> bool:
    """Whether a node's kernel can read its arguments as views."""
    if function_of(node) is not None or product_of(node) is not None:
        return True
    return node.own and node.spec.bounds is None and not node.spec.impl
