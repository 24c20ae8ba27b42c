"""Random input of the command line, and the comparison of results with expected values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget._cli import run
from xtarget._verify.comparison import compare


def test_random_input_covers_the_kinds() -> None:
    rng = np.random.default_rng(1)

    def make(dtype: str) -> np.ndarray[Any, Any]:
        layout = xtarget.spec.ArrayType(dtype, (40, 50), (50, 1))
        return run.random_array(layout, rng)

    assert set(np.unique(make("bool"))) == {False, True}
    assert make("int8").min() < 0 < make("int8").max()
    assert make("uint8").max() > 90
    assert abs(float(make("float64").std()) - 1) < 0.1
    assert make("bfloat16").dtype.name == "bfloat16"
    layout = xtarget.spec.ArrayType("float32", (4,), (1,))
    first, again = (run.random_array(layout, np.random.default_rng(7)) for _ in "ab")
    np.testing.assert_array_equal(first, again)


def wrong(result: Any, expected: Any) -> int:
    return compare(np.asarray(result), np.asarray(expected, np.float64)).wrong


def test_comparison_sees_what_is_wrong() -> None:
    right = np.linspace(-3, 3, 1000)
    f32 = right.astype(np.float32)
    assert wrong(f32, right) == 0
    assert wrong(f32 * np.float32(1 + 1e-6), right) == 0
    off = f32.copy()
    off[17] += 1e-3
    assert wrong(off, right) == 1
    off[18] = np.nan
    off[19] = np.inf
    assert wrong(off, right) == 3
    assert wrong(np.zeros(1000, np.float32), right) > 900
    assert wrong(np.int32([1, 2, 3]), [1, 2, 4]) == 1
    assert wrong(np.array([True, False]), [1, 0]) == 0


def test_comparison_knows_nan_infinity_and_overflow() -> None:
    assert wrong(np.float32([np.nan, np.inf, -np.inf]), [np.nan, np.inf, -np.inf]) == 0
    assert wrong(np.float32([np.inf, 1]), [-np.inf, 1]) == 1
    assert wrong(np.float32([1.0, 1]), [np.nan, 1]) == 1
    assert wrong(np.float16([np.inf, 1]), [1e6, 1]) == 0  # too large for float16
    assert wrong(np.zeros(0, np.float32), np.zeros(0)) == 0
    assert wrong(np.zeros(3, np.float32), np.zeros(3)) == 0
    assert wrong(np.float32([1e-9, 0]), np.zeros(2)) == 1


def test_comparison_refuses_another_shape() -> None:
    with pytest.raises(xtarget.ArgumentError, match="shape"):
        compare(np.zeros(3, np.float32), np.zeros((3, 1)))
