"""How many cases the tests of kernels take: of those that Hypothesis draws, and of lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

__all__ = ["examples", "fewer_if_emulated"]


def fewer_if_emulated(cases: Iterable[tuple[Any, ...]], every: int) -> list[Any]:
    """Parameters of a test. An emulated device takes each `every`-th in its short tests."""
    return [
        pytest.param(*case, marks=[pytest.mark.large] if number % every else [])
        for number, case in enumerate(cases)
    ]


def examples(count: int, *, same: bool = True) -> settings:
    """Settings for a test that draws this many examples, without a limit of time.

    Args:
        same: each run draws the same ones; otherwise others.
    """
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=same,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
