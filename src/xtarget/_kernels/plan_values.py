"""The values that a plan reads beside the call: globals, closure cells, defaults, attributes.

A plan is planned once for a class of calls. What it reads of its module may change meanwhile
(`FACTOR = 3`), without its text changing; then it has to be planned again.
"""

from __future__ import annotations

import functools
import marshal
import operator
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import (
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any

from .._values.conditions import all_of

if TYPE_CHECKING:
    from .libraries import RegisteredKernel

__all__ = ["Reads", "always", "reads_of"]

_MISSING = object()
#: How a value is read: what holds it, its name there, and a key of `_TEXTS`.
_Read = tuple[Any, str, str]
_TEXTS = {"item": "{0}[{1!r}]", "attribute": "{0}.{1}", "class": "static({0}, {1!r})"}
_NUMBERS = (float, complex)
#: Attributes that functions use without their names.
_IMPLICIT = ("__call__", "__getitem__", "__init__", "__wrapped__")
_PLAIN = frozenset((bool, int, str, bytes, type(None), *_NUMBERS))
_DUMPED = frozenset((tuple, list, set, frozenset, dict))
_CONTAINERS = (tuple, list, set, frozenset, dict, deque)
#: Objects that are looked into; what is behind more of them is not followed.
_MOST = 400
#: Elements of a list, a table or an array that are compared; of a longer one only which one it is.
_MOST_ELEMENTS = 256
#: Lists in lists that are compared: one may hold itself.
_DEEPEST = 4
#: Packages whose modules' values do not change. Of our own functions, the closures are followed.
_SETTLED = frozenset(sys.stdlib_module_names - {"__main__"}) | {
    *("cupy", "dask", "dpctl", "dpnp", "jax", "jaxlib", "numpy", "torch", "triton", "xtarget"),
}
#: What code does to names that are not its own.
_READ = frozenset(("LOAD_GLOBAL", "LOAD_NAME"))
_STORED = frozenset(("STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL"))


class Reads:
    """What a plan reads beside its call, as it is now.

    Attributes:
        holds: tells whether that is what it was.
    """

    holds: Callable[[], bool]

    def __init__(self, plan: Callable[..., Any] | None) -> None:
        walk = _Walk()
        walk.look(plan)
        self._stored = walk.stored
        self._changes = [(read, _sameness(now)) for read, now in walk.found if _may_change(now)]
        self._stays = [(read, now) for read, now in walk.found if not _may_change(now)]
        self._compare()

    def _compare(self) -> None:
        stays, changes = _stays(self._stays), self._changes

        def same() -> bool:
            return stays() and all(is_same(_now(read)) for read, is_same in changes)

        self.holds = same if changes else stays

    def leave_own(self) -> None:
        """Forget what the plan itself has changed since, lists, tables and names (`calls += 1`):
        what it notes there is nothing that it reads. What was None is made once."""
        changes = [(read, is_same) for read, is_same in self._changes if is_same(_now(read))]
        stays = [
            (read, value)
            for read, value in self._stays
            if value is None
            or value is _MISSING
            or self._stored.isdisjoint((read[1], id(read[0])))
            or _state(_now(read)) == _state(value)
        ]
        if len(changes) + len(stays) < len(self._changes) + len(self._stays):
            self._changes, self._stays = changes, stays
            self._compare()


def reads_of(kernel: RegisteredKernel) -> Reads:
    """What a kernel's plan reads; nothing of our own library, whose modules nobody changes."""
    return Reads(None if kernel.fixed else kernel.spec.plan)


def always() -> bool:
    """What a plan that reads nothing is: as it was."""
    return True


def _now(read: _Read) -> Any:
    holder, name, way = read
    try:
        if way == "class":
            return _static(holder, name)
        return holder[name] if way == "item" else getattr(holder, name)
    except (KeyError, ValueError, AttributeError):  # gone, or a cell that is not set yet
        return _MISSING


def _stays(found: list[tuple[_Read, Any]]) -> Callable[[], bool]:
    """A function that tells whether each value that cannot change in itself is what it is now."""
    if not found:
        return always
    names: dict[str, Any] = {"now": _now, "state": _state, "static": _static}
    conditions: list[str] = []
    for number, (read, value) in enumerate(found):
        holder, name, way = read
        names[f"h{number}"], names[f"v{number}"] = holder, value
        text = _TEXTS[way].format(f"h{number}", name)
        if value is _MISSING:
            names[f"h{number}"] = read
            text = f"now(h{number})"
        condition = f"{text} is v{number}"
        state = _state(value)
        if not isinstance(state, _Itself):
            names[f"s{number}"] = state
            condition = f"({condition} or state({text}) == s{number})"
        conditions.append(condition)
    return all_of(conditions, names)


class _Walk:
    """Follows a plan to all functions that it may call, and to the objects that these name.

    Attributes:
        found: how to read each value, and what it is now.
        stored: names that the functions set, and ids of the cells.
    """

    def __init__(self) -> None:
        self.stored: set[str | int] = set()
        self.found: list[tuple[_Read, Any]] = []
        self._names = set(_IMPLICIT)  # of attributes, in any of the functions
        self._seen: dict[int, Any] = {}  # by id; an object that lives has its id alone
        self._objects: list[tuple[Any, set[str]]] = []  # and the names that were looked up
        self._waiting: list[Any] = []

    def look(self, plan: Any) -> None:
        self._waiting.append(plan)
        while self._waiting:
            while self._waiting:
                self._one(self._waiting.pop())
            for held, done in self._objects:  # a function may be given what another one names
                for name in sorted(self._names - done):
                    done.add(name)
                    self._attribute(held, name)

    def _one(self, value: Any) -> None:
        if id(value) in self._seen or len(self._seen) >= _MOST or type(value) in _PLAIN:
            return
        self._seen[id(value)] = value
        if isinstance(value, _CONTAINERS):
            self._waiting += _elements(value)[:_MOST_ELEMENTS]
        elif isinstance(value, functools.partial):
            held = (value.func, value.args, value.keywords)
            if _root(value.func) != "xtarget":  # what our functions hold stays
                for name, one in zip(("func", "args", "keywords"), held, strict=True):
                    self.found.append(((value, name, "attribute"), one))
            self._waiting += held
        elif isinstance(value, MethodType):
            self._waiting += (value.__func__, value.__self__)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, property):
            self._waiting.append(value.fget)
        elif isinstance(value, staticmethod | classmethod):
            self._waiting.append(value.__func__)
        elif isinstance(value, ModuleType):
            if not _is_settled(value.__name__):
                self._objects.append((value, set()))
        elif _root(type(value)) == "xtarget":
            self._waiting.append(getattr(value, "__wrapped__", None))  # of a fused function
        elif hasattr(value, "__dict__") or not _is_settled(type(value).__module__):
            self._objects.append((value, set()))

    def _function(self, function: FunctionType) -> None:
        own = _root(function) == "xtarget"
        reads: list[_Read] = [
            (cell, "cell_contents", "attribute") for cell in function.__closure__ or ()
        ]
        if not _is_settled(function.__module__ or ""):
            named = ["__defaults__", "__kwdefaults__"]
            if function.__name__ != "<lambda>":  # reloaders replace the code of what has a name
                named.append("__code__")
            reads += [
                (function, name, "attribute")
                for name in named
                if getattr(function, name) is not None
            ]
            known, code = function.__globals__, function.__code__
            reads += [(known, name, "item") for name in sorted(_named(code, _READ) & known.keys())]
            self._names.update(_names(code))
            stored = _named(code, _STORED)
            cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
            self.stored |= stored | {id(cell) for name, cell in cells if name in stored}
        for read in reads:
            self._read(read, kept=not own)  # it may be a user's function

    def _read(self, read: _Read, kept: bool = True) -> None:
        now = _now(read)
        if kept:
            self.found.append((read, now))
        self._waiting.append(now)

    def _attribute(self, held: Any, name: str) -> None:
        """What an object says to a name: itself, or its class."""
        if isinstance(held, ModuleType):
            if name in vars(held):
                self._read((vars(held), name, "item"))
            return
        static = _static(held, name)
        if static is _MISSING:
            return
        if isinstance(static, FunctionType | property | staticmethod | classmethod):
            self._read((held, name, "class"))
        elif isinstance(static, MemberDescriptorType) or not hasattr(type(static), "__get__"):
            self._read((held, name, "attribute"))


def _static(held: Any, name: str) -> Any:
    """An attribute without a call of what computes it."""
    for cls in (held if isinstance(held, type) else type(held)).__mro__:
        if name in cls.__dict__ and not _is_settled(cls.__module__):
            found = cls.__dict__[name]
            break
    else:
        found = _MISSING
    if isinstance(held, type) or isinstance(found, property | MemberDescriptorType):
        return found
    return getattr(held, "__dict__", {}).get(name, found)


def _root(function: Any) -> str:
    return (getattr(function, "__module__", None) or "").partition(".")[0]


def _is_settled(module: str) -> bool:
    return module.partition(".")[0] in _SETTLED


@functools.lru_cache(4096)
def _named(code: CodeType, operations: frozenset[str]) -> frozenset[str]:
    """The names to which code does that. Those of its module that it reads are not all that it
    names: attributes alone (`c.x`) are a program's own there, and may be other arrays at each
    call."""
    import dis  # of no use to a library's own plans

    found = {one.argval for one in dis.get_instructions(code) if one.opname in operations}
    return frozenset(found).union(
        *(_named(inner, operations) for inner in code.co_consts if isinstance(inner, CodeType))
    )


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _elements(value: Iterable[Any]) -> list[Any]:
    return [*value, *value.values()] if isinstance(value, dict) else list(value)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and not value.dtype.hasobject


def _may_change(value: Any) -> bool:
    """Whether another value may be in the same object."""
    if isinstance(value, tuple | frozenset):
        return any(map(_may_change, value))
    return isinstance(value, _CONTAINERS) or _is_array(value)


class _Itself:
    """Equal to no other object. Keeps it: its address is not given to another one."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)


def _sameness(value: Any) -> Callable[[Any], bool]:
    """What tells whether a value that may change is as it is now."""
    if _is_plain(value):
        dumped = _dumped(value)
        return lambda now: _dumped(now) == dumped
    state, parts = _state(value), list(_parts(value))
    quick = bool(parts) and not any(_is_array(one) for _, own in parts for one in own)

    def is_same(now: Any) -> bool:
        if quick and now is value and all(_has(part, own) for part, own in parts):
            return True
        return bool(_state(now) == state)

    return is_same


def _parts(value: Any, depth: int = 0) -> Iterator[tuple[Any, list[Any]]]:
    """A container with its elements, and those in it that may change."""
    if depth < _DEEPEST and isinstance(value, _CONTAINERS) and len(value) <= _MOST_ELEMENTS:
        own = _elements(value)
        yield value, own
        for one in own:
            if _may_change(one):
                yield from _parts(one, depth + 1)


def _has(container: Any, elements: list[Any]) -> bool:
    now = _elements(container)
    return len(now) == len(elements) and all(map(operator.is_, now, elements))


def _is_plain(value: Any, depth: int = 0) -> bool:
    kind = type(value)
    return kind in _PLAIN or (
        kind in _DUMPED
        and depth < _DEEPEST
        and len(value) <= _MOST_ELEMENTS
        and all(_is_plain(one, depth + 1) for one in _elements(value))
    )


def _dumped(value: Any) -> bytes | None:
    """The kinds and bits of plain values in lists and tables."""
    if type(value) not in _DUMPED:
        return None
    try:
        return marshal.dumps(value, 2)
    except ValueError:  # something else is in it now
        return None


def _state(value: Any, depth: int = 0) -> Any:
    """Equal for values that are the same to a plan. To Python 1, 1.0 and True are equal, and so are
    -0.0 and 0.0."""
    kind = type(value)
    if kind in _PLAIN:
        return kind, repr(value) if kind in _NUMBERS else value
    if depth < _DEEPEST and isinstance(value, _CONTAINERS) and len(value) <= _MOST_ELEMENTS:
        states = [_state(one, depth + 1) for one in _elements(value)]
        return kind, frozenset(states) if isinstance(value, set | frozenset) else tuple(states)
    if _is_array(value) and value.size <= _MOST_ELEMENTS:
        return kind, value.shape, value.dtype.str, value.tobytes()
    return _Itself(value)
