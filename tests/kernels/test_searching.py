"""Places among elements in order, counts, and membership."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operators import sample
from oracle import check
from refusals import refused

import xtarget

ROW = np.array([-np.inf, -2.5, -0.0, 0.0, 0.0, 1, 1, 3, np.inf, np.nan, np.nan], np.float32)
VALUES = np.array([[np.nan, 0.0, -0.0, -np.inf], [np.inf, 1, 2, -3]], np.float32)


@pytest.mark.parametrize("side", ["left", "right"])
def test_equals_zeros_and_nan(device: str, side: str) -> None:
    check("searchsorted", ROW, VALUES, side=side, device=device)
    check("searchsorted", ROW[::2], VALUES.T, side=side, device=device)


@pytest.mark.parametrize(
    "dtype", [pytest.param(d, marks=pytest.mark.long) if d in ("float64", "uint8") else d
              for d in ("uint64", "float16", "float64", "uint8")],
)  # fmt: skip
def test_dtypes(device: str, dtype: str) -> None:
    x = np.sort(sample(dtype, 65))
    check("searchsorted", x, sample(dtype, 40, seed=1), device=device)
    check("isin", x, sample(dtype, 99, seed=2), device=device)


@pytest.mark.large
def test_dtypes_that_differ_are_promoted(device: str) -> None:
    x = np.array([-3, 0, 2, 200], np.int16)
    check("searchsorted", x, np.array([1.5, -3, 200, 1e6], np.float32), device=device)
    check("bucketize", np.arange(-5, 5, dtype=np.int8), x, right=True, device=device)


@pytest.mark.large
def test_a_row_for_each_row(device: str) -> None:
    x = np.sort(sample("int32", 3, 4, 50), -1)
    check("searchsorted", x, sample("int32", 3, 4, 7, seed=1), side="right", device=device)
    check("searchsorted", x[::-1], sample("int32", 3, 4, 7, seed=1), device=device)


@pytest.mark.large
@examples(8)
@given(
    row=st.lists(st.integers(-4, 4), max_size=70).map(sorted),
    values=st.lists(st.integers(-6, 6), max_size=70),
    right=st.booleans(),
)
def test_any_row(device: str, row: list[int], values: list[int], right: bool) -> None:
    x, v = np.array(row, np.int32), np.array(values, np.int32)
    check("searchsorted", x, v, side="right" if right else "left", device=device)
    check("digitize", v, x, right=right, device=device) if x.size else None


@pytest.mark.parametrize("right", [False, True])
def test_bins_may_fall_as_numpys(device: str, right: bool) -> None:
    values = np.array([[0, 1, 2, 3, np.nan], [4, 5, 6, np.inf, -np.inf]], np.float32)
    bins = np.array([5, 3, 3, 1], np.float32)
    for own in (bins, bins[::-1], np.repeat(bins, 2)[::2], bins[:1], bins[:0]):
        found = xtarget.run("digitize", values, own, right=right, device=device)
        np.testing.assert_array_equal(found, np.digitize(values, own, right=right))
        check("digitize", values, own, right=right, device=device)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_bins_between_edges(device: str, dtype: str) -> None:
    x = np.concatenate([sample(dtype, 500) * 3, np.array([-2, 5, 9, 9, 10], dtype)])
    check("histogram", x, np.array([-2, 0, 0, 1, 5, 9], dtype), device=device)
    check("histogram", x.reshape(5, 101).T, np.array([0.5, 9.5]), device=device)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_bins_of_equal_width(device: str, dtype: str) -> None:
    x = np.concatenate([sample(dtype, 500), np.array([-1, 1.5, np.nan, np.inf], dtype)])
    for bins in (1, 10, 333):
        check("histc", x, bins=bins, min=-1.0, max=1.5, device=device)


@pytest.mark.parametrize("dtype", ["int32", "uint64", pytest.param("int8", marks=pytest.mark.long)])
def test_counts_and_sums_of_integers(device: str, dtype: str) -> None:
    """Elements outside are not counted; sums are in the order of the elements, bit for bit."""
    x = sample(dtype, 4, 90)
    if dtype == "uint64":
        x[0, :2] = 2**64 - 1, 2**63
    check("bincount", x, length=60, device=device)
    weights = sample("float64", 4, 90, seed=3)
    for view, own in ((x, weights), (x.T, weights.T)):
        found = xtarget.run("bincount", view, own, length=60, device=device)
        inside = (view >= 0) & (view < 60)
        right = np.bincount(view[inside].astype(int), own[inside], 60)
        np.testing.assert_array_equal(found, right)


@pytest.mark.large
def test_many_in_one_bin(device: str) -> None:
    x = np.zeros(30_000, np.int32)
    x[::7] = 3
    check("bincount", x, length=5, device=device)
    found = xtarget.run("bincount", x, np.full(x.size, 0.1, np.float32), length=5, device=device)
    again = xtarget.run("bincount", x, np.full(x.size, 0.1, np.float32), length=5, device=device)
    np.testing.assert_array_equal(found, again)


def test_members(device: str) -> None:
    x = np.array([[1, np.nan, -0.0], [np.inf, 2, 5]], np.float32)
    for invert in (False, True):
        check("isin", x.T, np.array([0.0, np.nan, 5, 5, np.inf], np.float32), invert=invert,
              device=device)  # fmt: skip
    check("isin", sample("int64", 200), sample("int64", 3, 70)[:, ::2], device=device)
    assert not xtarget.run("isin", x, np.zeros(0, np.float32), device=device).any()


def test_nothing_to_search_and_nothing_searched(device: str) -> None:
    none = np.zeros(0, np.float32)
    assert xtarget.run("searchsorted", none, VALUES, device=device).tolist() == [[0] * 4] * 2
    assert xtarget.run("searchsorted", ROW, none, device=device).shape == (0,)
    assert xtarget.run("histogram", none, ROW[:3], device=device).tolist() == [0, 0]
    assert xtarget.run("bincount", none.astype(int), length=3, device=device).tolist() == [0] * 3


WRONG: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("searchsorted", [ROW, VALUES], {"side": "both"}, "side is 'both'; it has to be 'left' or"),
    ("searchsorted", [VALUES, ROW], {}, "it has to be one row, or a row for each row"),
    ("histogram", [ROW, VALUES], {}, "it needs one dimension, and two edges"),
    ("histc", [ROW], {"bins": 0}, "bins is 0; it has to be above 0"),
    ("histc", [ROW], {"min": 1.0, "max": 1.0}, "min is below max"),
    ("bincount", [ROW], {}, "index is float32; it has to be integers"),
    ("bincount", [np.zeros(3, int)], {"length": 0}, "one more than the largest integer"),
    ("bincount", [np.zeros(3, int), ROW], {"length": 2}, "the shape of index"),
    ("isin", [ROW, np.zeros(3)], {}, "x is float32 and the others are float64"),
]


test_bad_input_is_said_in_a_sentence = refused(WRONG)
