"""The bound calls that `run` knows, and when they are forgotten."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from .. import _core
from .._compile import residency
from .._devices import registry
from .._kernels import libraries, tunings
from ..targets.base import Function
from .call import BoundCall
from .classes import Classes

__all__ = [
    "calls",
    "checked",
    "classes",
    "first_time",
    "forget",
    "forget_calls",
    "remember",
]

#: Bound calls by kernel, layouts and options. Bounded: a server that sees ever new shapes binds
#: again after this many, which costs microseconds, not compilations.
calls: dict[Hashable, BoundCall] = {}
_MOST_CALLS = 8192
#: Those whose kernels are asked at each call whether values that they read were changed: users'
#: kernels, once they are imported. They are not in `calls`, so that other calls pay nothing.
checked: dict[Hashable, BoundCall] = {}
#: What serves calls of layouts that were never seen.
classes = Classes()
#: Hashes of keys that were seen once. A call is kept when it comes again.
_seen: set[int] = set()
_MOST_SEEN = 8192
#: What a forked child keeps of its parent's, and never uses.
_kept: list[list[Any]] = []
#: The compiled core, which remembers calls too; None: there is none.
_native = _core.native()


def first_time(key: Hashable) -> bool:
    """Whether a call was not seen before; it counts as seen from now on."""
    number = hash(key)
    if number in _seen:
        return False
    if len(_seen) >= _MOST_SEEN:
        _seen.clear()
    _seen.add(number)
    return True


def remember(key: Hashable, call: BoundCall) -> BoundCall:
    table = checked if call.checks else calls
    if len(table) >= _MOST_CALLS:
        for oldest in list(table)[: _MOST_CALLS // 2]:
            table.pop(oldest, None)
        _forget_natively()
    table[key] = call
    return call


def forget(kernel: str) -> None:
    """A kernel that was replaced must not be served from here, whatever name it was called by."""
    for table in (calls, checked):
        for key in [k for k, call in list(table.items()) if call.name == kernel]:
            table.pop(key, None)
    classes.drop(lambda entry: entry.call.name == kernel)
    _forget_natively()


def _forget_natively() -> None:
    """The core knows no call that is not known here."""
    if _native is not None:
        _native.forget()


def _unload(gone: list[Function]) -> None:
    """Let go of functions that are to be unloaded; who needs one again has it loaded again."""
    numbers = {id(function) for function in gone}
    for table in (calls, checked):
        for key in [k for k, call in list(table.items()) if call.launches_any(numbers)]:
            table.pop(key, None)
    classes.unload(numbers)
    _seen.clear()  # the next of each is served by its class, which takes half of the time
    if _native is not None:
        codes = (getattr(function, "code", None) for function in gone)
        _native.unload(tuple(code for code in codes if code is not None))


def forget_calls() -> None:
    """Drop all bound calls, and with them the kernels that nothing else uses."""
    for table in (calls, checked):
        table.clear()
    _seen.clear()
    classes.drop(lambda entry: True)
    _forget_natively()


def _in_forked_child() -> None:
    _kept.append([*calls.values(), *checked.values(), *classes.entries()])
    forget_calls()


def _drop_calls(device: str) -> None:
    for table in (calls, checked):
        for key in [k for k, call in list(table.items()) if call.device.info.name == device]:
            table.pop(key, None)
    classes.drop(lambda entry: entry.call.device.info.name == device)
    _forget_natively()


libraries.on_change.append(forget)
tunings.on_change.append(forget_calls)
residency.on_forget.append(_unload)
registry.after_fork.append(_in_forked_child)
registry.on_lost.append(_drop_calls)
