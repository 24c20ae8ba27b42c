"""How many cases the tests of kernels take: of those that Hypothesis draws, and of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import drawn

__all__ = ["examples", "few_and_many", "fewer_if_emulated"]


def fewer_if_emulated(cases: Iterable[tuple[Any, ...]], every: int) -> list[Any]:
    """Parameters of a test. An emulated device takes each `every`-th in its short tests."""
    return [
        pytest.param(*case, marks=[pytest.mark.large] if number % every else [])
        for number, case in enumerate(cases)
    ]


def examples(count: int, *, same: bool = True) -> settings:
    """Settings for a test that draws this many examples, without a limit of time.

    Args:
        count: where the long tests run; a short run draws a quarter of them.
        same: each run draws the same ones; otherwise others.
    """
    return settings(
        max_examples=drawn(count) if same else count,
        deadline=None,
        derandomize=same,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def few_and_many(check: Callable[[str, Any], None], few: int, many: int) -> tuple[Any, Any]:
    """Two tests of what `check` draws on a device.

    Args:
        few: examples of the short test (`examples`), which are the same in each run.
        many: examples of the long one, which are others in each run.
    """

    def short(device: str, data: Any) -> None:
        check(device, data)

    def long(device: str, data: Any) -> None:
        check(device, data)

    drawn = given(data=st.data())
    return examples(few)(drawn(short)), pytest.mark.long(examples(many, same=False)(drawn(long)))
