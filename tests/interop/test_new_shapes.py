"""Calls of shapes never seen: the plan does not run for each of them, and they are right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl

import xtarget
from xtarget._launch import run as launching
from xtarget.spec import cdiv


@pytest.fixture(autouse=True)
def _on_device(device: str) -> None:
    """Calls that name no device run there."""


@triton.jit
def _scaled(x, out, n, by, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) * by, mask=m)


class Asked:
    """For which lengths a plan ran. (A list in the plan itself would be a value that changes.)"""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def note(self, length: Any) -> None:
        self.lengths.append(int(getattr(length, "value", length)))


def scaled(name: str, by: Any, asked: Asked) -> None:
    """Register a kernel that multiplies by `by(n)`, and notes each time that it is planned."""

    def grid(c: Any) -> Any:
        asked.note(c.n)
        return (cdiv(c.n, c.BLOCK),)

    xtarget.kernel(
        inputs=("x",),
        outputs={"out": "x"},
        sizes={"n": lambda c: c.x.size, "by": lambda c: by(c.n)},
        constants={"BLOCK": 256},
        grid=grid,
        name=name,
    )(_scaled)


def check(name: str, by: Any, lengths: Any) -> None:
    for n in lengths:
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(xtarget.run(name, x), x * by(n))


@pytest.mark.parametrize(
    ("by", "most"),
    [
        (lambda n: 3, 12),
        (lambda n: n % 5 + 1, 12),
        (lambda n: cdiv(n, 100), 12),
        (lambda n: 2 if n > 700 else 3, 20),
        (lambda n: min(n, 900), 20),
        (lambda n: n.bit_length(), 12),
    ],
)
def test_a_plan_runs_for_each_class_and_not_for_each_shape(
    by: Any, most: int, request: pytest.FixtureRequest
) -> None:
    name = f"test.new_shapes.{request.node.callspec.id}"
    asked = Asked()
    scaled(name, by, asked)
    check(name, by, range(500, 1000))
    assert len(asked.lengths) <= most, asked.lengths


@pytest.mark.parametrize(
    "by",
    [
        lambda n: int(n) + 1,
        lambda n: len(range(n)) % 7 + 1,
        lambda n: {600: 5, 601: 7}.get(n, 2),
        lambda n: math.isqrt(n),
        lambda n: round(math.log2(n)),
        lambda n: len(f"{n:b}"),
        lambda n: int(np.int64(n) // 3),
        lambda n: [1, 2, 3, 4][n % 4],
    ],
)
def test_a_plan_that_needs_numbers_stays_right(by: Any, request: pytest.FixtureRequest) -> None:
    name = f"test.new_shapes.numbers.{request.node.callspec.id}"
    scaled(name, by, Asked())
    check(name, by, [*range(500, 700), *range(550, 650)])


def test_a_shape_never_seen_is_checked_as_any_other() -> None:
    memory = np.zeros(5000, np.float32)
    for n in range(1000, 1100):  # seen: lengths of this class
        xtarget.run("add", memory[:n], memory[:n], out=memory[2000 : 2000 + n])
    with pytest.raises(xtarget.ArgumentError, match="overlaps argument 2"):
        xtarget.run("add", memory[3300:4500], memory[1000:2200], out=memory[2000:3200])
    with pytest.raises(xtarget.ArgumentError, match="do not broadcast"):
        xtarget.run("add", memory[:1201], memory[:1200])
    with pytest.raises(xtarget.ArgumentError, match=r"out has shape \(1203,\)"):
        xtarget.run("add", memory[:1202], memory[:1202], out=memory[2000:3203])


def test_a_shape_is_bound_when_it_comes_again() -> None:
    """The first time it is served by its class and is not kept; all times it is right."""
    run = launching._run_in_python  # the compiled core keeps classes
    memory = np.arange(4000, dtype=np.float32)
    for n in (2000, 2002, *range(2003, 2100, 2)):  # both classes: multiples of 16, and others
        run("mul", memory[:n], 2.0)
    kept = len(launching._calls)
    for n in range(2201, 2301, 2):
        np.testing.assert_array_equal(run("mul", memory[:n], 3.0), memory[:n] * 3)
    assert len(launching._calls) == kept
    for n in range(2201, 2301, 2):
        for factor in (4.0, 5.0):
            out = run("mul", memory[:n], factor)
            np.testing.assert_array_equal(out, memory[:n] * factor)
    assert len(launching._calls) > kept


def test_a_kernel_that_replaces_another_serves_shapes_never_seen() -> None:
    scaled("test.new_shapes.replaced", lambda n: 2, Asked())
    check("test.new_shapes.replaced", lambda n: 2, range(300, 320))
    scaled("test.new_shapes.replaced", lambda n: 5, Asked())
    check("test.new_shapes.replaced", lambda n: 5, range(320, 340))


def test_a_replaced_kernel_is_not_served_under_another_of_its_names() -> None:
    for factor in (2, 5):
        scaled("replaced_under_each_name", lambda n, factor=factor: factor, Asked())
        for name in ("replaced_under_each_name", "np.replaced_under_each_name"):
            check(name, lambda n, factor=factor: factor, (400, 400, 401))


def _times_factor(n: int) -> int:
    return FACTOR * TABLE[0] * Settings.inner.factor


class Inner:
    def __init__(self) -> None:
        self.factor = 1


class Settings:
    inner = Inner()


FACTOR = 2
TABLE = [1]


@pytest.mark.parametrize("seen", [True, False])
def test_a_plan_that_reads_a_value_which_changes(
    monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    """A global, an element of a list, a closure cell, an attribute: each changes, no text does."""
    cell = 1
    name = f"test.new_shapes.changed.{seen}"
    scaled(name, lambda n: _times_factor(n) * cell, Asked())

    def run(times: int, n: int) -> None:
        n = 400 if seen else n
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(xtarget.run(name, x), x * times)

    run(2, 400)
    run(2, 401)
    monkeypatch.setitem(globals(), "FACTOR", 3)
    run(3, 402)
    TABLE[0] = 5
    run(15, 403)
    cell = 7
    run(105, 404)
    TABLE[0] = 1
    run(21, 405)
    monkeypatch.setattr(Settings.inner, "factor", 2)
    run(42, 406)


@pytest.mark.parametrize("where", ["cpu", "emu:gfx942"])
def test_random_shapes_of_many_kernels(where: str) -> None:
    """On a device that uses the host's memory, and on one that copies."""
    try:
        xtarget.device(where)
    except xtarget.NoDeviceError as error:
        pytest.skip(str(error))
    rng = np.random.default_rng(5)
    for _ in range(200 if where == "cpu" else 12):
        rows, columns = (int(n) for n in rng.integers(1, 300 if where == "cpu" else 40, 2))
        x = rng.standard_normal((rows, columns)).astype(np.float32)
        views = (x, x.T, x[:, ::2], x[::-1], np.broadcast_to(x[:1], x.shape))
        view = views[rng.integers(len(views))]
        np.testing.assert_allclose(
            xtarget.run("sum", view, axis=1, device=where), view.sum(1), rtol=2e-4, atol=2e-4
        )
        np.testing.assert_array_equal(xtarget.run("add", view, view, device=where), view + view)
        out = np.full((view.shape[0], view.shape[1] + 3), 7, np.float32)
        xtarget.run("mul", view, 2.0, out=out[:, 1:-2], device=where)
        np.testing.assert_array_equal(out[:, 1:-2], view * 2)
        assert (out[:, :1] == 7).all()
        assert (out[:, -2:] == 7).all()
        product = (
            xtarget.run("matmul", view, x[: view.shape[1], :5].copy(), device=where)
            if (view.shape[1] <= x.shape[0])
            else None
        )
        if product is not None:
            np.testing.assert_allclose(product, view @ x[: view.shape[1], :5], rtol=2e-3, atol=2e-3)
