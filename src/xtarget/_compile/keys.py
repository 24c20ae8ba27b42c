"""Key parts: everything that decides a binary, and under which the binary is kept."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from .._artifacts.entry import SCHEMA, request_parts
from .._values.types import CompileRequest, KernelSource, Target
from ..targets._triton.toolchain import as_content, unidentified

__all__ = ["ROUTE", "TOOLCHAIN", "key_parts", "settled", "why_not_kept"]

#: Key part that names the toolchain; a machine without a compiler takes any toolchain's binary.
TOOLCHAIN = "toolchain"
#: Key part that names the route, where that is not the vendor's own compiler.
ROUTE = "route"


def key_parts(
    request: CompileRequest, target: Target, toolchain: str, route: str = ""
) -> list[tuple[str, str]]:
    """All that decides the binary, as labelled text. Whatever changes the binary changes this.

    Args:
        route: the name of one that is not the vendor's own compiler.
    """
    source = request.source
    places = f"{source.path}\n{source.places}" if request.line_info else source.places
    return [
        ("schema", SCHEMA),
        ("target", str(target)),
        *([(ROUTE, route), *_written(source)] if route else []),
        (TOOLCHAIN, toolchain),
        *request_parts(request, _with_contents(request.options), aligned=True),
        *([("places", places)] if places else []),
        *source.parts,
    ]


def _written(source: KernelSource) -> list[tuple[str, str]]:
    return [
        (f"written {own.suffix}", f"{own.name} {hashlib.sha256(own.text).hexdigest()}")
        for own in source.written
    ]


def _with_contents(value: Any) -> Any:
    """Options in which the content of a file stands for its path (`extern_libs`, `ir_override`)."""
    if isinstance(value, tuple):
        return tuple(_with_contents(element) for element in value)
    return as_content(value) if isinstance(value, str) else value


def why_not_kept(request: CompileRequest, toolchain: str) -> str:
    """Say why a binary of this request must not be kept for other processes; empty if it may."""
    return request.source.unidentified or unidentified(toolchain)


def settled(request: CompileRequest) -> CompileRequest:
    """The request with its source as it is imported now."""
    if request.source.again is None:
        return request
    return replace(request, source=request.source.again())
