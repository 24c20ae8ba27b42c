"""Calls of shapes never seen, made by the compiled core: what serves their class says how."""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import cpu_entries
import triton
import triton.language as tl
from core_calls import KINDS, TWIN, check_while_forgotten, host, made, of_kind

import xtarget
from xtarget import ArgumentError
from xtarget._launch import run as launching
from xtarget.spec import cdiv


def in_place(kind: str, device: str) -> bool:
    return kind != "NumPy" or xtarget.device(device).info.host_memory


@pytest.mark.parametrize("given_out", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_shape_never_seen_is_the_cores(
    core: Any, device: str, kind: str, given_out: bool
) -> None:
    values = np.arange(5000, dtype=np.float32)
    memory, result = of_kind(kind, values, device), of_kind(kind, 0 * values, device)
    lengths = [*range(1001, 1041), 4096, 17, 3000]
    for n in (999, 992):  # a multiple of 16 has other code
        named = {"out": result[:n]} if given_out else {}
        xtarget.run("mul", memory[:n], 2.0, **named)
    before = made(core)
    for n in lengths:
        named = {"out": result[:n]} if given_out else {}
        found = xtarget.run("mul", memory[:n], 2.0, **named)
        np.testing.assert_array_equal(host(found), values[:n] * 2)
        assert not given_out or found is named["out"]
    assert made(core) - before == (len(lengths) if in_place(kind, device) else 0)


def test_a_layout_that_comes_often_has_an_entry_of_its_own(core: Any, device: str) -> None:
    x, out = (xtarget.asarray(np.ones(64, np.float32), device=device) for _ in range(2))
    for _ in range(12):
        xtarget.run("add", x, x, out=out)
    assert core.statistics()[2:] == (1, 1)
    np.testing.assert_array_equal(host(out), 2)


def test_views_never_seen_are_what_python_makes_of_them(core: Any, device: str) -> None:
    """Strides are among the sizes: negative ones, and those of 0."""
    rng = np.random.default_rng(11)
    in_core = xtarget.device(device).info.host_memory
    before = made(core)
    for _ in range(100 if in_core else 20):
        rows, columns = (int(n) for n in rng.integers(2, 70, 2))
        x = rng.standard_normal((rows, 2 * columns)).astype(np.float32)
        views = (x[:, :columns], x[:, ::2], x[::-1, :columns], x.T[:columns])
        view = views[rng.integers(len(views))]
        other = np.broadcast_to(view[:1], view.shape)
        expected = TWIN("add", view, other)
        np.testing.assert_array_equal(expected, view + other)
        np.testing.assert_array_equal(xtarget.run("add", view, other), expected)
        out = np.full((view.shape[0], view.shape[1] + 3), 7, np.float32)
        xtarget.run("add", view, other, out=out[:, 1:-2])
        np.testing.assert_array_equal(out[:, 1:-2], expected)
        assert (out[:, :1] == 7).all()
        assert (out[:, -2:] == 7).all()
    assert made(core) - before > (100 if in_core else -1)


def test_what_does_not_fit_is_refused_for_shapes_never_seen(core: Any, device: str) -> None:
    memory = xtarget.asarray(np.zeros(5000, np.float32), device=device)
    for n in range(1001, 1020):
        xtarget.run("add", memory[:n], memory[:n], out=memory[2000 : 2000 + n])
    assert made(core)
    with pytest.raises(ArgumentError, match="overlaps argument 2"):
        xtarget.run("add", memory[3301:4502], memory[1001:2202], out=memory[2001:3202])
    with pytest.raises(ArgumentError, match="do not broadcast"):
        xtarget.run("add", memory[:1201], memory[:1203], out=memory[2000:3203])
    with pytest.raises(ArgumentError, match=r"out has shape \(1203,\)"):
        xtarget.run("add", memory[:1202], memory[:1202], out=memory[2000:3203])


@triton.jit
def _stretched(x, out, n, by, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * by, mask=i < n)


FACTOR = 3


def test_a_value_that_a_plan_reads_is_heeded(
    core: Any, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    xtarget.kernel(
        inputs=("x",),
        outputs={"out": "x"},
        sizes={"n": lambda c: c.x.size, "by": lambda c: FACTOR},
        constants={"BLOCK": 256},
        grid=lambda c: (cdiv(c.n, c.BLOCK),),
        name="test.core_classes.factor",
    )(_stretched)
    values = np.arange(900, dtype=np.float32)
    for factor in (3, 5, 3, 4):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for n in range(401, 421):
            found = xtarget.run("test.core_classes.factor", values[:n], device=device)
            np.testing.assert_array_equal(found, values[:n] * factor)


def test_a_launch_by_a_drivers_entry_has_the_grid_and_the_sizes_of_its_call(
    core: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = cpu_entries.in_place(monkeypatch)
    device, launched = entries.device, entries.grids
    values = np.arange(90_000, dtype=np.float32).reshape(300, 300)
    x, result = (xtarget.asarray(v, device="cpu") for v in (values, values))
    row, scaled = (xtarget.asarray(v.reshape(-1), device="cpu") for v in (values, values))
    half = np.ones(3000, np.float16)
    halves, halved = (xtarget.asarray(half, device="cpu") for _ in range(2))
    rng = np.random.default_rng(3)
    for _ in range(60):
        rows, columns = (int(n) for n in rng.integers(1, 300, 2))
        out = result[:rows, :columns]
        xtarget.run("add", x[:rows, :columns], x[:1, :columns], out=out)
        device.synchronize()
        np.testing.assert_array_equal(
            np.asarray(result)[:rows, :columns], values[:rows, :columns] + values[:1, :columns]
        )
        flat = int(rng.integers(1, 90_000))
        xtarget.run("mul", row[:flat], 2.5, out=scaled[:flat])
        device.synchronize()
        np.testing.assert_array_equal(
            np.asarray(scaled)[:flat], values.reshape(-1)[:flat] * np.float32(2.5)
        )
        number = float(
            rng.choice((1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-40, 7e4, 3e-8, -0.0))
        )
        flat = int(rng.integers(1, 3000))
        xtarget.run("mul", halves[:flat], number, out=halved[:flat])
        device.synchronize()
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(
                np.asarray(halved)[:flat], half[:flat] * np.float16(number)
            )
    assert len(set(launched)) > 8
    assert made(core) >= len(launched) > 120
    launching.forget_calls()


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_ever_new_shapes_leave_nothing_behind(core: Any, device: str) -> None:
    if not xtarget.device(device).info.host_memory:
        pytest.skip(f"{device} copies the host's arrays, which is Python's")
    x, out = np.ones(60_000, np.float32), np.empty(60_000, np.float32)

    def calls(first: int, last: int) -> None:
        for n in range(first, last):
            xtarget.run("add", x[:n], x[:n], out=out[:n], device=device)

    calls(1, 4000)
    gc.collect()
    before, known = resident(), core.statistics()[2:]
    calls(4000, 14_000)
    gc.collect()
    assert resident() - before < 1 << 20
    assert core.statistics()[2:] == known


def test_threads_make_calls_of_new_shapes_while_all_is_forgotten(core: Any, device: str) -> None:
    memory = [np.full(2000, number, np.float32) for number in range(4)]

    def right(number: int, n: int) -> bool:
        out = np.empty(n + number, np.float32)
        xtarget.run("add", memory[number][: n + number], n, out=out, device=device)
        return bool((out == number + n).all())

    check_while_forgotten(right, range(1, 400), 40)
