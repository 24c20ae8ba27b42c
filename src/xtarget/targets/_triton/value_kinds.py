"""Tell apart the values that a function can reach: Python's, Triton's, plain data, mutable ones."""

from __future__ import annotations

import dataclasses
import enum
import importlib.machinery
import os
import sys
import types
from functools import cache, lru_cache
from typing import Any

from ..._system.package import FOLDER

__all__ = [
    "DECORATORS",
    "OWN",
    "PLAIN",
    "PURE",
    "PYTHON",
    "is_data",
    "is_holder",
    "is_in_triton",
    "is_jit",
    "is_pure",
    "is_tritons",
    "may_change",
    "root_of",
]

#: Modules of the standard library whose functions depend on their arguments only.
PURE = frozenset(
    (
        *("__future__", "_collections_abc", "_operator", "abc", "collections", "copy"),
        *("dataclasses", "enum", "fractions", "functools", "itertools", "math", "numbers"),
        *("operator", "types", "typing"),
    )
)

PLAIN: tuple[Any, ...] = (bool, int, float, str, bytes)
#: Where Python's own modules lie.
PYTHON = os.path.dirname(os.__file__) + os.sep
#: Files of what `dataclass` and `enum` put into classes; it follows from the rest of the class.
DECORATORS = frozenset((dataclasses.__file__, enum.__file__))
#: Where our own modules lie.
OWN = FOLDER + os.sep


def may_change(value: Any) -> bool:
    """Return whether a value can change in place, where no guard of a name sees it."""
    cls = type(value)
    if value is None or cls in PLAIN or isinstance(value, enum.Enum | type | types.ModuleType):
        return False
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType) or is_jit(value):
        return False
    if cls is tuple or cls is frozenset:
        return any(map(may_change, value))
    if is_tritons(cls.__module__):
        return cls.__name__ == "constexpr" and may_change(value.value)
    return not isinstance(value, property | staticmethod | classmethod)


def root_of(module: str | None) -> str:
    return (module or "").partition(".")[0]


def is_pure(module: str | None) -> bool:
    """Return whether a module is one of `PURE`, not a file of the same name found before it."""
    root = root_of(module)
    return root in PURE and _is_pythons(root, root in sys.modules)


@cache
def _is_pythons(name: str, loaded: bool) -> bool:
    if loaded:
        file = getattr(sys.modules.get(name), "__file__", None)
    else:
        spec = importlib.machinery.PathFinder.find_spec(name)
        file = None if spec is None else spec.origin
    return file is None or (file.startswith(PYTHON) and "site-packages" not in file)


def is_tritons(module: str | None) -> bool:
    return root_of(module) == "triton"


def is_in_triton(file: str) -> bool:
    """Return whether a file belongs to the loaded Triton."""
    triton = sys.modules.get("triton")
    return _is_below(file, tuple(getattr(triton, "__path__", ())))


@lru_cache(maxsize=4096)
def _is_below(file: str, folders: tuple[str, ...]) -> bool:
    return any(file.startswith(folder + "/") for folder in folders)


def is_jit(value: Any) -> bool:
    """Return whether a value is a `@triton.jit` or `@triton.constexpr_function` function."""
    return any(
        c.__name__ in ("JITCallable", "JITFunction") and is_tritons(c.__module__)
        for c in type(value).__mro__
    ) and hasattr(value, "fn")


def is_data(value: Any) -> bool:
    """Plain data that a module of Triton's holds, as a knob: not part of the tool chain's files."""
    return type(value) in (*PLAIN, tuple, list, dict) or value is None


def is_holder(value: Any) -> bool:
    """Return whether its attributes are read one by one: a class, or a user class's object."""
    if is_jit(value) or is_tritons(type(value).__module__):
        return False
    if isinstance(value, type):
        return not is_tritons(value.__module__) or bool(
            getattr(value, "__triton_aggregate__", False)
        )
    if isinstance(value, (*PLAIN, tuple, list, dict, set, types.FunctionType)):
        return isinstance(value, tuple) and hasattr(value, "_fields")
    return not isinstance(value, types.BuiltinFunctionType)
