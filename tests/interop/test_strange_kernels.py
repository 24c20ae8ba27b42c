"""A table of kernels of all sorts (`strange_kernels`), by Triton's own launching on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed here")
pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed here")

import strange_programs  # noqa: F401  (fills the table)
from strange_kernels import CASES, LONG

pytestmark = pytest.mark.usefixtures("triton_on_cpu", "ran_on_cpu")
#: Of shapes and values. The first one is the short tier's.
SEEDS = range(5)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=[pytest.mark.long] if seed or name in LONG else [])
        for name in CASES
        for seed in SEEDS
    ],
)
def test_result(name: str, seed: int) -> None:
    CASES[name](np.random.default_rng(seed))
