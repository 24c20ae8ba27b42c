"""A kernel's source that somebody wrote in C: what it is told of the request."""

from __future__ import annotations

import re

from ..._values.types import (
    CompileRequest,
    Constant,
    DtypeConstant,
    Parameter,
    TypeText,
    WrittenSource,
)
from .dialects import Dialect
from .translate import Translated
from .values import RefusedError, dtype_of

__all__ = ["written"]


def written(
    source: WrittenSource, request: CompileRequest, dialect: Dialect, threads: int, warp_size: int
) -> Translated:
    """The source as a kernel of the request.

    It sees each constant of the request as a macro of that name, `TYPE_x` for the element type of
    the array or the type of the number `x`, and `THREADS` and `WARP_SIZE`, the threads of a block
    and of a warp.

    Raises:
        RefusedError: it has no entry of the kernel's name, or a type is none of C's.
    """
    text, entry = source.text.decode("utf-8", "replace"), request.source.name
    if re.search(rf"\b{re.escape(entry)}\s*\(", text) is None:
        raise RefusedError(f"{source.name}: there is no kernel {entry} in it")
    parameters = [p for name, t in request.signature for p in _flat(name, t)]
    macros = {"THREADS": str(threads), "WARP_SIZE": str(warp_size)}
    for name, constant in request.constants:
        value = _macro(constant, dialect)
        if value:
            macros[name] = value
    for parameter in parameters:
        dtype = dtype_of(parameter.type)
        type_ = dialect.in_memory(dtype.element_ty or dtype)
        macros[f"TYPE_{parameter.name.replace('.', '_')}"] = type_
    whole = dialect.written(text, source.name, macros)
    double = any("fp64" in parameter.type for parameter in parameters)
    return Translated(whole, entry, tuple(parameters), double, threads)


def _flat(name: str, type_: TypeText) -> list[Parameter]:
    if isinstance(type_, str):
        return [] if type_ == "constexpr" else [Parameter(name, type_)]
    return [p for i, inner in enumerate(type_) for p in _flat(f"{name}.{i}", inner)]


def _macro(constant: Constant, dialect: Dialect) -> str:
    """A constant as C; empty for what C has no word for."""
    match constant:
        case bool():
            return str(int(constant))
        case int():
            return f"({constant})"
        case float() if constant - constant == 0:
            return f"({constant.hex()})"
        case DtypeConstant():
            return dialect.in_memory(dtype_of(constant.name))
    return ""
