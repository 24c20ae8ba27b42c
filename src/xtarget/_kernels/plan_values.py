"""The values that a plan reads beside the call: globals, closure cells, attributes of modules.

A plan is planned once for a class of calls. What it reads of its module may change meanwhile
(`FACTOR = 3`), without its text changing; then it has to be planned again.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from .._values.conditions import all_of

__all__ = ["always", "holds"]

_MISSING = object()
#: What holds a value, the value's name there, and whether it is an item; else it is an attribute.
_Read = tuple[Any, str, bool]
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
#: Functions that are looked into; what is behind more of them is not followed.
_MOST = 200
#: Elements of a list or a table that are compared; of a longer one only which one it is.
_MOST_ELEMENTS = 64
#: Packages whose modules' values do not change. Of our own functions, the closures are followed.
_SETTLED = frozenset(sys.stdlib_module_names - {"__main__"}) | {"numpy", "triton", "xtarget"}


def holds(plan: Callable[..., Any]) -> Callable[[], bool]:
    """A function that tells whether what a plan reads is what it is now."""
    names: dict[str, Any] = {"now": _now, "same": _same}
    conditions: list[str] = []
    seen: dict[int, Any] = {}  # by id; an object that lives has its id alone
    waiting: list[Any] = [plan]
    while waiting and len(seen) < _MOST:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if type(value) is tuple:
            waiting += value[:_MOST_ELEMENTS]
        own = _root(value.func if isinstance(value, functools.partial) else value) == "xtarget"
        for read in _reads(value):
            now = _now(*read)
            if not own:  # what our functions hold stays; it may be a user's function
                conditions.append(_condition(len(conditions), read, now, names))
            waiting += now if type(now) in (tuple, list) else [now]
            waiting += now.values() if type(now) is dict else []

    return all_of(conditions, names) if conditions else always


def always() -> bool:
    """What a plan that reads nothing is: as it was."""
    return True


def _now(holder: Any, name: str, is_item: bool) -> Any:
    try:
        return holder[name] if is_item else getattr(holder, name)
    except (KeyError, ValueError):  # a cell that is not set yet
        return _MISSING


def _condition(number: int, read: _Read, now: Any, names: dict[str, Any]) -> str:
    """The text of the condition that what is read is what it is now."""
    holder, name, is_item = read
    names[f"h{number}"] = holder
    text = f"h{number}[{name!r}]" if is_item else f"h{number}.{name}"
    if now is _MISSING:
        text = f"now(h{number}, {name!r}, {is_item})"
    plain = _is_plain(now)
    names[f"v{number}"] = _copied(now) if plain else now
    if not plain:
        return f"{text} is v{number}"
    by_value = f"same({text}, v{number})"
    return f"({text} is v{number} or {by_value})" if type(now) in _PLAIN else by_value


def _root(function: Any) -> str:
    return (getattr(function, "__module__", None) or "").partition(".")[0]


def _reads(value: Any) -> Iterator[_Read]:
    """The values that a function may read."""
    if isinstance(value, functools.partial):
        yield from ((value, name, False) for name in ("func", "args", "keywords"))
    elif isinstance(value, MethodType):
        yield value, "__func__", False
    elif isinstance(value, FunctionType):
        names = set(_names(value.__code__))
        own = _root(value) in _SETTLED
        for cell in value.__closure__ or ():
            yield cell, "cell_contents", False
            if not own:
                yield from _attributes(_now(cell, "cell_contents", False), names)
        if own:
            return
        for name in sorted(_globals(value.__code__) & value.__globals__.keys()):
            yield value.__globals__, name, True
            yield from _attributes(value.__globals__[name], names)


def _attributes(held: Any, names: set[str], depth: int = 3) -> Iterator[_Read]:
    """Attributes of a module, a class or an object that go by names of a function's code."""
    if isinstance(held, ModuleType):
        settled = held.__name__.partition(".")[0] in _SETTLED
    else:
        settled = isinstance(held, FunctionType) or not hasattr(held, "__dict__")
    if settled or not depth:
        return
    kept = vars(held)
    for name in sorted(names & kept.keys()):
        yield kept, name, True
        yield from _attributes(kept[name], names, depth - 1)


@functools.lru_cache(4096)
def _globals(code: CodeType) -> frozenset[str]:
    """The names that code reads of its module: those of attributes alone (`c.x`) are a program's
    own there, and may be other arrays at each call."""
    import dis  # of no use to a library's own plans

    found = {
        one.argval
        for one in dis.get_instructions(code)
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return frozenset(found).union(
        *(_globals(inner) for inner in code.co_consts if isinstance(inner, CodeType))
    )


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_plain(value: Any) -> bool:
    if type(value) in (tuple, list, set, frozenset):
        return len(value) <= _MOST_ELEMENTS and all(map(_is_plain, value))
    if type(value) is dict and len(value) <= _MOST_ELEMENTS:
        return all(_is_plain(key) and _is_plain(one) for key, one in value.items())
    return type(value) in _PLAIN


def _copied(value: Any) -> Any:
    return (
        type(value)(map(_copied, value))
        if type(value) in (tuple, list)
        else (dict(value) if type(value) is dict else set(value) if type(value) is set else value)
    )


def _same(value: Any, before: Any) -> bool:
    return type(value) is type(before) and bool(value == before)
