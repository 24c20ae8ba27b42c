"""Kernel objects: calls of `run` with a name, also for the compiled core."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from core_calls import host, hot, of_kind

import xtarget


@pytest.mark.parametrize("kind", ["NumPy", "torch", "xtarget"])
def test_a_kernel_object_makes_the_call_that_run_makes(core: Any, device: str, kind: str) -> None:
    a = of_kind(kind, np.arange(12, dtype=np.float32), device)
    out = of_kind(kind, np.zeros(12, np.float32), device)
    known = hot(core, "mul", a, a, out=out)
    mul, before = xtarget.get("mul"), core.statistics()
    for _ in range(2):
        assert mul(a, a, out=out) is out
    assert core.statistics()[0] - before[0] == known
    assert core.statistics()[2:] == before[2:]  # the same entry
    assert mul(a, a, **{"".join(("o", "ut")): out}) is out
    np.testing.assert_array_equal(host(out), np.arange(12.0) ** 2)
    np.testing.assert_array_equal(host(mul(*(a, a))), np.arange(12.0) ** 2)


@pytest.mark.parametrize(
    ("args", "options"),
    [((), {}), ((1,), {}), (("x", "y"), {}), (([0.0],) * 40, {}), (([1.0], [2.0]), {"axis": 3})],
)
def test_what_run_refuses_is_refused(args: Any, options: Any) -> None:
    with pytest.raises(xtarget.ArgumentError) as by_name:
        xtarget.run("add", *args, **options)
    with pytest.raises(xtarget.ArgumentError) as by_object:
        xtarget.get("add")(*args, **options)
    assert str(by_object.value) == str(by_name.value)


@pytest.mark.parametrize("run", [print, len, np.array, [].append])
def test_only_what_the_core_runs_is_a_kernel_objects_function(core: Any, run: Any) -> None:
    """A function of another module has no state of the core's."""
    with pytest.raises(TypeError, match="takes the function that `start` gave"):
        core.Kernel(run, "add")


def test_a_kernel_object_is_an_object_like_others() -> None:
    add = xtarget.get("add")
    assert add.name == add.__name__ == "add"
    assert pickle.loads(pickle.dumps(add)) == copy.copy(add) == copy.deepcopy(add) == add
    assert hash(copy.copy(add)) == hash(add)
    assert add != xtarget.get("mul")
    assert weakref.ref(add)() is add
    assert list(inspect.signature(add).parameters)[:2] == ["a", "b"]
    add.note = "mine"
    assert add.note == "mine"
    del add.note
    assert "a + b" in (add.__doc__ or "")


def test_kernel_objects_go_when_nobody_has_them() -> None:
    cls, run = type(xtarget.get("add")), xtarget.run
    gc.collect()
    counts = [sys.getrefcount(one) for one in (cls, run)]
    for _ in range(50):
        made = cls("add")
        made.itself = made  # a cycle
    del made
    gc.collect()
    assert [sys.getrefcount(one) for one in (cls, run)] == counts


def test_layouts_that_take_turns_are_told_apart(core: Any, device: str) -> None:
    """More than the core has lately found, of the same kernels and the same first length."""
    lengths = [1 + number % 60 for number in range(180)]
    calls = [
        (name, np.full((4 + width % 3, length), width, np.float32))
        for width, length in enumerate(lengths)
        for name in ("add", "mul")
    ]
    for turn in range(4):
        for name, x in calls if turn % 2 else reversed(calls):
            made = xtarget.run(name, x, x, device=device)
            np.testing.assert_array_equal(made, x + x if name == "add" else x * x)
    assert core.statistics()[2] <= len(calls)
