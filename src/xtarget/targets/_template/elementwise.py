"""Requests of kernels that do one thing for each element, and what that thing is."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from ..._values.errors import CompileError
from ..._values.types import CompileRequest, KernelSource, Parameter
from ..._values.value_classes import value_class
from .._c.given import described, given
from .._c.text import Function, Scope
from .._c.translate import only_loop
from .._c.values import DType, RefusedError, dtype_of
from .elements import ElementEvaluator
from .steps import Step

__all__ = ["Elementwise", "Native", "made", "of", "served"]

#: Whether a language has a mathematical function, by name and type.
Native: TypeAlias = Callable[[str, DType], bool]


@value_class(frozen=True, slots=True)
class Elementwise:
    """A kernel.

    Attributes:
        count: the parameter that has the number of elements.
        each: elements of a block of the grid.
        wide: `count` has 64 bits.
    """

    parameters: tuple[Parameter, ...]
    steps: tuple[Step, ...]
    count: str
    each: int
    wide: bool


def of(request: CompileRequest, native: Native) -> Elementwise:
    """The kernel of a request.

    Raises:
        RefusedError: templates do not stand for it.
    """
    function, body = _function(request.source), ElementEvaluator(native)
    names, parameters = given(function, request, body.emit)
    body.outer = only_loop(function.node)
    try:
        body.run(function, names)
    except RefusedError as why:
        raise RefusedError(f"{why} ({body.place})") from why
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as why:
        raise RefusedError(f"{type(why).__name__}: {why} ({body.place})") from why
    emit = body.emit
    if not body.each or not emit.writes:
        raise RefusedError("a kernel that does not divide its elements by part or positions")
    both = set(emit.reads) & set(emit.writes)
    if both:
        raise RefusedError(f"{', '.join(sorted(both))}, which is read and written")
    types = {p.name: p.type for p in parameters}
    return Elementwise(
        tuple(described(p, emit) for p in parameters),
        _needed(emit.found),
        body.count,
        body.each,
        dtype_of(types[body.count]).bits == 64,
    )


@lru_cache(maxsize=64)
def _function(source: KernelSource) -> Function:
    """The kernel's function; what its names mean is found once for all requests."""
    if source.text is None:
        raise RefusedError("a function of a program, whose text does not say all")
    return Scope.of(source.text)


def _needed(steps: list[Step]) -> tuple[Step, ...]:
    """The steps that a store needs."""
    needed: set[int] = set()
    found = []
    for step in reversed(steps):
        if step.name == "store" or step.result.number in needed:
            needed |= {one.number for one in step.operands}
            found.append(step)
    return tuple(reversed(found))


def served(request: CompileRequest, native: Native) -> Elementwise:
    """`of`.

    Raises:
        CompileError: templates do not stand for it.
    """
    found = made(request, native)
    if isinstance(found, str):
        raise CompileError(f"kernel {request.source.name} ({request.source.path}): {found}")
    return found


def made(request: CompileRequest, native: Native) -> Elementwise | str:
    """`of`, or why there is none, as a sentence."""
    try:
        return of(request, native)
    except RefusedError as why:
        return f"there is no template for {why}."
