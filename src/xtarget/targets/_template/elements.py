"""A Triton kernel as the steps of one element, from its text."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final

from ..._system.package import FOLDER
from ..._values.types import SourceText
from .._c.evaluate import Evaluator, Names
from .._c.text import Function, Scope
from .._c.values import DType, RefusedError, Value, dtype_of
from .meaning import meaning
from .steps import Operand, Recorded, Steps

__all__ = ["PARTS", "ElementEvaluator", "digest"]

#: Digests of the functions that give a block its elements, with all that they call. The skeletons
#: count elements as they do. Another function of that name, also an edited one, is none of them.
PARTS: Final[Mapping[str, str]] = {
    "part": "beec3495764078a42b62b8bd8a4362fa",
    "positions": "7dfc6b1498f7c591f0a2cc9da1713002",
    "steps_of": "fe825fcaddae44dbc9e27718f5fa426e",
}
_COMPOSED: Final = os.path.join(FOLDER, "targets", "_template", "composed.tl")
_FLOAT, _DOUBLE = dtype_of("float32"), dtype_of("float64")
#: Turns of a loop that is written out.
_LONGEST: Final = 64


class _Turn:
    """The turn of the kernel's loop over its parts, in which a skeleton has no number."""


class ElementEvaluator(Evaluator):
    """Finds a kernel's steps.

    Args:
        native: the mathematical functions that the language has, by name and type.

    Attributes:
        each: elements of a block of the grid; 0 until they are known.
        count: the parameter that has the number of elements.
    """

    emit: Steps

    def __init__(self, native: Callable[[str, DType], bool]) -> None:
        super().__init__()
        self.emit = Steps(native, self._composed)
        self.each = 0
        self.count = ""

    def call(self, function: Function, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        name = function.node.name
        if name not in PARTS or meaning(function) != PARTS[name]:
            return super().call(function, args, keywords)
        if name == "steps_of":  # no more than there are elements for, as in the skeletons
            return args[3]
        if self.each:
            raise RefusedError("a kernel that divides its elements twice")
        if name == "positions":
            return self._elements_of(args[0], args[1]), True
        n, shape, turn, block, turns, rows = args
        if not isinstance(turn, _Turn) and turns != 1:
            raise RefusedError("a kernel whose parts are no loop")
        i = self._elements_of(n, block * turns)
        if not rows:
            return i, True
        length = self.emit.cast(shape[len(shape) - 1], i.dtype)
        row = self.emit.binary("//", i, length)
        return (row, self.emit.binary("-", i, self.emit.binary("*", row, length))), True

    def _elements_of(self, n: Any, each: int) -> Value:
        found = next((s for s in self.emit.found if s.result is n), None)
        if found is None or found.name != "parameter":
            raise RefusedError("a kernel whose number of elements is computed")
        self.each, self.count = each, found.parameter
        return self.emit.cast(self.emit.index(), n.dtype)

    def _runtime_loop(
        self, node: ast.For, name: str, limits: Sequence[Any], names: Names, scope: Scope
    ) -> None:
        if node is self.outer:
            names[name] = _Turn()
            self._body(node.body, names, scope)
            return
        if any(isinstance(limit, Value) for limit in limits):
            raise RefusedError("a loop whose length is known at run time")
        self._written_out(node, name, range(*limits), _LONGEST, names, scope)

    def lanes(self, start: int, end: int) -> Value:
        raise RefusedError("the numbers of a block's lanes")

    # --------------------------------------------------------------------------------- functions

    def _composed(self, name: str, values: Sequence[Value]) -> Value:
        """A function that is made of steps."""
        known = _functions()
        if name not in known and name.endswith("_float32"):
            name = f"{name.removesuffix('_float32')}_float64"
        if name not in known:
            word, _, type_ = name.rpartition("_")
            raise RefusedError(f"the function {word} of {type_}")
        if name.endswith(("_float32", "_float64")):
            values = [self.emit.cast(v, _DOUBLE) if v.dtype == _FLOAT else v for v in values]
        dtypes = tuple(value.dtype for value in values)
        done = _recorded(name, dtypes, self.emit.native)
        return self.emit.repeat((name, *dtypes), done, values)


@lru_cache(maxsize=512)
def _recorded(
    name: str, dtypes: tuple[DType, ...], native: Callable[[str, DType], bool]
) -> Recorded:
    """Return what a function of `composed.tl` does, which is found once for all kernels."""
    evaluator = ElementEvaluator(native)
    emit = evaluator.emit
    values = [emit.add("input", t, t, parameter=str(n)) for n, t in enumerate(dtypes)]
    result = Evaluator.call(evaluator, _functions()[name], values, {})
    assert isinstance(result, Operand)
    return Recorded(len(values), tuple(emit.found[len(values) :]), result)


def digest() -> str:
    """Of the functions of `composed.tl`."""
    return hashlib.sha256(_text()).hexdigest()[:32]


@cache
def _text() -> bytes:
    with open(_COMPOSED, "rb") as file:
        return file.read()


@cache
def _functions() -> Mapping[str, Function]:
    """The functions of `composed.tl`."""
    text = _text()
    modules = {"composed": (_COMPOSED, text)}
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {name: Scope.of(SourceText(modules, f"composed:{name}")) for name in names}
