"""The functions and constants of a kernel's text, and what their names mean."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..._values.types import SourceText
from ..._values.value_classes import value_class
from .values import RefusedError

__all__ = ["Function", "Library", "Scope"]

#: What the modules are that a static file may name beside those of its library.
_OUTSIDE = {
    "triton": "triton",
    "triton.language": "tl",
    "triton.language.extra.libdevice": "libdevice",
}


@value_class(frozen=True, slots=True)
class Library:
    """A module that is not of the kernel's library: `tl`, `libdevice`."""

    name: str


@value_class(frozen=True, slots=True, eq=False)
class Function:
    """A function, and the names that it can read."""

    node: ast.FunctionDef
    scope: Scope


@dataclass(slots=True, eq=False)
class Scope:
    """A module of the text.

    Attributes:
        path: its file.
        names: what is known by now of its names.
    """

    source: SourceText
    module: str
    path: str
    _tree: Mapping[str, ast.stmt]
    _others: dict[str, Scope]
    names: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, source: SourceText) -> Function:
        """The function of a text.

        Raises:
            RefusedError: the text has none of that name.
        """
        module, _, name = source.function.partition(":")
        scope = cls._of(source, module, {})
        for given, other in source.given:
            scope.names[given] = cls.of(other)
        found = scope.lookup(name)
        if not isinstance(found, Function):
            raise RefusedError(f"{name}, which is no function")
        return found

    @classmethod
    def _of(cls, source: SourceText, module: str, others: dict[str, Scope]) -> Scope:
        found = others.get(module)
        if found is None:
            path, text = source.modules[module]
            found = others[module] = cls(source, module, path, _parsed(text), others)
        return found

    def lookup(self, name: str) -> Any:
        """The meaning of a name of the module: a `Function`, a `Library`, or the expression of a
        constant.

        Raises:
            KeyError: it has none.
        """
        if name not in self.names:
            self.names[name] = self._meaning(name, self._tree[name])
        return self.names[name]

    def _meaning(self, name: str, node: ast.stmt) -> Any:
        if isinstance(node, ast.FunctionDef):
            return Function(node, self)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            return node.value
        if isinstance(node, ast.Import):
            alias = next(a for a in node.names if (a.asname or a.name.partition(".")[0]) == name)
            return _library(alias.name if alias.asname else alias.name.partition(".")[0])
        assert isinstance(node, ast.ImportFrom)
        alias = next(a for a in node.names if (a.asname or a.name) == name)
        if not node.level:
            return _library(f"{node.module}.{alias.name}")
        inner = ".".join(part for part in (*self._base(node), alias.name) if part)
        if inner in self.source.modules:
            raise RefusedError(f"the module {inner} as a value")
        return self._of(self.source, ".".join(self._base(node)), self._others).lookup(alias.name)

    def _base(self, node: ast.ImportFrom) -> list[str]:
        package = self.module.split(".")
        if not self.path.endswith("__init__.py"):
            package.pop()
        up = package[: len(package) - (node.level - 1)]
        return [*up, *(node.module.split(".") if node.module else ())]


@lru_cache(maxsize=128)
def _parsed(text: bytes) -> Mapping[str, ast.stmt]:
    """The statements of a file by the names that they bind; nobody changes them."""
    return {name: node for node in ast.parse(text).body for name in _bound(node)}


def _library(name: str) -> Library:
    if name not in _OUTSIDE:
        raise RefusedError(name)
    return Library(_OUTSIDE[name])


def _bound(node: ast.stmt) -> list[str]:
    """The names that a statement of a module binds."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    return []
