"""Kernels that were unloaded: the compiled core has a class's code loaded again, and holds none
that is gone. The CPU's functions stand for a driver's."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")
pytest.importorskip("pyopencl", reason="the CPU's functions are called")

import cpu_entries
from core_calls import made
from cpu_entries import Entries
from threads import in_threads

import xtarget
from xtarget._compile import functions
from xtarget._launch import run as launching
from xtarget.targets.cpu.device import CpuDevice

#: Of x and 3.
RIGHT = {
    "add": lambda x: x + 3,
    "mul": lambda x: x * 3,
    "sub": lambda x: x - 3,
    "maximum": lambda x: np.maximum(x, 3),
    "minimum": lambda x: np.minimum(x, 3),
}


@pytest.fixture
def entries(core: Any, monkeypatch: pytest.MonkeyPatch) -> Entries:
    """All code may be unloaded, and two kernels stay."""
    monkeypatch.setenv("XTARGET_MODULES", "2")
    functions._functions.clear()
    found = cpu_entries.in_place(monkeypatch)
    found.stays = False
    return found


def right(name: str, n: int) -> bool:
    x = np.arange(n, dtype=np.float32)
    given, three = (xtarget.asarray(v, device="cpu") for v in (x, np.full(n, 3, np.float32)))
    out = xtarget.asarray(np.zeros(n, np.float32), device="cpu")
    xtarget.run(name, given, three, out=out)
    return bool((out.numpy() == RIGHT[name](x)).all())


def test_the_core_has_code_loaded_again(core: Any, entries: Entries) -> None:
    for n in (100, 116):  # the first calls of each are Python's
        assert all(right(name, n) for name in RIGHT)
    for n in (100, 132, 148, 1012):
        for name in RIGHT:
            before, launches = made(core), len(entries.grids)
            assert right(name, n)
            assert (made(core), len(entries.grids)) == (before + 1, launches + 1)
    assert len(functions._functions) == 2


def test_no_code_that_is_gone_is_held(
    core: Any, entries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules, load = [], CpuDevice.load

    def noted(self: Any, *args: Any) -> Any:
        modules.append(weakref.ref(made := load(self, *args)))
        return made

    monkeypatch.setattr(CpuDevice, "load", noted)
    for n in (100, 116, 132, 100, 132, 100):
        assert all(right(name, n) for name in RIGHT)
    gc.collect()
    assert len(modules) >= 6 * len(RIGHT)
    assert sum(module() is not None for module in modules) == 2


def test_what_cannot_be_loaded_again_is_said_and_the_next_call_is_right(
    core: Any, entries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (100, 116, 132):
        assert all(right(name, n) for name in RIGHT)
    load = CpuDevice.load

    def refused(self: Any, *args: Any) -> Any:
        raise xtarget.LoadError("the run time refuses it")

    monkeypatch.setattr(CpuDevice, "load", refused)
    with pytest.raises(xtarget.LoadError, match="the run time refuses it"):
        right("add", 148)

    def interrupted(self: Any, *args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(CpuDevice, "load", interrupted)
    with pytest.raises(KeyboardInterrupt):
        right("add", 148)
    monkeypatch.setattr(CpuDevice, "load", load)
    assert all(right(name, n) for n in (148, 100) for name in RIGHT)


def test_threads_call_what_others_have_unloaded(core: Any, entries: Entries) -> None:
    wrong: list[tuple[int, str]] = []

    def work(number: int) -> None:
        for turn in range(8):
            for name in RIGHT:
                if not right(name, 100 + 16 * number + turn):
                    wrong.append((number, name))
            if number == 0 and turn == 4:
                launching.forget_calls()

    in_threads(work, range(3))
    assert not wrong


def test_where_the_driver_declines_python_launches_what_was_loaded_again(
    core: Any, entries: Entries
) -> None:
    for n in (100, 116, 132):
        assert all(right(name, n) for name in RIGHT)
    entries.before = lambda given: 1
    launches = len(entries.grids)
    for n in (148, 164):
        assert all(right(name, n) for name in RIGHT)
    assert len(entries.grids) == launches
    assert len(functions._functions) == 2
