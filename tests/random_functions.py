"""Random functions of the library's operators, for tests of fused ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from xtarget import ArgumentError

__all__ = ["grow", "seeds"]


def seeds(quick: int, all_: int) -> pytest.MarkDecorator:
    """The test's `seed`; those from `quick` on are of the long tier."""
    long = (pytest.param(seed, marks=pytest.mark.long) for seed in range(quick, all_))
    return pytest.mark.parametrize("seed", [*range(quick), *long])


def grow(
    draw: random.Random,
    made: Sequence[Any],
    count: int,
    step: Callable[[random.Random, list[Any], Any], Any],
) -> list[Any]:
    """The values that `step` makes `count` times of one of the last three values. An operator that
    does not take what it would get is passed over, and a step that returns None."""
    values = list(made)
    for _ in range(count):
        own = draw.choice(values[-3:])
        try:
            found = step(draw, values, own)
        except ArgumentError:
            continue
        if found is not None:
            values.append(found)
    return values
