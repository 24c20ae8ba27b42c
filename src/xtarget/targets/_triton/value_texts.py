"""Values as texts that every process would give them as well."""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import types
from abc import ABC, abstractmethod
from typing import Any

from .value_kinds import (
    OWN,
    PLAIN,
    PYTHON,
    is_in_triton,
    is_jit,
    is_pure,
    is_tritons,
    root_of,
)

__all__ = ["IMPURE", "Texts", "Unidentified"]

#: Built-in functions that read what no argument tells.
IMPURE = frozenset(
    (
        *("__import__", "breakpoint", "compile", "dir", "eval", "exec", "globals", "hash", "id"),
        *("input", "locals", "open", "vars"),
    )
)
#: What every member of an enum has.
_OF_ENUM = frozenset(("__objclass__", "_name_", "_sort_order_", "_value_"))


class Unidentified(Exception):
    """A value has no text that another process would give it as well."""


class Texts(ABC):
    """Gives texts to values. What is done with the functions and classes in them is the derived
    class's: it gives each a label (`_later`), and is told of what a value is read from (`_guard`).
    """

    @abstractmethod
    def _later(self, value: Any, kind: str) -> str:
        """A label for a function or class."""

    @abstractmethod
    def _guard(self, holder: Any, name: str, value: Any) -> None:
        """The text stands as long as this name of the holder leads to this value."""

    def value(self, value: Any, what: str) -> str:
        """The text of a value.

        Args:
            what: where it was found, for messages.
        """
        cls = type(value)
        if value is None or value is Ellipsis or value is NotImplemented or cls in PLAIN:
            return f"{cls.__name__} {value!r}"
        if is_jit(value):
            return self._later(value, "function")
        if isinstance(value, types.ModuleType):
            if is_tritons(value.__name__) or is_pure(value.__name__):
                return f"module {value.__name__}"
            raise Unidentified(f"{what} is the module {value.__name__} as a whole")
        if is_tritons(cls.__module__) and not isinstance(value, type):
            return self._of_triton(value, what)
        if isinstance(value, type):
            return self._type(value, what)
        if isinstance(value, enum.Enum):
            text = f"{self._type(cls, what)} {value.name} {self.value(value.value, what)}"
            return text + self._attributes(value, what, _OF_ENUM)
        if isinstance(value, types.FunctionType):
            return self._function(value, what)
        return self._other(value, cls, what)

    def _other(self, value: Any, cls: type, what: str) -> str:
        if isinstance(value, types.BuiltinFunctionType):
            owner = value.__self__
            module = value.__module__ or ""
            free = owner is None or isinstance(owner, types.ModuleType)
            known = module == "builtins" or is_pure(module)
            if free and known and value.__name__ not in IMPURE:
                return f"builtin {module}.{value.__qualname__}"
            if isinstance(owner, type) and owner.__module__ == "builtins":
                return f"builtin {owner.__name__}.{value.__name__}"
            raise Unidentified(f"{what} is {value!r}")
        if isinstance(value, types.MethodType):
            method = self.value(value.__func__, what)
            return f"method {method} of {self.value(value.__self__, what)}"
        if isinstance(value, staticmethod | classmethod):
            return f"{cls.__name__} {self.value(value.__func__, what)}"
        if isinstance(value, property):
            accessors = [self.value(f, what) for f in (value.fget, value.fset, value.fdel)]
            return f"property {accessors}"
        if isinstance(value, functools.partial):
            inner = (value.func, value.args, tuple(sorted(value.keywords.items())))
            return f"partial {self.value(inner, what)}"
        if isinstance(value, tuple | list):
            each = ", ".join(self.value(v, what) for v in value)
            return f"{self._container(cls, what)} [{each}]{self._attributes(value, what)}"
        if isinstance(value, set | frozenset):
            each = ", ".join(sorted(self.value(v, what) for v in value))
            return f"{self._container(cls, what)} {{{each}}}{self._attributes(value, what)}"
        if isinstance(value, dict | types.MappingProxyType):
            pairs = [(self.value(k, what), self.value(v, what)) for k, v in value.items()]
            each = ", ".join(f"{k}: {v}" for k, v in pairs)
            text = f"{self._container(cls, what)} {{{each}}}{self._attributes(value, what)}"
            factory = getattr(value, "default_factory", None)
            return text if factory is None else f"{text} else {self.value(factory, what)}"
        if isinstance(value, bool | int | float | str | bytes):  # a subclass
            plain = next(c for c in cls.__mro__ if c in PLAIN)
            text = f"{self._type(cls, what)} {plain(value)!r}"
            return text + self._attributes(value, what)
        if isinstance(value, range | slice | complex):
            return repr(value)
        if cls.__module__ == "types" and cls is types.SimpleNamespace:
            return f"namespace {self.value(vars(value), what)}"
        if dataclasses.is_dataclass(value):
            given = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            text = f"{self._type(cls, what)} {self.value(given, what)}"
            return text + self._attributes(value, what, frozenset(given))
        root = root_of(cls.__module__)
        if root == "torch" and cls.__name__ == "dtype":
            return str(value)
        if (
            root in ("numpy", "ml_dtypes")
            and hasattr(value, "tobytes")
            and not value.dtype.hasobject
        ):
            content = hashlib.sha256(value.tobytes()).hexdigest()
            return f"{cls.__name__} {value.dtype.str} {value.shape} {content}"
        if root == "numpy" and hasattr(value, "str") and hasattr(value, "itemsize"):
            return f"dtype {value.str}"
        if root == "typing" or cls is types.GenericAlias or cls is types.UnionType:
            return f"annotation {value!r}"
        raise Unidentified(f"{what or 'it'} is an object of {cls.__module__}.{cls.__qualname__}")

    def _attributes(self, value: Any, what: str, without: frozenset[str] = frozenset()) -> str:
        """Describe an object's further attributes, beside those that its kind is compared by."""
        given = dict(getattr(value, "__dict__", ()))
        for base in type(value).__mro__:
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    given[name] = getattr(value, name)
        rest = {name: inner for name, inner in given.items() if name not in without}
        return f" with {self.value(rest, what)}" if rest else ""

    def _container(self, cls: type, what: str) -> str:
        plain = cls.__module__ in ("builtins", "collections", "types")
        return cls.__name__ if plain else self._type(cls, what)

    def _of_triton(self, value: Any, what: str) -> str:
        """An object of a class of Triton's: a constexpr, a dtype, a layout."""
        name = type(value).__name__
        if name == "constexpr":
            self._guard(vars(value), "value", value.value)
            return f"constexpr({self.value(value.value, what)})"
        if dataclasses.is_dataclass(value):
            given = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return f"{name} {self.value(given, what)}"
        if name == "tuple":
            return f"tl.tuple {self.value(list(value.values), what)}"
        if is_tritons(type(value).__module__) and name.endswith(("dtype", "_type")):
            return f"{name} {value}"
        raise Unidentified(f"{what} is an object of {type(value).__module__}.{name}")

    def _type(self, cls: type, what: str) -> str:
        root = root_of(cls.__module__)
        if root == "builtins" or is_pure(root):
            return f"class {cls.__qualname__}"
        if is_tritons(cls.__module__) and not getattr(cls, "__triton_aggregate__", False):
            return f"class {cls.__module__}.{cls.__qualname__}"
        if root in ("numpy", "ml_dtypes") or cls.__module__ == "xtarget._values.authoring":
            return f"class {cls.__module__}.{cls.__qualname__}"
        return self._later(cls, "class")

    def _function(self, value: types.FunctionType, what: str) -> str:
        module = value.__module__ or ""
        file = value.__code__.co_filename
        if is_tritons(module) and is_in_triton(file):
            return f"function {module}.{value.__qualname__}"
        if is_pure(module) and file.startswith((PYTHON, "<frozen ")):
            return f"function {module}.{value.__qualname__}"
        if root_of(module) == "xtarget" and file.startswith(OWN):
            return f"function {module}.{value.__qualname__}"
        return self._later(value, "function")
