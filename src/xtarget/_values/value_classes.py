"""`value_class`: `dataclasses.dataclass` for values, without what that compiles for each class.

`dataclass` compiles six functions of each frozen class when its module is imported: half of what a
process spent in xtarget that finds its kernels in the cache. Here it is one, and the others
are closures that do the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["value_class"]

if TYPE_CHECKING:
    from dataclasses import dataclass as value_class
else:

    def value_class(cls: type | None = None, /, **options: bool) -> Any:
        """What `dataclasses.dataclass` makes of a class; of a frozen one with slots, sooner."""
        if cls is None:
            return lambda cls: value_class(cls, **options)
        eq, shown = options.get("eq", True), options.get("repr", True)
        own = dict(vars(cls))
        if not _is_usual(cls, own, options):
            return dataclasses.dataclass(**options)(cls)
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # of nothing, `dataclass` makes a signature by `inspect`
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
        fields = dataclasses.fields(made)
        # what classes derived from it, and libraries that look at dataclasses, go by
        told = made.__dataclass_params__
        told.init = told.frozen = True
        told.repr, told.eq = shown, eq
        methods = {"__init__": _initializer(made, fields), **_of_a_frozen(made, fields)}
        if shown:
            methods["__repr__"] = _representation(fields)
        if eq:
            compared = [field for field in fields if field.compare]
            hashed = [f for f in fields if (f.compare if f.hash is None else f.hash)]
            methods |= {"__eq__": _equality(compared), "__hash__": _hashing(hashed)}
            if own.get("__hash__") is None:  # as Python has it where only `__eq__` is written
                own.pop("__hash__", None)
        for name, method in methods.items():
            if name not in own:
                method.__qualname__ = f"{made.__qualname__}.{name}"
                method.__module__ = made.__module__
                setattr(made, name, method)
        return made


_Fields = tuple["dataclasses.Field[Any]", ...]


def _is_usual(cls: type, own: dict[str, Any], options: dict[str, bool]) -> bool:
    """Whether a class is frozen, with slots, of no other such class, and each of its fields an
    argument by its place."""
    given = [value for value in own.values() if isinstance(value, dataclasses.Field)]
    return (
        options.keys() - {"eq", "repr"} == {"frozen", "slots"}
        and options["frozen"]
        and options["slots"]
        and not any(dataclasses.is_dataclass(base) for base in cls.__bases__)
        and all(one.init and one.kw_only is dataclasses.MISSING for one in given)
    )


class _Made:
    """In signatures, for what a function makes."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


def _initializer(made: Any, fields: _Fields) -> Callable[..., None]:
    setters = [getattr(made, field.name).__set__ for field in fields]

    def put(self: Any, values: tuple[Any, ...]) -> None:
        for setter, value in zip(setters, values, strict=True):
            setter(self, value)

    missing = dataclasses.MISSING
    known: dict[str, Any] = {"_put": put, "_made": _MADE}
    parameters, steps = ["self"], []
    for number, field in enumerate(fields):
        name = value = field.name
        known[f"_{number}"] = setters[number]
        if field.default is not missing:
            known[f"_of_{name}"] = field.default
            parameters.append(f"{name}=_of_{name}")
        elif field.default_factory is not missing:
            known[f"_of_{name}"] = field.default_factory
            parameters.append(f"{name}=_made")
            value = f"_of_{name}() if {name} is _made else {name}"
        else:
            parameters.append(name)
        steps.append(f"_{number}(self, {value})")
    if hasattr(made, "__post_init__"):
        steps.append("self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}): {'; '.join(steps) or 'pass'}"
    exec(text, known)  # its names are a class's own fields
    init: Callable[..., None] = known["__init__"]
    init.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return init


def _of_a_frozen(made: Any, fields: _Fields) -> dict[str, Callable[..., Any]]:
    names = tuple(field.name for field in fields)

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def __setstate__(self: Any, state: list[Any]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)

    return {
        "__setattr__": __setattr__,
        "__delattr__": __delattr__,
        "__getstate__": __getstate__,
        "__setstate__": __setstate__,
    }


def _values_of(fields: list[dataclasses.Field[Any]]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of these fields as a tuple."""
    names = [field.name for field in fields]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _representation(fields: _Fields) -> Callable[[Any], str]:
    names = [field.name for field in fields if field.repr]

    def __repr__(self: Any) -> str:
        told = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({told})"

    return recursive_repr()(__repr__)


def _equality(fields: list[dataclasses.Field[Any]]) -> Callable[[Any, object], Any]:
    values = _values_of(fields)

    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hashing(fields: list[dataclasses.Field[Any]]) -> Callable[[Any], int]:
    values = _values_of(fields)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__
