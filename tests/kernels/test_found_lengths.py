"""Lengths that only values say: a call without them finds them, as NumPy's and torch's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError

INDEX = np.array([0, 7, 1, 1])
ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_bincount_counts_up_to_the_largest(device: str, dtype: str) -> None:
    for index in (INDEX, INDEX[:1], INDEX + 3, INDEX):
        found = xtarget.run("bincount", index.astype(dtype), device=device)
        np.testing.assert_array_equal(found, np.bincount(index))
    weights = np.arange(4.0)
    found = xtarget.run("bincount", index=INDEX, weights=weights, device=device)
    np.testing.assert_array_equal(found, np.bincount(INDEX, weights))
    found = xtarget.run("np.bincount", INDEX, minlength=12, device=device)
    np.testing.assert_array_equal(found, np.bincount(INDEX, minlength=12))
    found = xtarget.run("torch.bincount", INDEX, weights, minlength=3, device=device)
    np.testing.assert_array_equal(found, np.bincount(INDEX, weights))


@pytest.mark.parametrize(
    ("name", "args", "right"),
    [
        ("one_hot", [INDEX[1:3] - 1], np.eye(7, dtype=np.float32)[[6, 0]]),
        ("torch.one_hot", [INDEX[1:3]], np.eye(8, dtype=np.int64)[[7, 1]]),
        ("segment_sum", [ROWS, np.array([0, 0, 2, 2])], np.array([[2, 4], [0, 0], [10, 12]])),
        ("tf.segment_max", [ROWS, np.array([0, 1, 1, 1])], ROWS[[0, 3]]),
        ("unsorted_segment_sum", [ROWS, np.array([1, 0, 1, 0])], ROWS[[1, 0]] + ROWS[[3, 2]]),
        ("sequence_mask", [np.array([1, 0, 2])], np.array([[1, 0], [0, 0], [1, 1]], bool)),
    ],
)
def test_other_lengths(device: str, name: str, args: list[Any], right: Any) -> None:
    found = xtarget.run(name, *args, device=device)
    np.testing.assert_array_equal(found, right)
    assert found.dtype == right.dtype or name == "segment_sum"
    np.testing.assert_array_equal(xtarget.run(name, *args, impl="host"), right)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([INDEX[:0]], "so no largest integer, which says length. Give length="),
        ([ROWS], "it has to be integers"),
        ([3], "bincount: argument 1 is a scalar"),
        ([-1 - INDEX], "one more than the largest integer"),
    ],
)
def test_what_says_no_length(device: str, args: list[Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        xtarget.run("bincount", *args, device=device)


def test_the_reference_says_it_too() -> None:
    with pytest.raises(ArgumentError, match="so no largest integer, which says length"):
        xtarget.run("bincount", INDEX[:0], impl="host")
    assert not xtarget.run("bincount", INDEX[:0], length=3, impl="host").any()


def test_an_observed_call_finds_it_too(device: str) -> None:
    with xtarget.profile() as profile:
        found = xtarget.run("bincount", INDEX, device=device)
    np.testing.assert_array_equal(found, np.bincount(INDEX))
    assert "bincount" in str(profile)


def test_what_is_not_run_at_once_has_to_be_told(device: str) -> None:
    with pytest.raises(ArgumentError, match=r"length is not given.* Give length="):
        xtarget.get("bincount").prepare(INDEX, device=device)
    with pytest.raises(ArgumentError, match=r"read here\. Give classes="):
        xtarget.fuse(lambda x: xtarget.run("one_hot", x))(INDEX, device=device)
    with pytest.raises(ArgumentError, match="Give classes="):
        xtarget.run("tf.one_hot", INDEX, device=device)
