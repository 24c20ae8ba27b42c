"""The statements and expressions of a Triton function: what is known at compile time is computed,
of the rest `Operations` make C, or steps. What is not known here is refused, never guessed.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from .folding import FOLDED, SIGNS
from .language import Builtin, Member, member, named
from .operations import Operations
from .text import Function, Library, Scope
from .values import DType, RefusedError, Value

__all__ = ["Evaluator", "Names", "arguments_of"]

_DEEPEST = 60
#: Iterations of a loop that is written out.
_LONGEST = 4096
Names = dict[str, Any]


class _Returned(Exception):
    """The way out of a function's body."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Evaluator(ABC):
    """Goes through a function's body.

    Attributes:
        emit: what is made of it.
        at: file and line of the statement that is looked at.
        outer: a loop of the kernel whose turns are apart from each other, if it is known.
    """

    emit: Operations

    def __init__(self) -> None:
        self.outer: ast.For | None = None
        self.at = ""
        self._depth = 0

    # -------------------------------------------------------------------------------- functions

    def call(self, function: Function, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """A device function, in the place where it is called."""
        wanted = arguments_of(function.node)
        names = {arg.arg: value for arg, value in zip(wanted, args, strict=False)}
        spec = function.node.args
        if len(args) > len(wanted) or spec.vararg or spec.kwarg:
            raise RefusedError(f"{function.node.name} with these arguments")
        names |= keywords
        defaults = dict(
            zip(
                [a.arg for a in wanted][len(wanted) - len(spec.defaults) :],
                spec.defaults,
                strict=True,
            )
        )
        for arg in wanted:
            if arg.arg not in names:
                names[arg.arg] = self.value(defaults[arg.arg], {}, function.scope)
        return self.run(function, names)

    def run(self, function: Function, names: Names) -> Any:
        """A function with values for all of its parameters; what it returns."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RefusedError("functions that call each other without an end")
        place = self.at
        try:
            self._body(function.node.body, names, function.scope)
        except _Returned as done:
            self.at = place
            return done.value
        finally:
            self._depth -= 1
        self.at = place
        return None

    def _body(self, body: Sequence[ast.stmt], names: Names, scope: Scope) -> None:
        for node in body:
            self.at = f"{scope.path}:{node.lineno}"
            self._statement(node, names, scope)

    def _statement(self, node: ast.stmt, names: Names, scope: Scope) -> None:
        match node:
            case ast.Return():
                raise _Returned(
                    None if node.value is None else self.value(node.value, names, scope)
                )
            case ast.Assign():
                value = self.value(node.value, names, scope)
                for target in node.targets:
                    self._assign(target, value, names)
            case ast.AnnAssign() if node.value is not None:
                self._assign(node.target, self.value(node.value, names, scope), names)
            case ast.AugAssign() if isinstance(node.target, ast.Name):
                before = self.value(node.target, names, scope)
                after = self.value(node.value, names, scope)
                names[node.target.id] = self._operation(SIGNS[type(node.op)], before, after)
            case ast.If():
                condition = self.value(node.test, names, scope)
                if isinstance(condition, Value):
                    raise RefusedError("an if of what is known at run time")
                self._body(node.body if condition else node.orelse, names, scope)
            case ast.For() if isinstance(node.target, ast.Name) and not node.orelse:
                self._loop(node, node.target.id, names, scope)
            case ast.While() if not node.orelse:
                self._while(node, names, scope)
            case ast.Expr():
                if not isinstance(node.value, ast.Constant):
                    self.value(node.value, names, scope)
            case ast.Pass():
                pass
            case _:
                raise RefusedError(f"the statement {ast.unparse(node).splitlines()[0]!r}")

    def _assign(self, target: ast.expr, value: Any, names: Names) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, tuple):
            for one, part in zip(target.elts, value, strict=True):
                self._assign(one, part, names)
        else:
            raise RefusedError(f"the assignment to {ast.unparse(target)}")

    # ------------------------------------------------------------------------------------ loops

    def _loop(self, node: ast.For, name: str, names: Names, scope: Scope) -> None:
        made = node.iter
        if not isinstance(made, ast.Call) or made.keywords:
            raise RefusedError("a loop over this")
        what = self.value(made.func, names, scope)
        limits = [self.value(arg, names, scope) for arg in made.args]
        if what == Builtin("static_range"):
            if node is self.outer:
                self.outer = None  # it is written out
            numbers = range(*limits)
            if len(numbers) > _LONGEST:
                raise RefusedError(f"a static range of {len(numbers)}")
            for number in numbers:
                names[name] = number
                self._body(node.body, names, scope)
            return
        if what != Builtin("range"):
            raise RefusedError("a loop over this")
        if any(isinstance(limit, Value) and limit.block for limit in limits):
            raise RefusedError("a loop whose length differs between lanes")
        self._runtime_loop(node, name, limits, names, scope)

    # ------------------------------------------------------------------------------ expressions

    def value(self, node: ast.expr, names: Names, scope: Scope) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self._named(node.id, names, scope)
            case ast.Tuple() | ast.List():
                return self._elements(node.elts, names, scope)
            case ast.Attribute():
                owner = self.value(node.value, names, scope)
                if isinstance(owner, Library):
                    return named(owner.name, node.attr)
                return member(owner, node.attr)
            case ast.Subscript():
                owner = self.value(node.value, names, scope)
                if isinstance(owner, Value):
                    return self.view(owner, self._axes(node.slice))
                index = self.value(node.slice, names, scope)
                if not isinstance(owner, tuple) or not isinstance(index, int):
                    raise RefusedError(f"{ast.unparse(node)}")
                return owner[index]
            case ast.BinOp():
                left, right = (self.value(n, names, scope) for n in (node.left, node.right))
                return self._operation(SIGNS[type(node.op)], left, right)
            case ast.Compare() if len(node.ops) == 1:
                left, right = (
                    self.value(n, names, scope) for n in (node.left, node.comparators[0])
                )
                return self._operation(SIGNS[type(node.ops[0])], left, right)
            case ast.UnaryOp():
                return self._unary(node.op, self.value(node.operand, names, scope))
            case ast.BoolOp():
                return self._logical(node, names, scope)
            case ast.IfExp():
                condition = self.value(node.test, names, scope)
                if isinstance(condition, Value):
                    raise RefusedError("an if of what is known at run time")
                return self.value(node.body if condition else node.orelse, names, scope)
            case ast.Call():
                return self._called(node, names, scope)
        raise RefusedError(f"the expression {ast.unparse(node)!r}")

    def _elements(self, nodes: Sequence[ast.expr], names: Names, scope: Scope) -> tuple[Any, ...]:
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found.extend(self.value(node.value, names, scope))
            else:
                found.append(self.value(node, names, scope))
        return tuple(found)

    def _named(self, name: str, names: Names, scope: Scope) -> Any:
        if name in names:
            return names[name]
        try:
            found = scope.lookup(name)
        except KeyError:
            return named("python", name)
        return self.value(found, {}, scope) if isinstance(found, ast.expr) else found

    def _logical(self, node: ast.BoolOp, names: Names, scope: Scope) -> Any:
        found: Any = None
        for operand in node.values:
            found = self.value(operand, names, scope)
            if isinstance(found, Value):
                raise RefusedError("and, or of what is known at run time")
            if bool(found) != isinstance(node.op, ast.And):
                break
        return found

    def _operation(self, sign: str, left: Any, right: Any) -> Any:
        if isinstance(left, Value) or isinstance(right, Value):
            if sign in ("is", "is not"):
                return (left is right) == (sign == "is")
            if sign in ("**", "in", "not in"):
                raise RefusedError(f"{sign} of what is known at run time")
            return self.emit.binary(sign, left, right)
        return FOLDED[sign](left, right)

    def _unary(self, sign: ast.unaryop, operand: Any) -> Any:
        if isinstance(operand, Value):
            match sign:
                case ast.USub():
                    return self.emit.negative(operand)
                case ast.Invert():
                    return self.emit.inverted(operand)
                case ast.UAdd():
                    return operand
            raise RefusedError("not of what is known at run time")
        match sign:
            case ast.USub():
                return -operand
            case ast.Invert():
                return ~operand
            case ast.UAdd():
                return +operand
        return not operand

    def _called(self, node: ast.Call, names: Names, scope: Scope) -> Any:
        what = self.value(node.func, names, scope)
        args = self._elements(node.args, names, scope)
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise RefusedError("** in a call")
            keywords[keyword.arg] = self.value(keyword.value, names, scope)
        if isinstance(what, Function):
            return self.call(what, args, keywords)
        if isinstance(what, Builtin | Member):
            return what.call(self, args, keywords)
        if callable(what):  # a method of a type
            return what(*args, **keywords)
        raise RefusedError(f"the call of {ast.unparse(node.func)}")

    # --------------------------------------------------------------------------------- the block

    def _axes(self, node: ast.expr) -> list[int | None]:
        """The axes of `x[:, None]`: numbers of those of `x`, None for a new one.

        Raises:
            RefusedError: it takes elements.
        """
        found: list[int | None] = []
        for part in node.elts if isinstance(node, ast.Tuple) else [node]:
            if isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step):
                found.append(sum(axis is not None for axis in found))
            elif isinstance(part, ast.Constant) and part.value is None:
                found.append(None)
            else:
                raise RefusedError(f"[{ast.unparse(node)}]")
        return found

    def view(self, value: Value, axes: Sequence[int | None]) -> Value:
        raise RefusedError("a block of several axes")

    def full(self, shape: Any, value: Any, dtype: DType) -> Value:
        """A block of one value."""
        if tuple(shape) not in ((), ("block",)):
            raise RefusedError("a block of a shape of its own")
        return self.emit.as_type(value, dtype)

    def reduce(self, values: Sequence[Any], axis: Any, combine: Any) -> tuple[Value, ...]:
        """Combine the elements along an axis by a function."""
        raise RefusedError("a reduction")

    @abstractmethod
    def lanes(self, start: int, end: int) -> Value:
        """`tl.arange`."""

    @abstractmethod
    def _runtime_loop(
        self, node: ast.For, name: str, limits: Sequence[Any], names: Names, scope: Scope
    ) -> None:
        """A loop over a `range`."""

    def _while(self, node: ast.While, names: Names, scope: Scope) -> None:
        raise RefusedError(f"the statement {ast.unparse(node).splitlines()[0]!r}")

    def scan(
        self, values: Sequence[Any], axis: Any, combine: Any, *, reverse: bool
    ) -> tuple[Value, ...]:
        """Combine each element along an axis with all before it."""
        raise RefusedError("a scan")

    @property
    def place(self) -> str:
        path, _, line = self.at.rpartition(":")
        return f"{path.rpartition('/')[2]}:{line}"


def arguments_of(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
