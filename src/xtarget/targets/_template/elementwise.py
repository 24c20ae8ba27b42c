"""Which requests are elementwise kernels of the library, and what they do for each element."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ..._values.errors import CompileError
from ..._values.types import CompileRequest, DtypeConstant, Parameter, SourceText
from .._c.text import Function, Scope
from .._c.values import DType, RefusedError, dtype_of
from .steps import Operand, Steps

__all__ = ["KERNELS", "Elementwise", "Input", "meaning", "of", "refusal", "served"]

#: Digests of the kernels that the templates stand for, with all functions that they call: `part`,
#: `load`, `store`. Another kernel of that name, also an edited one, is none of them.
KERNELS: Final[Mapping[str, str]] = {
    "unary": "fb861d538af117295d4183e31a32a2a6",
    "binary": "563b8169d97c38ec21f3fdc3dbbfc4d3",
    "ternary": "632b83e1a28ba0a54f8837fb49aa0c32",
    "quaternary": "03b449e46cdd804e536ede0f065ed564",
}
_INPUTS: Final = ("a", "b", "c", "d")


@dataclass(frozen=True, slots=True)
class Input:
    """An array to load from, or a number, with its value's number among the steps."""

    name: str
    dtype: DType
    pointer: bool
    value: Operand


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A kernel.

    Attributes:
        each: elements of a block of the grid.
        wide: `n` has 64 bits.
        result: what is stored; of the array's own type.
    """

    name: str
    parameters: tuple[Parameter, ...]
    inputs: tuple[Input, ...]
    steps: Steps
    result: Operand
    each: int
    wide: bool


def meaning(function: Function) -> str:
    """Digest of a kernel and of the functions that it calls, but for `operator`."""
    seen: dict[str, str] = {}
    _collect(function, seen)
    text = "\n".join(seen[name] for name in sorted(seen))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _collect(function: Function, seen: dict[str, str]) -> None:
    node = function.node
    name = f"{function.scope.module}:{node.name}"
    if name in seen or node.name == "operator":
        return
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    seen[name] = "\n".join([name, ast.unparse(node.args), *map(ast.unparse, body)])
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id != "operator":
            try:
                found = function.scope.lookup(inner.id)
            except KeyError:
                continue
            if isinstance(found, Function):
                _collect(found, seen)


@lru_cache(maxsize=256)
def _functions(digest: str, source: _Text) -> tuple[str, Function]:
    """The kernel's name if it is one of `KERNELS`, and its device function.

    Raises:
        RefusedError: it is not.
    """
    name = source.text.function.partition(":")[2]
    if name not in KERNELS:
        raise RefusedError("a kernel of this kind")
    function = Scope.of(source.text)
    if KERNELS[name] != meaning(function):
        raise RefusedError("this kernel, which is not the library's own")
    operator = function.scope.lookup("operator")
    assert isinstance(operator, Function)
    return name, operator


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    """A source text that does not count in a key: the digest beside it does."""

    text: SourceText

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Text)

    def __hash__(self) -> int:
        return 0


def of(request: CompileRequest) -> Elementwise:
    """The kernel of a request.

    Raises:
        RefusedError: templates do not stand for it.
    """
    source = request.source
    if source.text is None:
        raise RefusedError("a function of a program, whose text does not say all")
    name, operator = _functions(source.digest, _Text(source.text))
    constants: dict[str, Any] = dict(request.constants)
    types: dict[str, Any] = dict(request.signature)
    if constants["ROWS"] or types["shape"] != ():
        raise RefusedError("arrays that are not contiguous")
    if "out2" in types:
        raise RefusedError("a kernel of two results")
    steps, inputs = Steps(), []
    parameters = tuple(
        Parameter(label, type_, access=_access(label) if type_.startswith("*") else None)
        for label, type_ in types.items()
        if isinstance(type_, str) and type_ != "constexpr"
    )
    for label in _INPUTS[: sum(label in types for label in _INPUTS)]:
        inputs.append(_input(label, types[label], constants, steps))
    values = [
        steps.cast(_of_its_own(one, constants, steps), _dtype(constants[f"T{one.name.upper()}"]))
        for one in inputs
    ]
    element = dtype_of(types["out"]).element_ty
    assert element is not None
    result = steps.cast(steps.call(operator, values), element)
    for used in (*(one.dtype for one in inputs), *(step.result.dtype for step in steps.found)):
        if used.narrow:
            raise RefusedError(f"the type {used.name}")
    each = constants["BLOCK"] * constants["STEPS"]
    return Elementwise(name, parameters, tuple(inputs), steps, result, each, types["n"] == "i64")


def _access(label: str) -> str:
    return "w" if label == "out" else "r"


def _dtype(constant: Any) -> DType:
    assert isinstance(constant, DtypeConstant)
    return dtype_of(constant.name)


def _input(label: str, type_: str, constants: Mapping[str, Any], steps: Steps) -> Input:
    dtype = dtype_of(type_)
    if dtype.element_ty is not None:
        return Input(label, dtype.element_ty, True, steps.value(dtype.element_ty))
    return Input(label, dtype, False, steps.value(dtype))


def _of_its_own(one: Input, constants: Mapping[str, Any], steps: Steps) -> Operand:
    """A number is rounded to its own type first."""
    return one.value if one.pointer else steps.cast(one.value, _dtype(constants[f"s{one.name}"]))


def refusal(request: CompileRequest) -> str:
    """Why templates do not serve a request, as a sentence; empty if they do."""
    try:
        of(request)
    except RefusedError as why:
        return f"there is no template for {why}."
    return ""


def served(request: CompileRequest) -> Elementwise:
    """`of`.

    Raises:
        CompileError: templates do not stand for it.
    """
    try:
        return of(request)
    except RefusedError as why:
        raise CompileError(
            f"kernel {request.source.name} ({request.source.path}): there is no template for {why}."
        ) from why
