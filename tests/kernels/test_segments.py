"""Segments and bags: every option, against references in NumPy, and those against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operators import places, sample
from oracle import check
from refusals import refused

import xtarget

SORTED = np.array([0, 0, 1, 1, 1, 3, 3, 4, 9])
OPS = ("segment_sum", "segment_mean", "segment_max", "segment_min")


@pytest.mark.parametrize("name", [*OPS, "unsorted_segment_sum"])
def test_segments(device: str, name: str) -> None:
    """Also without rows, with fewer than there are, of one dimension, and views."""
    x = sample("float32", 9, 5, 70)
    check(name, x, SORTED, segments=6, device=device)
    check(name, x[:, ::-1, 3], SORTED.astype(np.int32), segments=12, device=device)
    check(name, x[:, 0, 0], SORTED, segments=3, device=device)
    check(name, x[:0], SORTED[:0], segments=2, device=device)


@pytest.mark.parametrize("name", OPS)
def test_other_dtypes(device: str, name: str) -> None:
    dtype = {"segment_sum": "float16", "segment_mean": "float64"}.get(name, "int8")
    check(name, sample(dtype, 9, 70), SORTED, segments=5, device=device)


def test_segments_in_any_order(device: str) -> None:
    for dtype in ("float16", "int32"):
        x, index = sample(dtype, 200, 7), places(6, 200)
        check("unsorted_segment_sum", x, index, segments=6, device=device)
    found = xtarget.run("unsorted_segment_sum", np.ones(3), np.array([5, -1, -9]), segments=3,
                        device=device)  # fmt: skip
    assert found.tolist() == [0, 0, 1]


def test_nan_stays(device: str) -> None:
    x = np.array([1, np.nan, 2, -np.inf], np.float32)
    for name in OPS:
        check(name, x, np.array([0, 0, 1, 1]), segments=2, device=device)


W = sample("float32", 11, 70, seed=1)


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_bags(device: str, mode: str) -> None:
    """The indices of a bag in a row, or from offsets on; one bag is empty."""
    flat = places(11, 20)
    check("embedding_bag", flat.reshape(4, 5), W, mode=mode, device=device)
    check("embedding_bag", flat, W[:, ::-2], np.array([0, 3, 3, 17]), mode=mode, device=device)
    if mode == "sum":
        factors = sample("float32", 20, seed=2)
        check("embedding_bag", flat, W, np.array([0, 9]), factors, mode=mode, device=device)
        flat, factors = flat.reshape(4, 5), factors.reshape(4, 5)
        check("embedding_bag", flat, W, None, factors, mode=mode, device=device)
        check("embedding_bag", flat[::-1, ::2], W, None, factors.T.copy().T[::-1, ::2], mode=mode,
              device=device)  # fmt: skip


def test_nothing_outside_is_read(device: str) -> None:
    far = np.array([2**40, -(2**40), 3])
    check("embedding_bag", far, W, np.array([0, 2]), mode="sum", device=device)
    found = xtarget.run("embedding_bag", far, W, np.array([-5, 99]), mode="sum", device=device)
    assert np.isfinite(found).all()


@examples(20)
@given(data=st.data())
def test_any_segments(device: str, data: Any) -> None:
    index = np.sort(np.array(data.draw(st.lists(st.integers(-1, 9), max_size=40)), np.int64))
    x = sample("float32", len(index), data.draw(st.integers(1, 9)))
    name = data.draw(st.sampled_from(OPS))
    check(name, x, index, segments=data.draw(st.integers(1, 12)), device=device)


def test_the_references_are_what_torch_gives() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weight, flat, offsets = sample("float64", 11, 7), places(11, 20), np.array([0, 3, 3, 17])
    row = xtarget.catalog()["embedding_bag"].reference
    for mode in ("mean", "sum", "max"):
        for index, more in ((flat, [offsets]), (flat.reshape(4, 5), [])):
            right = torch.nn.functional.embedding_bag(
                torch.as_tensor(index), torch.as_tensor(weight), *map(torch.as_tensor, more),
                mode=mode,
            )  # fmt: skip
            np.testing.assert_allclose(row(index, weight, *more, mode=mode), right, atol=1e-12)
    x, index = sample("float64", 9, 4), np.array([0, 0, 1, 1, 1, 2, 3, 3, 3])
    for how in ("sum", "mean", "max", "min"):
        lengths = torch.as_tensor(np.bincount(index))
        right = torch.segment_reduce(torch.as_tensor(x), how, lengths=lengths)
        made = xtarget.catalog()[f"segment_{how}"].reference(x, index, segments=4)
        np.testing.assert_allclose(made, right, atol=1e-12)


X = np.zeros((9, 2), np.float32)
WRONG = [
    ("segment_sum", [X, X], {}, "segment has 2 dimensions of float32; it has to be of integers"),
    ("segment_sum", [X, SORTED[:3]], {}, "segment needs a number for each row"),
    ("segment_sum", [X, SORTED], {"segments": -1}, "segments is -1; it may not be below 0"),
    ("segment_mean", [SORTED, SORTED], {}, "segment_mean does not take int64"),
    ("embedding_bag", [SORTED, W], {}, "a vector needs them"),
    ("embedding_bag", [SORTED[None], W, SORTED], {}, "a matrix has a bag in each row"),
    ("embedding_bag", [SORTED[None], W], {"mode": "prod"}, "mode is 'prod'; it has to be 'mean'"),
    ("embedding_bag", [SORTED[None], W[0]], {}, "it has to be a matrix of floating numbers"),
    ("embedding_bag", [SORTED[None], W[:0]], {}, "so no row"),
    ("embedding_bag", [SORTED, W, SORTED, W], {}, "it needs the shape of index"),
]


test_bad_input_is_said_in_a_sentence = refused(WRONG)
