"""Calls of fused functions that are like earlier ones look up little, and see what changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError
from xtarget._fuse import fused as implementation

run = xtarget.run
FACTOR = 2.0


@xtarget.fuse
def scaled(x: Any, by: Any) -> Any:
    return x * FACTOR + by


def test_numbers_globals_dtypes_and_sizes_of_a_later_call_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.arange(6, dtype=np.float32)
    for by in (1.0, 2.5, 2.5):
        np.testing.assert_array_equal(scaled(x, by), x * np.float32(2) + np.float32(by))
    monkeypatch.setattr(f"{__name__}.FACTOR", 3.0)
    np.testing.assert_array_equal(scaled(x, 1.0), x * np.float32(3) + 1)
    y = np.arange(10, dtype=np.float32)[::2]
    out = np.empty(5, np.float32)
    assert scaled(y, 1.0, out=out) is out
    np.testing.assert_array_equal(out, y * 3 + 1)
    whole = scaled(np.arange(3, dtype=np.int32), 1)
    np.testing.assert_array_equal(whole, np.arange(3) * 3.0 + 1)


class Settings:
    def __init__(self) -> None:
        self.own = {"factor": [2.0]}

    def factor(self) -> float:
        return self.own["factor"][0]


SETTINGS = Settings()


@xtarget.fuse
def signed_by_settings(x: Any) -> Any:
    return run("copysign", x, SETTINGS.factor())


def test_what_an_object_answers_counts_at_each_call() -> None:
    x = np.arange(1, 6, dtype=np.float32)
    for sign in (0.0, -0.0, 0.0):
        SETTINGS.own["factor"][0] = sign
        np.testing.assert_array_equal(signed_by_settings(x), np.copysign(x, sign))


def test_a_number_whose_value_is_asked_counts_each_time() -> None:
    @xtarget.fuse
    def power(x: Any, order: Any) -> Any:
        return x * x if order > 1.5 else x + 0

    x = np.arange(4, dtype=np.float32)
    for order in (2.0, 2.0, 1.0, 1.0, 2.0):
        np.testing.assert_array_equal(power(x, order), x * x if order == 2 else x)


def test_a_result_that_lies_in_an_argument_is_right_each_time() -> None:
    @xtarget.fuse
    def turned(x: Any, y: Any) -> Any:
        return x.T + y

    y = np.ones((4, 4), np.float32)
    for _ in range(3):
        x = np.arange(16, dtype=np.float32).reshape(4, 4)
        want = x.T + y
        assert turned(x, y, out=x) is x
        np.testing.assert_array_equal(x, want)
    small = np.empty((2, 4), np.float32)
    with pytest.raises(ArgumentError, match="out"):
        turned(y, y, out=small)


def test_a_later_call_is_not_looked_up_by_its_arguments_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.arange(6, dtype=np.float32)
    for _ in range(2):
        scaled(x, 1.0)

    def asked(*_: Any, **__: Any) -> Any:
        raise AssertionError("a call like the last one is looked up anew")

    monkeypatch.setattr(implementation.Fused, "_program", asked)
    np.testing.assert_array_equal(scaled(x + 1, 4.0), (x + 1) * np.float32(FACTOR) + 4)


def test_a_function_that_counts_its_traces_is_traced_once() -> None:
    traces = 0

    @xtarget.fuse
    def counted(x: Any) -> Any:
        nonlocal traces
        traces += 1
        return x * 2 + 1

    x = np.arange(4, dtype=np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(counted(x), x * 2 + 1)
    assert traces == 1
