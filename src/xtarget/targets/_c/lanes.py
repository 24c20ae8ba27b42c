"""A Triton function as C, of which each lane of a block takes the elements that are its own."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from .dialects import Dialect
from .emit import Emitter
from .evaluate import Evaluator, Names
from .text import Scope
from .values import BOOL, INT32, RefusedError, Value

__all__ = ["LANES", "LaneEvaluator"]

#: Stands for the loop over a block's lanes, until it is known how many there are.
LANES = "@lanes"


class LaneEvaluator(Evaluator):
    """Writes a function's body.

    Attributes:
        emit: the text.
        length: of the ranges that the kernel makes; None if it makes none.
        outer: a loop of the kernel within which each lane takes its elements, so that they are
            taken in the order in which they lie; None: each lane runs through the whole kernel.
    """

    emit: Emitter

    def __init__(self, dialect: Dialect, emit: Emitter | None = None) -> None:
        super().__init__()
        self.emit = emit or Emitter(dialect)
        self.dialect = dialect
        self.length: int | None = None

    def _runtime_loop(
        self, node: ast.For, name: str, limits: Sequence[Any], names: Names, scope: Scope
    ) -> None:
        emit = self.emit
        first, last, step = {1: (0, *limits, 1), 2: (*limits, 1), 3: tuple(limits)}[len(limits)]
        if isinstance(step, Value) or step <= 0:
            raise RefusedError("a loop with this step")
        dtype = next((x.dtype for x in (first, last) if isinstance(x, Value)), INT32)
        carried = self._carried(node, names)
        lanes = node is self.outer
        if lanes and carried:
            self.outer, lanes = None, False
        counter, type_ = emit.name("i"), self.dialect.type(dtype)
        low, high = emit.as_type(first, dtype).code, emit.as_type(last, dtype).code
        emit.open(f"for ({type_} {counter} = {low}; {counter} < {high}; {counter} += {step})")
        inner: Names = {**names, name: emit.value(counter, dtype)}
        if lanes:
            emit.open(LANES)
        inner |= {own: emit.current(variable) for own, variable in carried.items()}
        self._carry(node, carried, inner, scope)
        if lanes:
            emit.close()
        emit.close()
        names |= {own: emit.current(variable) for own, variable in carried.items()}

    def _while(self, node: ast.While, names: Names, scope: Scope) -> None:
        emit, carried = self.emit, self._carried(node, names)
        emit.open("for (;;)")
        inner = {**names, **{own: emit.current(variable) for own, variable in carried.items()}}
        going = self.value(node.test, inner, scope)
        if not isinstance(going, Value):
            raise RefusedError("a while of what is known at compile time")
        emit.leave_unless(emit.as_type(going, BOOL))
        self._carry(node, carried, inner, scope)
        emit.close()
        names |= {own: emit.current(variable) for own, variable in carried.items()}

    def _carry(
        self, node: ast.For | ast.While, carried: Mapping[str, Value], inner: Names, scope: Scope
    ) -> None:
        """The body of a loop, after which the variables have what it made of them."""
        self._body(node.body, inner, scope)
        pairs = []
        for own, variable in carried.items():
            after = self.emit.tensor(inner[own])
            if after.dtype != variable.dtype:
                raise RefusedError(f"{own}, which is of another type after the loop's body")
            if after.base != variable.base:
                raise RefusedError(f"{own}, which becomes another array's address in the loop")
            pairs.append((variable, after))
        self.emit.assign(pairs)

    def _carried(self, node: ast.For | ast.While, names: Names) -> dict[str, Value]:
        """C variables for the names that the loop's body binds and that were bound before."""
        bound = {
            inner.id
            for statement in node.body
            for inner in ast.walk(statement)
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
        }
        found = {}
        for own in sorted(bound & set(names)):
            found[own] = self.emit.variable(self.emit.tensor(names[own]))
        return found

    def lanes(self, start: int, end: int) -> Value:
        """`tl.arange`."""
        length = end - start
        if self.length not in (None, length):
            raise RefusedError("two ranges of different lengths")
        self.length = length
        return self.emit.value(f"lane + {start}", INT32, Value("", INT32, True))
