"""The meaning of a function of the kernel library, whatever its comments and its place are."""

from __future__ import annotations

import ast
import hashlib
from functools import lru_cache

from .._c.text import Function

__all__ = ["meaning"]


@lru_cache(maxsize=64)
def meaning(function: Function) -> str:
    """Digest of a function and of those that it calls."""
    seen: dict[str, str] = {}
    _collect(function, seen)
    text = "\n".join(seen[name] for name in sorted(seen))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _collect(function: Function, seen: dict[str, str]) -> None:
    node = function.node
    name = f"{function.scope.module}:{node.name}"
    if name in seen:
        return
    text, names = _said(node)
    seen[name] = f"{name}\n{text}"
    for inner in names:
        try:
            found = function.scope.lookup(inner)
        except KeyError:
            continue
        if isinstance(found, Function):
            _collect(found, seen)


@lru_cache(maxsize=64)
def _said(node: ast.FunctionDef) -> tuple[str, tuple[str, ...]]:
    """Return what a function says, and the names in it. A file's nodes are parsed once."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    text = "\n".join([ast.unparse(node.args), *map(ast.unparse, body)])
    names = dict.fromkeys(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
    return text, tuple(names)
