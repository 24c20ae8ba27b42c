"""Values of a request for the parameters and constants of a kernel that is translated."""

from __future__ import annotations

from typing import Any

from ..._values.types import CompileRequest, DtypeConstant, Parameter, TypeText
from .evaluate import arguments_of
from .operations import Operations
from .text import Function
from .values import RefusedError, dtype_of

__all__ = ["described", "given"]


def given(
    function: Function, request: CompileRequest, emit: Operations
) -> tuple[dict[str, Any], list[Parameter]]:
    """The values of a kernel's names, and its parameters when it is launched.

    Raises:
        RefusedError: the request is not one of this kernel, or C has no such parameter.
    """
    types, constants = dict(request.signature), dict(request.constants)
    wanted = [arg.arg for arg in arguments_of(function.node)]
    if set(wanted) != set(types):
        raise RefusedError("other parameters than its spec gives")
    found: list[Parameter] = []
    names: dict[str, Any] = {}
    for name in wanted:
        if types[name] == "constexpr":
            names[name] = _constant(constants[name])
        else:
            names[name] = _parameter(name, types[name], found, emit)
    return names, found


def _parameter(name: str, type_: TypeText, found: list[Parameter], emit: Operations) -> Any:
    if not isinstance(type_, str):
        return tuple(_parameter(f"{name}.{i}", inner, found, emit) for i, inner in enumerate(type_))
    dtype = dtype_of(type_)
    if dtype.narrow:
        raise RefusedError(f"the parameter {name} of type {type_}, passed by value")
    found.append(Parameter(name, type_))
    return emit.parameter(name, dtype)


def _constant(value: Any) -> Any:
    if isinstance(value, DtypeConstant):
        return dtype_of(value.name)
    return tuple(map(_constant, value)) if isinstance(value, tuple) else value


def described(parameter: Parameter, emit: Operations) -> Parameter:
    """A parameter with what the kernel does to its memory."""
    if not parameter.is_pointer:
        return parameter
    name = parameter.name
    access = ("r" if name in emit.reads else "") + ("w" if name in emit.writes else "")
    return Parameter(name, parameter.type, access=access, stored=emit.writes.get(name))
