"""`value_class`: `dataclasses.dataclass` for values, without what that compiles for each class.

`dataclass` compiles six functions of each frozen class when its module is imported, makes the class
twice and changes it a dozen times after that: half of what a process spent in xtarget that finds
its kernels in the cache. Here the class is made once, whole; its `__init__` is the code of another
with as many fields, under its own names, and the other methods are closures that do the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

__all__ = ["value_class"]

if TYPE_CHECKING:
    from dataclasses import dataclass as value_class
else:

    def value_class(cls: type | None = None, /, **options: bool) -> Any:
        """Make a class a dataclass as `dataclasses` does; a frozen one with slots sooner."""
        if cls is None:
            return lambda cls: value_class(cls, **options)
        own = dict(vars(cls))
        if not _is_usual(cls, own, options):
            return dataclasses.dataclass(**options)(cls)
        eq, shown = options.get("eq", True), options.get("repr", True)
        fields = [_field(name, type_, own) for name, type_ in cls.__annotations__.items()]
        names = tuple(field.name for field in fields)
        itself: list[type] = []
        init, known = _initializer(fields, post=hasattr(cls, "__post_init__"))
        methods = {"__init__": init, **_of_a_frozen(itself, names)}
        if shown:
            methods["__repr__"] = _representation(fields)
        if eq:
            compared = [field for field in fields if field.compare]
            hashed = [f for f in fields if (f.compare if f.hash is None else f.hash)]
            methods |= {"__eq__": _equality(compared), "__hash__": _hashing(hashed)}
            if own.get("__hash__") is None:  # as Python has it where only `__eq__` is written
                own.pop("__hash__", None)
        for name, method in methods.items():
            method.__qualname__ = f"{cls.__qualname__}.{name}"
            method.__module__ = cls.__module__
        sample = _sample(eq, shown)
        told = {
            # of nothing, `dataclass` makes a signature by `inspect`
            "__doc__": cls.__name__ if cls.__doc__ is None else cls.__doc__,
            "__slots__": names,
            "__match_args__": own.get("__match_args__", names),
            # what classes derived from it, and libraries that look at dataclasses, go by
            "__dataclass_fields__": {field.name: field for field in fields},
            "__dataclass_params__": sample.__dataclass_params__,
        }
        if hasattr(sample, "__replace__"):  # from Python 3.13 on
            methods["__replace__"] = sample.__replace__
        for name in (*names, "__dict__", "__weakref__"):
            own.pop(name, None)
        made = type(cls)(cls.__name__, cls.__bases__, {**methods, **own, **told})
        made.__qualname__ = cls.__qualname__
        itself.append(made)
        known.update((f"_of_{name}", getattr(made, name).__set__) for name in names)
        return made


_Fields = Sequence["dataclasses.Field[Any]"]


def _is_usual(cls: type, own: dict[str, Any], options: dict[str, bool]) -> bool:
    """Whether a class is frozen, with slots, of no other such class, and each of its fields an
    argument by its place. Of others, and of mistakes, `dataclass` knows more."""
    names = cls.__annotations__
    given = {name: value for name, value in own.items() if isinstance(value, dataclasses.Field)}
    optional, alone = False, cls.__bases__ == (object,)
    for name, type_ in names.items():
        words = type_ if isinstance(type_, str) else repr(type_)
        if name == "self" or "ClassVar" in words or "InitVar" in words or "KW_ONLY" in words:
            return False
        if name[:2] == "__" or not (alone or all(not hasattr(b, name) for b in cls.__bases__)):
            return False
        field = given.get(name)
        if field is None:
            default = own.get(name, dataclasses.MISSING)
        elif field.default_factory is dataclasses.MISSING:
            default = field.default
        else:
            default = None
        if default is dataclasses.MISSING and optional:
            return False  # not after one that has a default
        optional = default is not dataclasses.MISSING
        if type(default).__hash__ is None:
            return False  # may be changed by the first who gets it
    return (
        options.keys() - {"eq", "repr"} == {"frozen", "slots"}
        and options["frozen"]
        and options["slots"]
        and "__slots__" not in own
        and not any(dataclasses.is_dataclass(base) for base in cls.__bases__)
        and given.keys() <= names.keys()
        and all(one.init and one.kw_only is dataclasses.MISSING for one in given.values())
        and hasattr(_sample(True, True).__dataclass_fields__["a"], "_field_type")
    )


@cache
def _sample(eq: bool, shown: bool) -> Any:
    """A class of the library's own making, from which others have what is private to it."""

    @dataclasses.dataclass(init=False, repr=False, eq=False)
    class Sample:
        """With a docstring: `dataclass` looks for a signature where there is none."""

        a: Any

    told: Any = Sample.__dataclass_params__  # type: ignore[attr-defined]
    told.init = told.frozen = True
    told.repr, told.eq = shown, eq
    if hasattr(told, "slots"):  # from Python 3.12 on
        told.slots = True
    return Sample


def _field(name: str, type_: Any, own: dict[str, Any]) -> dataclasses.Field[Any]:
    """A field as `dataclass` has it of an annotation, and of the value beside it."""
    given = own.get(name, dataclasses.MISSING)
    made: Any = given if isinstance(given, dataclasses.Field) else dataclasses.field(default=given)
    made.name, made.type, made.kw_only = name, type_, False
    made._field_type = _sample(True, True).__dataclass_fields__["a"]._field_type
    field: dataclasses.Field[Any] = made
    return field


class _Made:
    """In signatures, for what a function makes."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


def _initializer(fields: _Fields, *, post: bool) -> tuple[FunctionType, dict[str, Any]]:
    """`__init__`, and its globals, which want the setter of each field."""
    missing = dataclasses.MISSING
    defaults = []
    known: dict[str, Any] = {}
    for field in fields:
        if field.default is not missing:
            defaults.append(field.default)
        elif field.default_factory is not missing:
            defaults.append(_MADE)
            known[f"_made_{field.name}"] = field.default_factory
    names = [field.name for field in fields]
    made = tuple(f"_made_{name}" in known for name in names)
    code = _code(made, post)
    numbers = {f"_of_{number}": f"_of_{name}" for number, name in enumerate(names)}
    numbers |= {f"_made_{number}": f"_made_{name}" for number, name in enumerate(names)}
    code = code.replace(
        co_varnames=("self", *names),
        co_names=tuple(numbers.get(name, name) for name in code.co_names),
    )
    known["_made"] = _MADE
    init = FunctionType(code, known, "__init__", tuple(defaults))
    init.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return init, known


@cache
def _code(made: tuple[bool, ...], post: bool) -> CodeType:
    """Of an `__init__` whose fields are numbers, some of them made by functions."""
    steps = []
    for number, by_function in enumerate(made):
        name = f"a{number}"
        value = f"_made_{number}() if {name} is _made else {name}" if by_function else name
        steps.append(f"_of_{number}(self, {value})")
    if post:
        steps.append("self.__post_init__()")
    parameters = ", ".join(["self", *(f"a{number}" for number in range(len(made)))])
    known: dict[str, Any] = {}
    exec(f"def __init__({parameters}): {'; '.join(steps) or 'pass'}", known)
    code: CodeType = known["__init__"].__code__
    return code


def _of_a_frozen(itself: list[Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Its methods, of a class that is in `itself` as soon as there is one."""

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is itself[0] or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(itself[0], self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is itself[0] or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(itself[0], self).__delattr__(name)

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


def _values_of(fields: _Fields) -> Callable[[Any], tuple[Any, ...]]:
    """Return what gives the values of these fields as a tuple."""
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


def _equality(fields: _Fields) -> Callable[[Any, object], Any]:
    values = _values_of(fields)

    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hashing(fields: _Fields) -> Callable[[Any], int]:
    values = _values_of(fields)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__
