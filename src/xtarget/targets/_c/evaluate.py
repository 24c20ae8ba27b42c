"""The statements and expressions of a Triton function: what is known at compile time is computed,
of the rest `Operations` make C, or steps. What is not known here is refused, never guessed.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

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
        wanted, defaults, takes_more = _parameters(function.node)
        if len(args) > len(wanted) or takes_more:
            raise RefusedError(f"{function.node.name} with these arguments")
        names = dict(zip(wanted, args, strict=False))
        names.update(keywords)
        if len(names) < len(wanted):
            for name in wanted:
                if name not in names:
                    names[name] = self.value(defaults[name], {}, function.scope)
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
        found = _STATEMENTS.get(type(node))
        if found is None or not found(self, node, names, scope):
            raise RefusedError(f"the statement {ast.unparse(node).splitlines()[0]!r}")

    # each says whether it knows the statement

    def _return(self, node: ast.Return, names: Names, scope: Scope) -> bool:
        raise _Returned(None if node.value is None else self.value(node.value, names, scope))

    def _assigned(self, node: ast.Assign, names: Names, scope: Scope) -> bool:
        value = self.value(node.value, names, scope)
        for target in node.targets:
            self._assign(target, value, names)
        return True

    def _annotated(self, node: ast.AnnAssign, names: Names, scope: Scope) -> bool:
        if node.value is not None:
            self._assign(node.target, self.value(node.value, names, scope), names)
        return node.value is not None

    def _augmented(self, node: ast.AugAssign, names: Names, scope: Scope) -> bool:
        if not isinstance(node.target, ast.Name):
            return False
        before = self.value(node.target, names, scope)
        after = self.value(node.value, names, scope)
        names[node.target.id] = self._operation(SIGNS[type(node.op)], before, after)
        return True

    def _if(self, node: ast.If, names: Names, scope: Scope) -> bool:
        condition = self.value(node.test, names, scope)
        if isinstance(condition, Value):
            raise RefusedError("an if of what is known at run time")
        self._body(node.body if condition else node.orelse, names, scope)
        return True

    def _for(self, node: ast.For, names: Names, scope: Scope) -> bool:
        if not isinstance(node.target, ast.Name) or node.orelse:
            return False
        self._loop(node, node.target.id, names, scope)
        return True

    def _repeated(self, node: ast.While, names: Names, scope: Scope) -> bool:
        if not node.orelse:
            self._while(node, names, scope)
        return not node.orelse

    def _expression(self, node: ast.Expr, names: Names, scope: Scope) -> bool:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value, names, scope)
        return True

    def _pass(self, node: ast.Pass, names: Names, scope: Scope) -> bool:
        return True

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
            self._written_out(node, name, range(*limits), _LONGEST, names, scope)
            return
        if what != Builtin("range"):
            raise RefusedError("a loop over this")
        if any(isinstance(limit, Value) and limit.block for limit in limits):
            raise RefusedError("a loop whose length differs between lanes")
        self._runtime_loop(node, name, limits, names, scope)

    def _written_out(
        self, node: ast.For, name: str, numbers: range, most: int, names: Names, scope: Scope
    ) -> None:
        """The body of a loop once for each number, of which there may be so many."""
        if len(numbers) > most:
            raise RefusedError(f"a loop of {len(numbers)} turns")
        for number in numbers:
            names[name] = number
            self._body(node.body, names, scope)

    # ------------------------------------------------------------------------------ expressions

    def value(self, node: ast.expr, names: Names, scope: Scope) -> Any:
        if isinstance(node, ast.Name):  # most are these two
            return names[node.id] if node.id in names else self._global(node.id, scope)
        if isinstance(node, ast.Constant):
            return node.value
        found = _EXPRESSIONS.get(type(node))
        if found is None:
            raise _unknown(node)
        return found(self, node, names, scope)

    def _global(self, name: str, scope: Scope) -> Any:
        try:
            found = scope.lookup(name)
        except KeyError:
            return named("python", name)
        return self.value(found, {}, scope) if isinstance(found, ast.expr) else found

    def _tuple(self, node: ast.Tuple | ast.List, names: Names, scope: Scope) -> tuple[Any, ...]:
        return self._elements(node.elts, names, scope)

    def _attribute(self, node: ast.Attribute, names: Names, scope: Scope) -> Any:
        owner = self.value(node.value, names, scope)
        if isinstance(owner, Library):
            return named(owner.name, node.attr)
        return member(owner, node.attr)

    def _subscript(self, node: ast.Subscript, names: Names, scope: Scope) -> Any:
        owner = self.value(node.value, names, scope)
        if isinstance(owner, Value):
            return self.view(owner, self._axes(node.slice))
        index = self.value(node.slice, names, scope)
        if not isinstance(owner, tuple) or not isinstance(index, int):
            raise RefusedError(f"{ast.unparse(node)}")
        return owner[index]

    def _binary(self, node: ast.BinOp, names: Names, scope: Scope) -> Any:
        left, right = self.value(node.left, names, scope), self.value(node.right, names, scope)
        return self._operation(SIGNS[type(node.op)], left, right)

    def _compared(self, node: ast.Compare, names: Names, scope: Scope) -> Any:
        if len(node.ops) != 1:
            raise _unknown(node)
        left = self.value(node.left, names, scope)
        right = self.value(node.comparators[0], names, scope)
        return self._operation(SIGNS[type(node.ops[0])], left, right)

    def _of_one(self, node: ast.UnaryOp, names: Names, scope: Scope) -> Any:
        return self._unary(node.op, self.value(node.operand, names, scope))

    def _either(self, node: ast.IfExp, names: Names, scope: Scope) -> Any:
        condition = self.value(node.test, names, scope)
        if isinstance(condition, Value):
            raise RefusedError("an if of what is known at run time")
        return self.value(node.body if condition else node.orelse, names, scope)

    def _elements(self, nodes: Sequence[ast.expr], names: Names, scope: Scope) -> tuple[Any, ...]:
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found.extend(self.value(node.value, names, scope))
            else:
                found.append(self.value(node, names, scope))
        return tuple(found)

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


@lru_cache(maxsize=512)
def _parameters(node: ast.FunctionDef) -> tuple[list[str], dict[str, ast.expr], bool]:
    """A function's parameters, their defaults, and whether it takes more than these."""
    spec = node.args
    wanted = [arg.arg for arg in arguments_of(node)]
    defaults = zip(wanted[len(wanted) - len(spec.defaults) :], spec.defaults, strict=True)
    return wanted, dict(defaults), bool(spec.vararg or spec.kwarg)


def _unknown(node: ast.expr) -> RefusedError:
    return RefusedError(f"the expression {ast.unparse(node)!r}")


#: What is done with each kind of node: a look-up, as most of the time went into asking for kinds.
_EXPRESSIONS: Final[Mapping[type[ast.AST], Callable[[Evaluator, Any, Names, Scope], Any]]] = {
    ast.Tuple: Evaluator._tuple,
    ast.List: Evaluator._tuple,
    ast.Attribute: Evaluator._attribute,
    ast.Subscript: Evaluator._subscript,
    ast.BinOp: Evaluator._binary,
    ast.Compare: Evaluator._compared,
    ast.UnaryOp: Evaluator._of_one,
    ast.BoolOp: Evaluator._logical,
    ast.IfExp: Evaluator._either,
    ast.Call: Evaluator._called,
}
_STATEMENTS: Final[Mapping[type[ast.AST], Callable[[Evaluator, Any, Names, Scope], bool]]] = {
    ast.Return: Evaluator._return,
    ast.Assign: Evaluator._assigned,
    ast.AnnAssign: Evaluator._annotated,
    ast.AugAssign: Evaluator._augmented,
    ast.If: Evaluator._if,
    ast.For: Evaluator._for,
    ast.While: Evaluator._repeated,
    ast.Expr: Evaluator._expression,
    ast.Pass: Evaluator._pass,
}


def arguments_of(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
