"""Hooks and profiles: what is told of calls and launches, and that calls stay as they are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from threads import in_threads

import xtarget
from xtarget import ArgumentError
from xtarget._launch import observe, run


def ones(value: float = 1.0, n: int = 500) -> Any:
    return np.full(n, value, np.float32)


@pytest.fixture(autouse=True)
def _nobody_stays() -> Iterator[None]:
    yield
    assert observe.present() == ()
    assert run.observed is None


# ------------------------------------------------------------------------------------------ hooks


def test_hooks_are_called_around_a_launch(device: str) -> None:
    told: list[Any] = []
    out = ones()
    with xtarget.hooks.add(
        enter=lambda launch: told.append(("enter", launch, launch.seconds)),
        exit=lambda launch: told.append(("exit", launch, launch.seconds)),
    ):
        assert xtarget.run("add", ones(2), ones(3), out=out) is out
    xtarget.run("add", ones(), ones())
    assert (out == 5).all()
    assert [what for what, *_ in told] == ["enter", "exit"]
    launch = told[0][1]
    assert launch is told[1][1]
    assert (launch.kernel, launch.device, launch.error) == ("add", device, None)
    assert launch.layouts == "float32 1d, float32 1d, out float32 1d"
    assert launch.entry
    assert launch.target == str(xtarget.device(device).info.target)
    assert min(launch.grid) >= 1
    assert min(launch.block) >= 1
    assert told[0][2] == 0 < told[1][2]


def test_each_launch_of_a_call_is_told_and_prepared_ones_too(device: str) -> None:
    told: list[Any] = []
    launch = xtarget.get("add").prepare(ones(2), ones(3))
    with xtarget.hooks.add(enter=told.append):
        assert (launch() == 5).all()
        assert (xtarget.get("softmax")(ones(0, 8).reshape(2, 4), axis=1) == 0.25).all()
    assert launch() is launch.out
    assert [record.kernel for record in told] == ["add", "softmax"]
    assert told[1].layouts == "float32 2d; axis=1"


def test_a_hook_that_raises_is_told_once(device: str, caplog: Any) -> None:
    def wrong(launch: Any) -> None:
        raise ValueError("of the hook")

    told: list[Any] = []
    with (
        caplog.at_level(logging.WARNING, "xtarget"),
        xtarget.hooks.add(enter=wrong, exit=wrong),
        xtarget.hooks.add(enter=told.append),
    ):
        for _ in range(3):
            assert (xtarget.run("add", ones(2), ones(3)) == 5).all()
    assert len(told) == 3
    said = [record.getMessage() for record in caplog.records if record.name == "xtarget"]
    assert len(said) == 1
    assert "of the hook" in said[0]
    assert "The launch goes on" in said[0]


def test_an_interrupt_in_a_hook_is_nobodys_error(device: str) -> None:
    def interrupted(launch: Any) -> None:
        raise KeyboardInterrupt

    with xtarget.hooks.add(exit=interrupted), pytest.raises(KeyboardInterrupt):
        xtarget.run("add", ones(), ones())
    assert (xtarget.run("add", ones(), ones()) == 2).all()


def test_calls_in_a_hook_are_not_told(device: str) -> None:
    told: list[Any] = []

    def launches(launch: Any) -> None:
        told.append(launch.kernel)
        assert (xtarget.run("mul", ones(2), ones(3)) == 6).all()

    with xtarget.hooks.add(enter=launches, exit=launches):
        xtarget.run("add", ones(), ones())
    assert told == ["add", "add"]


def test_a_launch_that_fails_is_told(device: str) -> None:
    told: list[Any] = []
    with xtarget.hooks.add(enter=told.append), pytest.raises(ArgumentError):
        xtarget.run("add", ones(), "x")
    assert told == []  # nothing was launched

    launch = xtarget.get("add").prepare(ones(), ones())
    found = launch._held.found

    def failing(values: Any, stream: Any) -> None:
        raise OSError("of the driver")

    from dataclasses import replace

    found.call._launches = tuple(replace(one, prepared=failing) for one in found.call._launches)
    try:
        with xtarget.hooks.add(exit=told.append), pytest.raises(OSError, match="driver"):
            launch()
    finally:
        run.forget_calls()  # nobody else gets the broken call
    assert isinstance(told[0].error, OSError)


@pytest.mark.parametrize("wrong", [{}, {"enter": 3}, {"exit": "f"}, {"enter": None}])
def test_what_is_no_hook_is_refused(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match=r"hooks\.add"):
        xtarget.hooks.add(**wrong)


def test_hooks_are_removed_each_and_all(device: str) -> None:
    told: list[Any] = []
    one = xtarget.hooks.add(enter=told.append)
    xtarget.hooks.add(enter=told.append)
    one.remove()
    one.remove()
    xtarget.run("add", ones(), ones())
    assert len(told) == 1
    xtarget.hooks.clear()
    xtarget.run("add", ones(), ones())
    assert len(told) == 1


def test_hooks_of_threads_are_told_their_own_thread(device: str) -> None:
    told: list[tuple[int, int]] = []

    def note(launch: Any) -> None:
        told.append((launch.thread, threading.get_native_id()))

    def work(number: int) -> None:
        for _ in range(20):
            assert (xtarget.run("add", ones(number), ones(1)) == number + 1).all()

    with xtarget.hooks.add(enter=note):
        in_threads(work, range(4))
    assert len(told) == 80
    assert all(given == own for given, own in told)


# --------------------------------------------------------------------------------------- profiles


def test_a_profile_counts_by_kernel_and_class(device: str) -> None:
    k = xtarget.get("add")
    launch = k.prepare(ones(), ones())
    with xtarget.profile() as p:
        for n in (10, 20, 30):
            k(ones(1, n), ones(1, n))
        launch()
        xtarget.run("add", ones(1, 20)[::2], ones(1, 10))
        xtarget.run("mul", ones(), 2.0)
    k(ones(), ones())
    rows = {(row.kernel, row.layouts): row for row in p.rows}
    assert {key: row.calls for key, row in rows.items()} == {
        ("add", "float32 1d, float32 1d"): 4,
        ("add", "float32 1d strided, float32 1d"): 1,
        ("mul", "float32 1d, float"): 1,
    }
    for row in rows.values():
        assert row.device == device
        assert row.host_us >= row.calls * row.host_least_us * 0.999 > 0
        if row.device_us is not None:
            assert row.launches == row.calls
            assert row.device_us >= row.launches * (row.device_least_us or 0) * 0.999
    text = str(p)
    assert "float32 1d strided" in text
    assert len({line.index("host") for line in text.splitlines()[:1]}) == 1
    assert p.as_dict()["rows"][0]["kernel"] in ("add", "mul")


def test_a_device_with_events_tells_times(device: str) -> None:
    x = xtarget.asarray(ones(1, 100_000), device=device)
    with xtarget.profile() as p:
        for _ in range(200):
            xtarget.run("mul", x, 2.0)
    (row,) = p.rows
    assert row.launches == row.calls == 200
    assert row.device_us is not None
    assert row.device_us > 0


def test_steps_of_the_first_call_are_told(device: str, tmp_path: Any, monkeypatch: Any) -> None:
    run.forget_calls()
    with xtarget.profile() as p:
        xtarget.run("add", ones(), ones())
    assert p.steps["bind"][0] == 1
    with xtarget.profile() as again:
        xtarget.run("add", ones(), ones())
    assert "bind" not in again.steps


def test_profiles_stand_in_each_other(device: str) -> None:
    with xtarget.profile() as outer:
        xtarget.run("add", ones(), ones())
        with xtarget.profile() as inner:
            xtarget.run("add", ones(), ones())
            assert inner.rows[0].calls == 1
            with pytest.raises(xtarget.XTargetError, match="open already"):
                inner.__enter__()
    assert (outer.rows[0].calls, inner.rows[0].calls) == (2, 1)


def test_a_profile_of_nothing_is_empty() -> None:
    with xtarget.profile() as p:
        pass
    assert p.rows == []
    assert str(p).split()[:2] == ["kernel", "arguments"]


def test_an_exception_ends_a_profile(device: str) -> None:
    def fails() -> None:
        with p:
            xtarget.run("add", ones(), ones())
            raise ZeroDivisionError

    p = xtarget.profile()
    with pytest.raises(ZeroDivisionError):
        fails()
    assert p.rows[0].calls == 1


def test_threads_are_profiled(device: str) -> None:
    def work(number: int) -> None:
        for _ in range(100):
            xtarget.run("add", ones(number), ones())

    with xtarget.profile() as p:
        in_threads(work, range(4))
    assert sum(row.calls for row in p.rows) == 400
    if p.rows[0].device_us is not None:
        assert p.rows[0].launches == 400


def test_results_are_those_without_observers(device: str) -> None:
    """Every way through a call: strides, numbers, several results, updates, empty arrays."""
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    calls = [
        ("add", (x[:, ::-1], x[0]), {}),
        ("mul", (x, 2), {}),
        ("sum", (x,), {"axis": 0}),
        ("sum", (x[:0],), {"axis": 0}),
        ("matmul", (x, x.T), {}),
        ("where", (x > 3, x, 0.0), {}),
    ]
    plain = [xtarget.run(name, *args, **options) for name, args, options in calls]
    with xtarget.profile(), xtarget.hooks.add(enter=lambda launch: None):
        seen = [xtarget.run(name, *args, **options) for name, args, options in calls]
    for one, other in zip(plain, seen, strict=True):
        np.testing.assert_array_equal(one, other)
        assert type(one) is type(other)
