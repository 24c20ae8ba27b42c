"""A plan holds as long as everything that it reads beside its call is what it was."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from xtarget._kernels import libraries
from xtarget._kernels.plan_values import Reads, always, reads_of


class _Kept:
    factor = 2.0

    def __init__(self) -> None:
        self._own = 2.0

    @property
    def computed(self) -> float:
        return self._own

    def asked(self) -> float:
        return self._own


@dataclass(slots=True)
class _Slotted:
    factor: float = 2.0


def _set(holder: Any, key: Any, value: Any) -> Callable[[], None]:
    return lambda: holder.__setitem__(key, value)


def _factor_of(held: Any) -> Any:
    return held.factor


def _with_default(held: Any = (2.0,)) -> Any:
    return held[0]


def _changes() -> dict[str, tuple[Callable[[], Any], Callable[[], None]]]:
    """By what is changed: a plan that reads it, and the change."""
    slotted, kept, space = _Slotted(), _Kept(), types.SimpleNamespace(factor=2.0)
    own: type[_Kept] = type("Own", (_Kept,), {})
    of_class, array = own(), np.array([2.0])
    ordered, defaults = collections.OrderedDict(k=2.0), collections.defaultdict(float, k=2.0)
    nested, lists, queue = {"a": {"k": 2.0}}, {"a": [2.0]}, collections.deque([2.0])
    objects, table, zeros, ones = [_Slotted()], {"f": _factor_of}, [0.0], [1]
    arrays, mixed = {"a": np.array([2.0])}, {"f": len, "l": ([2.0],)}
    default = types.FunctionType(_with_default.__code__, {}, "default", ((2.0,),))
    code = types.FunctionType(_factor_of.__code__, {}, "code")
    return {
        "slot": (lambda: slotted.factor, lambda: setattr(slotted, "factor", 3.0)),
        "class": (lambda: of_class.factor, lambda: setattr(own, "factor", 3.0)),
        "property": (lambda: kept.computed, lambda: setattr(kept, "_own", 3.0)),
        "method": (lambda: kept.asked(), lambda: setattr(kept, "_own", 3.0)),
        "replaced method": (lambda: of_class.asked(), lambda: setattr(own, "asked", len)),
        "given to another": (lambda: _factor_of(space), lambda: setattr(space, "factor", 3.0)),
        "OrderedDict": (lambda: ordered["k"], _set(ordered, "k", 3.0)),
        "defaultdict": (lambda: defaults["k"], _set(defaults, "k", 3.0)),
        "table in a table": (lambda: nested["a"]["k"], _set(nested["a"], "k", 3.0)),
        "list in a table": (lambda: lists["a"][0], _set(lists["a"], 0, 3.0)),
        "deque": (lambda: queue[0], _set(queue, 0, 3.0)),
        "array": (lambda: array[0], _set(array, 0, 3.0)),
        "array in a table": (lambda: arrays["a"][0], _set(arrays["a"], 0, 3.0)),
        "list in a table of functions": (lambda: mixed["l"][0][0], _set(mixed["l"][0], 0, 3.0)),
        "more in a table": (lambda: len(table), _set(table, "g", len)),
        "object in a list": (
            lambda: objects[0].factor,
            lambda: setattr(objects[0], "factor", 3.0),
        ),
        "another object": (lambda: objects[0].factor, _set(objects, 0, _Slotted())),
        "function in a table": (lambda: table["f"](space), _set(table, "f", len)),
        "sign of zero": (lambda: zeros[0], _set(zeros, 0, -0.0)),
        "kind": (lambda: ones[0], _set(ones, 0, True)),
        "default": (lambda: default(), lambda: setattr(default, "__defaults__", ((3.0,),))),
        "code": (lambda: code(space), lambda: setattr(code, "__code__", (lambda h: 3.0).__code__)),
    }


@pytest.mark.parametrize("what", _changes())
def test_a_change_of_what_a_plan_reads_is_seen(what: str) -> None:
    plan, change = _changes()[what]
    same = Reads(plan).holds
    assert same()
    assert same()
    change()
    assert not same()
    assert Reads(plan).holds()


def test_what_holds_itself_is_looked_at_once() -> None:
    around: list[Any] = [1.0]
    around.append(around)
    same = Reads(lambda: around[0]).holds
    assert same()
    around[0] = 2.0
    assert not same()


def test_what_a_plan_notes_is_nothing_that_it_reads() -> None:
    seen: list[int] = []
    factors = [2.0]

    def plan() -> float:
        seen.append(1)
        return factors[0]

    reads = Reads(plan)
    plan()
    assert not reads.holds()
    reads.leave_own()
    assert reads.holds()
    plan()
    assert reads.holds()
    factors[0] = 3.0
    assert not reads.holds()


_calls = 0


def test_what_a_plan_counts_is_nothing_that_it_reads() -> None:
    made, kept, factor, first = 0, types.SimpleNamespace(calls=0), 2.0, None

    def plan() -> Any:
        global _calls
        nonlocal made, first
        _calls += 1
        made += 1
        kept.calls += 1
        first = factor if first is None else first
        return factor

    for _ in range(2):  # the first one makes what was None
        reads = Reads(plan)
        plan()
        assert not reads.holds()
        reads.leave_own()
    assert reads.holds()
    plan()
    assert reads.holds()
    factor = 3.0
    assert not reads.holds()


def test_what_others_set_meanwhile_is_seen() -> None:
    kept = types.SimpleNamespace(factor=2.0)
    reads = Reads(lambda: kept.factor)
    kept.factor = 3.0
    reads.leave_own()
    assert not reads.holds()


def test_what_array_libraries_have_themselves_is_not_looked_at() -> None:
    theirs: Any = type("Module", (), {"__module__": "torch.nn", "scale": 2.0})
    layer: Any = type("Layer", (theirs,), {"__module__": __name__})()
    layer.bias = 1.0
    reads = Reads(lambda: (layer.scale, layer.bias))
    theirs.scale = 3.0
    assert reads.holds()
    layer.bias = 2.0
    assert not reads.holds()


def test_of_our_own_library_nothing_is_looked_at() -> None:
    assert reads_of(libraries.find("matmul")).holds is always
