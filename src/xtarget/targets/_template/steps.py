"""What an elementwise kernel does for one element, as steps that templates have an instruction for.

The device function has to be one expression of operators, comparisons, numbers and `tl.where`. What
is not known here is refused, never guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .._c.text import Function, Library
from .._c.values import BOOL, DType, RefusedError, fits

__all__ = ["Operand", "Step", "Steps"]

#: The names that instructions have in the tables of each language.
_BINARY: Final[Mapping[type[ast.AST], str]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
_COMPARISONS: Final[Mapping[type[ast.AST], str]] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
_BITS: Final = ("and", "or", "xor")


@dataclass(frozen=True, slots=True)
class Operand:
    """A value by its number, or a number that is known."""

    dtype: DType
    number: int = -1
    constant: bool | int | float = 0


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction: `add`, `lt`, `select`, `cast`.

    Attributes:
        dtype: of the operands; of a cast, what it is from.
    """

    name: str
    dtype: DType
    operands: tuple[Operand, ...]
    result: Operand


@dataclass(slots=True)
class Steps:
    """The steps of one element, in their order. The first values are the kernel's inputs."""

    found: list[Step] = field(default_factory=list)
    count: int = 0

    def value(self, dtype: DType) -> Operand:
        self.count += 1
        return Operand(dtype, self.count - 1)

    def _add(self, name: str, dtype: DType, result: DType, *operands: Operand) -> Operand:
        made = self.value(result)
        self.found.append(Step(name, dtype, operands, made))
        return made

    def cast(self, value: Operand, dtype: DType) -> Operand:
        """The value as another type, by Triton's rules.

        Raises:
            RefusedError: templates have no such conversion.
        """
        have = value.dtype
        if have == dtype:
            return value
        if value.number < 0:
            return self.constant(value.constant, dtype)
        if dtype.is_bool():
            return self._add("ne", have, BOOL, value, self.constant(0, have))
        if have.is_floating() and dtype.is_int():
            raise RefusedError(f"the conversion of {have.name} to {dtype.name}")
        return self._add("cast", have, dtype, value)

    @staticmethod
    def constant(number: bool | int | float, dtype: DType) -> Operand:
        if dtype.is_int() and (isinstance(number, float) or not fits(int(number), dtype)):
            raise RefusedError(f"the number {number} as {dtype.name}")
        return Operand(dtype, constant=float(number) if dtype.is_floating() else number)

    def call(self, function: Function, arguments: list[Operand]) -> Operand:
        """What a device function gives.

        Raises:
            RefusedError: it is more than one expression, or has something that templates lack.
        """
        node = function.node
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        names = [arg.arg for arg in node.args.args]
        if len(body) != 1 or not isinstance(body[0], ast.Return) or len(names) != len(arguments):
            raise RefusedError(f"{node.name}, which is more than one expression")
        given = dict(zip(names, arguments, strict=True))
        if body[0].value is None:
            raise RefusedError(f"{node.name}, which returns nothing")
        return self._expression(body[0].value, given, function)

    def _expression(self, node: ast.expr, given: Mapping[str, Operand], at: Function) -> Operand:
        match node:
            case ast.Name() if node.id in given:
                return given[node.id]
            case ast.Constant(value=bool() | int() | float() as number):
                return Operand(_ANY, constant=number)
            case ast.BinOp() if type(node.op) in _BINARY:
                sides = [self._expression(n, given, at) for n in (node.left, node.right)]
                return self._binary(_BINARY[type(node.op)], *self._alike(*sides))
            case ast.Compare() if len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
                sides = [self._expression(n, given, at) for n in (node.left, node.comparators[0])]
                return self._compared(_COMPARISONS[type(node.ops[0])], *self._alike(*sides))
            case ast.UnaryOp(op=ast.USub()):
                return self._negative(self._expression(node.operand, given, at))
            case ast.UnaryOp(op=ast.Invert()):
                value = self._expression(node.operand, given, at)
                if not value.dtype.is_int():
                    raise RefusedError(f"~ of {value.dtype.name}")
                return self._add("not", value.dtype, value.dtype, value)
            case ast.Call():
                return self._called(node, given, at)
        raise RefusedError(f"the expression {ast.unparse(node)!r}")

    def _called(self, node: ast.Call, given: Mapping[str, Operand], at: Function) -> Operand:
        if node.keywords:
            raise RefusedError(f"the expression {ast.unparse(node)!r}")
        if isinstance(node.func, ast.Name):
            meaning = at.scope.lookup(node.func.id)
            if isinstance(meaning, Function):
                return self.call(meaning, [self._expression(n, given, at) for n in node.args])
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            owner = at.scope.lookup(node.func.value.id)
            if owner == Library("tl"):
                parts = [self._expression(n, given, at) for n in node.args]
                if node.func.attr == "where" and len(parts) == 3:
                    return self._where(*parts)
                if node.func.attr == "zeros_like" and len(parts) == 1:
                    return self.constant(0, parts[0].dtype)
        raise RefusedError(f"the function {ast.unparse(node.func)}")

    @staticmethod
    def _alike(first: Operand, second: Operand) -> tuple[Operand, Operand]:
        """Two operands of one type; a number takes the other one's."""
        if first.dtype is _ANY and second.dtype is _ANY:
            raise RefusedError("an operation of two numbers")
        if first.dtype is _ANY:
            return Steps.constant(first.constant, second.dtype), second
        if second.dtype is _ANY:
            return first, Steps.constant(second.constant, first.dtype)
        if first.dtype != second.dtype:
            raise RefusedError(f"an operation of {first.dtype.name} and {second.dtype.name}")
        return first, second

    def _binary(self, name: str, first: Operand, second: Operand) -> Operand:
        dtype = first.dtype
        if name in _BITS and not dtype.is_int():
            raise RefusedError(f"{name} of {dtype.name}")
        if name not in _BITS and dtype.is_bool():
            raise RefusedError(f"{name} of bool")
        return self._add(name, dtype, dtype, first, second)

    def _compared(self, name: str, first: Operand, second: Operand) -> Operand:
        if first.dtype.is_bool():
            if name not in ("eq", "ne"):
                raise RefusedError(f"{name} of bool")
            apart = self._add("xor", BOOL, BOOL, first, second)
            return self._add("not", BOOL, BOOL, apart) if name == "eq" else apart
        return self._add(name, first.dtype, BOOL, first, second)

    def _negative(self, value: Operand) -> Operand:
        if value.number < 0:
            return Operand(value.dtype, constant=-value.constant)
        if value.dtype.is_bool():
            raise RefusedError("- of bool")
        return self._add("neg", value.dtype, value.dtype, value)

    def _where(self, condition: Operand, first: Operand, second: Operand) -> Operand:
        first, second = self._alike(first, second)
        chosen = self.cast(condition, BOOL)
        if first.dtype.is_bool():
            a = self._add("and", BOOL, BOOL, chosen, first)
            apart = self._add("not", BOOL, BOOL, chosen)
            b = self._add("and", BOOL, BOOL, apart, second)
            return self._add("or", BOOL, BOOL, a, b)
        return self._add("select", first.dtype, first.dtype, chosen, first, second)


#: Of a number that has no type yet.
_ANY: Final = DType("", 0, "a number")
