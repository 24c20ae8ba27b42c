"""Results whose size the data say."""

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


@pytest.mark.large
@examples(8)
@given(shape=st.lists(st.integers(0, 6), max_size=4).map(tuple), data=st.data())
def test_indices_in_any_layout(device: str, shape: tuple[int, ...], data: Any) -> None:
    x = np.asarray(sample("float32", *shape) * 2).astype(np.int8)
    order = data.draw(st.permutations(range(len(shape))))
    check("nonzero", np.asarray(x.transpose(order)), device=device)
    check("masked_select", x.T, np.asarray(x.T > 0), device=device)


def test_zeros_of_both_signs_and_nan(device: str) -> None:
    x = np.array([0.0, -0.0, np.nan, -1e-45, 2], np.float32)
    np.testing.assert_array_equal(xtarget.run("nonzero", x, device=device).reshape(-1), [2, 3, 4])
    assert xtarget.run("nonzero", np.array([5.0]), device=device).tolist() == [[0]]


def test_arrays_of_ours(device: str) -> None:
    x = np.array([[0, 3], [3, 1]], np.int32)
    ours = xtarget.asarray(x, device=device)
    np.testing.assert_array_equal(xtarget.run("nonzero", ours).numpy(), np.argwhere(x))
    values, places = xtarget.run("unique_inverse", ours)
    np.testing.assert_array_equal(values.numpy()[places.numpy()].reshape(x.shape), x)
    assert values.shape == (3,)


def test_several_chunks(device: str) -> None:
    """Longer than a chunk, with chunks of which nothing is taken."""
    x = np.zeros(9001, np.float32)
    x[4090:4110] = x[8999:] = 1
    check("nonzero", x, device=device)
    check("masked_select", np.arange(9001, dtype=np.int16), x == 0, device=device)


@pytest.mark.large
def test_a_condition_that_broadcasts(device: str) -> None:
    x = sample("float64", 4, 1, 7)
    check("masked_select", x, sample("bool", 3, 7), device=device)
    assert xtarget.run("masked_select", x, np.zeros(7, bool), device=device).shape == (0,)


@pytest.mark.parametrize(
    "name",
    [
        "unique_inverse",
        pytest.param("unique", marks=pytest.mark.large),
        pytest.param("unique_counts", marks=pytest.mark.large),
    ],
)
def test_groups_of_equals(device: str, name: str) -> None:
    for x in (sample("int32", 5, 61), sample("uint8", 3, 4, 5) % 5, sample("bool", 9)):
        check(name, x, device=device)
        check(name, x.T, device=device)
    check(name, np.array([np.nan, 1, -np.inf, np.nan, 1, 0, 5], np.float32), device=device)
    check(name, np.zeros((0, 3), np.float32), device=device)


@pytest.mark.large
def test_many_groups(device: str) -> None:
    x = np.random.default_rng(0).integers(0, 9000, 9500)
    check("unique_inverse", x, device=device)
    check("unique_counts", x.astype(np.int16), device=device)


WRONG: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("masked_select", [np.zeros(3), np.zeros(3)], {}, "condition is float64; it has to be bool"),
    ("masked_select", [np.zeros(3), np.zeros(4, bool)], {}, "do not broadcast"),
    ("nonzero", [np.zeros(3)], {"out": np.zeros((3, 1), int)}, "Leave it out|Leave out= out"),
]


test_bad_input_is_said_in_a_sentence = refused(WRONG)
