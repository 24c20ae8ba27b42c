"""Functions of Triton's modules and classes that were replaced in this process: what they are is in
no file of Triton's.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from ..._system.package import FOLDER
from ..._values.value_classes import value_class
from .value_kinds import is_in_triton, is_jit

__all__ = ["imported_by_us", "replaced"]

#: xtarget and xtarget_triton.
_OWN = (FOLDER + os.sep, f"{FOLDER}_triton{os.sep}")
#: Packages of Triton's that compile.
_COMPILING = (
    "triton.backends",
    "triton.compiler",
    "triton.experimental",
    "triton.language",
    "triton.profiler.language",
    "triton.runtime.jit",
    "triton.tools",  # functions that kernels call
)


@value_class(frozen=True, slots=True)
class _Looked:
    """A module or a class of Triton, as a scan found it.

    Attributes:
        values: its members, held so that no other object gets the identity of one.
        classes: those that the module defines.
        foreign: (name, object) of each member that its file did not define.
    """

    holder: Any
    identities: tuple[int, ...]
    values: list[Any]
    classes: list[type]
    foreign: list[tuple[str, Any]]

    def is_as_before(self) -> bool:
        holder = self.holder
        if isinstance(holder, ModuleType) and sys.modules.get(holder.__name__) is not holder:
            return False
        return tuple(map(id, vars(holder).values())) == self.identities


#: The last scan: the modules' names, and each module and class by its identity; and what it found.
_looked: tuple[list[str], dict[int, _Looked]] = ([], {})
_found: list[tuple[str, Any]] = []
#: What looks replaced in a Triton that nobody can have touched yet.
_pristine: frozenset[str] = frozenset()


def imported_by_us() -> None:
    """Note that Triton was just imported: its present state is what its files say."""
    global _pristine
    _pristine = frozenset(name for name, _ in _scan())


def replaced() -> list[tuple[str, Any]]:
    """Return (name, object) of each attribute that differs from Triton's files."""
    return [(name, value) for name, value in _scan() if name not in _pristine]


def _scan() -> list[tuple[str, Any]]:
    global _looked, _found
    if "triton" not in sys.modules:  # what a broken import has left is dropped before the next one
        return []
    names = list(sys.modules)
    if names == _looked[0] and all(looked.is_as_before() for looked in _looked[1].values()):
        return _found
    modules = [
        _look(module)
        for name, module in list(sys.modules.items())
        if name.startswith(_COMPILING) and isinstance(module, ModuleType)
    ]
    classes = {id(value): value for module in modules for value in module.classes}
    looked = [*modules, *map(_look, classes.values())]
    _looked = names, {id(one.holder): one for one in looked}
    _found = [pair for one in looked for pair in one.foreign]
    return _found


def _look(holder: Any) -> _Looked:
    """A module or a class as it is now; the last scan's record of it if nothing has changed."""
    before = _looked[1].get(id(holder))
    if before is not None and before.is_as_before():
        return before
    module = holder.__name__ if isinstance(holder, ModuleType) else None
    where = module or f"{holder.__module__}.{holder.__qualname__}"
    members = list(vars(holder).items())
    values = [value for _, value in members]
    return _Looked(
        holder,
        tuple(map(id, values)),
        values,
        [v for v in values if module and isinstance(v, type) and v.__module__ == module],
        [(f"{where}.{n}", v) for n, v in members if _is_foreign(n, v, module)],
    )


def _is_foreign(name: str, value: Any, module: str | None) -> bool:
    """Return whether an attribute of Triton is a function that Triton's file did not define."""
    inner = value.fn if is_jit(value) else value
    inner = getattr(inner, "__func__", inner)
    if not isinstance(inner, FunctionType):
        return False
    file = inner.__code__.co_filename
    made = file.startswith("<frozen") or (file == "<string>" and name.startswith("__"))
    if made or file.startswith(_OWN) or _is_of_the_library(file):
        return False
    if not is_in_triton(file):
        return True
    if module is None or name.startswith("__"):
        return False
    return str(inner.__name__).strip("_") != name.strip("_")


@cache
def _is_of_the_library(file: str) -> bool:
    """Python's own modules: what dataclasses, enum and typing put into classes."""
    return file.startswith(os.path.dirname(os.__file__)) and "site-packages" not in file
