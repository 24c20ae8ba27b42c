"""A function's computation as a graph: calls of kernels, and the values between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._arrays.dtypes import NumpyRules
from .._values.value_classes import value_class
from ..spec import ArrayType, Call, KernelSpec, Plan, ScalarType

__all__ = ["Node", "Number", "Value", "View", "node_of"]

_RULES = NumpyRules()


@value_class(frozen=True, slots=True, eq=False)
class Node:
    """A call of a kernel.

    Attributes:
        operands: what it is called with.
        types: of its operands, as its plan got them.
        line: where the function makes the call.
        own: the kernel is of our own library.
    """

    kernel: str
    spec: KernelSpec
    operands: tuple[Value | Number, ...]
    types: tuple[ArrayType | ScalarType, ...]
    options: Mapping[str, Any]
    plan: Plan
    line: str
    own: bool


@value_class(frozen=True, slots=True)
class View:
    """The result of an operator that moves nothing, read from its argument.

    Attributes:
        options: all of the operator's, sorted.
    """

    operator: str
    options: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.options)
        return f"{self.operator}({given})"


@value_class(frozen=True, slots=True, eq=False)
class Value:
    """An array: the function's argument `index`, or the result `index` of a node.

    Attributes:
        type: of the last view.
        views: as which it is read, one after another.
        array: of a view, the layout of the array.
    """

    type: ArrayType
    index: int
    node: Node | None = None
    views: tuple[View, ...] = ()
    array: ArrayType | None = None

    @property
    def given(self) -> ArrayType:
        """The layout of the array."""
        return self.array or self.type


@value_class(frozen=True, slots=True, eq=False)
class Number:
    """A number: the function's argument `index`, or a constant in it."""

    value: Any
    index: int | None = None


def node_of(
    kernel: str,
    spec: KernelSpec,
    operands: tuple[Value | Number, ...],
    types: tuple[ArrayType | ScalarType, ...],
    options: Mapping[str, Any],
    line: str,
    own: bool,
) -> Node:
    """A node with its plan.

    Raises:
        ArgumentError: the kernel does not take this.
    """
    call = Call(spec.name, types, {**spec.options, **options}, None, "cpu", 1, _RULES)
    return Node(kernel, spec, operands, types, dict(options), spec.plan(call), line, own)
