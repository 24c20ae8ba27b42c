"""Values that a user's kernel reads and that change while the process runs."""

from __future__ import annotations

import gc
import importlib
import textwrap
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget._kernels import libraries

pytest.importorskip("triton", reason="Triton is not installed here")

import triton
import triton.language as tl

FACTOR = tl.constexpr(2)


@triton.jit
def scale(v):
    return v * FACTOR


@triton.jit
def other(v):
    return v + 100


helper = scale


kernel_of_a_block = partial(
    xtarget.kernel,
    inputs=("x",),
    outputs={"out": "x"},
    constants={"BLOCK": 16},
    grid=lambda c: 1,
)


@kernel_of_a_block(name="test.changed")
@triton.jit
def changed(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, helper(tl.load(x + i)))


def test_a_global_that_changes_is_seen_at_the_next_call(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(16, dtype=np.float32)
    names = changed.fn.__globals__
    for factor in (2, 7, 2, 9):
        monkeypatch.setitem(names, "FACTOR", tl.constexpr(factor))
        for _ in range(2):
            np.testing.assert_array_equal(xtarget.run("test.changed", x, device=device), x * factor)
    monkeypatch.setitem(names, "helper", other)
    np.testing.assert_array_equal(xtarget.run("test.changed", x, device=device), x + 100)
    monkeypatch.undo()
    names["FACTOR"].value = 5
    np.testing.assert_array_equal(xtarget.run("test.changed", x, device=device), x * 5)
    names["FACTOR"].value = 2
    np.testing.assert_array_equal(xtarget.run("test.changed", x, device=device), x * 2)


x = None


@xtarget.kernel(
    name="test.namesake", inputs=("x",), outputs={"out": "x"}, constants={"BLOCK": 16},
    sizes={"n": lambda c: c.x.size}, grid=lambda c: (c.n // 16,),
)  # fmt: skip
@triton.jit
def namesake(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


def test_a_programs_own_array_of_an_arguments_name_is_no_value_of_the_kernel(
    core: Any, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook, where `x` is another array at each call: it is not kept, and nothing is
    planned again."""
    names, kept = namesake.fn.__globals__, []
    for n in (1, 2, 3, *range(4, 24)):
        before = core.statistics()[0]
        monkeypatch.setitem(names, "x", np.arange(16 * n, dtype=np.float32))
        kept.append(weakref.ref(names["x"]))
        found = xtarget.run("test.namesake", xtarget.asarray(names["x"], device=device))
        np.testing.assert_array_equal(found.numpy(), names["x"])
        assert n < 4 or core.statistics()[0] == before + 1
    monkeypatch.undo()
    gc.collect()
    assert not any(one() is not None for one in kept)


def test_a_module_of_a_library_that_changes_is_seen_too(device: str, tmp_path: Path) -> None:
    (tmp_path / "catalog.py").write_text(
        textwrap.dedent("""
        from xtarget.spec import Input, KernelSpec, Launch, Output, Plan

        def plan(call):
            return Plan((call.output(call.args[0].shape, call.args[0].dtype),), (Launch(
                source="mine:lifted", args={"x": Input(0), "out": Output(0)},
                constants={"BLOCK": 16}, grid=(1, 1, 1)),))

        KERNELS = [KernelSpec(name="test.lifted", inputs=("x",), plan=plan)]
        """)
    )
    (tmp_path / "mine.py").write_text(
        textwrap.dedent("""
        import triton
        import triton.language as tl

        LEVEL = tl.constexpr(3)

        @triton.jit
        def lifted(x, out, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            tl.store(out + i, tl.load(x + i) + LEVEL)
        """)
    )
    xtarget.load_library(tmp_path)
    x = np.arange(16, dtype=np.float32)
    np.testing.assert_array_equal(xtarget.run("test.lifted", x, device=device), x + 3)
    library = libraries._libraries[tmp_path.resolve()]
    module: Any = importlib.import_module(f"{library.package}.mine")
    for level in (8, 3, 4):
        module.LEVEL = tl.constexpr(level)
        np.testing.assert_array_equal(xtarget.run("test.lifted", x, device=device), x + level)


@triton.jit
def shifted(x, out, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    top = tl.load(x + i).to(tl.int32) + 2147483647
    tl.store(out + i, (top + K).to(tl.float32))


@triton.jit
def inverse(x, out, K: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), 1.0 / tl.full((BLOCK,), K, tl.float32))


def test_constants_that_python_calls_equal_are_other_constants(device: str) -> None:
    x = np.zeros(16, np.float32)
    cases = [
        *((shifted, 1, -(2.0**31)), (shifted, 1.0, 2.0**31), (shifted, 1, -(2.0**31))),
        *((inverse, 0.0, np.inf), (inverse, -0.0, -np.inf)),
    ]
    for fn, constant, expected in cases:
        xtarget.kernel(
            inputs=("x",),
            outputs={"out": "x"},
            constants={"K": constant, "BLOCK": 16},
            grid=lambda c: 1,
            name="test.typed",
        )(fn)
        result = xtarget.run("test.typed", x, device=device)
        np.testing.assert_array_equal(result, np.full(16, expected, np.float32))


class Settings:
    """Read where a kernel is compiled."""

    level = 3

    def __init__(self) -> None:
        self._extra = 4

    @property
    def extra(self) -> int:
        return self._extra


SETTINGS = Settings()


@triton.constexpr_function
def total():
    return Settings.level + SETTINGS.extra + len("abc")


@kernel_of_a_block(name="test.settings")
@triton.jit
def settings(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + total())


def test_attributes_of_classes_and_what_shadows_a_builtin_are_seen(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(16, dtype=np.float32)

    def added() -> float:
        result = xtarget.run("test.settings", x, device=device) - x
        assert (result == result[0]).all()
        return float(result[0])

    assert added() == 10
    monkeypatch.setattr(Settings, "level", 5)
    assert added() == 12
    monkeypatch.setattr(SETTINGS, "_extra", 1)
    assert added() == 9
    monkeypatch.setitem(globals(), "len", lambda text: 100)
    assert added() == 106
    monkeypatch.undo()
    assert added() == 10
