"""Slices at rows of indices, shapes, masks of sequences: against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operators import sample
from oracle import check

import xtarget


@examples(10)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    rows=st.lists(st.integers(0, 3), max_size=2),
    mode=st.sampled_from(("clip", "wrap", "zero")),
    how=st.sampled_from(("set", "add", "prod", "amax", "amin")),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_rows_of_indices(
    device: str, shape: Any, rows: Any, mode: str, how: str, seed: int, data: Any
) -> None:
    """Any of them may be outside of the array."""
    depth = data.draw(st.integers(0, len(shape)))
    x = sample("float32", *shape[::-1], seed=seed).T
    index = np.random.default_rng(seed).integers(-7, 7, (*rows, depth))
    check("gather_nd", x, index, mode=mode, device=device)
    source = sample("float32", *rows, *shape[depth:], seed=seed + 1)
    check("scatter_nd_update", x, index, source, reduce=how, device=device)
    check("scatter_nd", index, source, shape=tuple(shape), device=device)


X = sample("float32", 4, 5, 6)


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("reshape", (X.T,), {"shape": (8, -1)}),
        ("reshape", (X[:0],), {"shape": (0, 7)}),
        ("reshape", (X[:1, :1, 0],), {"shape": ()}),
        ("reshapeas", (X.T, np.zeros((60, 2), np.float32)), {}),
        ("flatten", (X.T,), {"start": 1}),
        ("flatten", (np.array(1.0),), {}),
        ("flatten_2d", (X,), {"axis": 0}),
        ("flatten_2d", (X,), {"axis": -1}),
        ("squeeze", (X[:1, :, :1],), {"axis": None}),
        ("squeeze", (X[:1, :, :1],), {"axis": (0, -1)}),
        ("expand_dims", (X,), {"axis": (0, -1)}),
        ("unstack", (X[::-1],), {"axis": -2}),
        ("unstack", (X[:1],), {}),
        ("sequence_mask", (np.array([[3, 0], [-2, 99]]),), {"longest": 5}),
        ("sequence_mask", (np.array([3], np.uint8),), {"longest": 0, "dtype": "float16"}),
    ],
)
def test_shapes(device: str, name: str, args: Any, options: Any) -> None:
    check(name, *args, device=device, **options)


def test_an_out_that_is_not_contiguous(device: str) -> None:
    out = np.zeros((6, 20), np.float32).T
    check("reshape", X, shape=(20, 6), out=out, device=device)
    check("reshape", X.T, shape=(20, 6), out=out, device=device)


@pytest.mark.parametrize(
    ("name", "args", "options", "said"),
    [
        ("reshape", (X,), {"shape": (7, -1)}, "120 elements, which shape"),
        ("reshape", (X,), {"shape": (-1, -1)}, "one length may be -1"),
        ("reshapeas", (X, X[0]), {}, "as many elements"),
        ("squeeze", (X,), {"axis": 0}, "only one of length 1"),
        ("flatten", (X,), {"start": 2, "end": 0}, "start 2 is behind end 0"),
        ("unstack", (X[:0],), {}, "has 0 slices"),
        ("expand_dims", (X,), {"axis": 9}, "out of range"),
        ("gather_nd", (X, np.zeros((2, 4), int)), {}, "at most 3 here"),
        ("gather_nd", (X, np.zeros((2, 1), int)), {"mode": "raise"}, "mode is 'raise'"),
        ("scatter_nd", (np.zeros((2, 1), int), X), {}, r"it needs \(2,\)"),
        ("scatter_nd_update", (X, np.zeros((2, 1), int), X[:2]), {"reduce": "x"}, "reduce is 'x'"),
    ],
)
def test_what_does_not_fit_is_said(
    device: str, name: str, args: Any, options: Any, said: str
) -> None:
    with pytest.raises(xtarget.ArgumentError, match=said):
        xtarget.run(name, *args, device=device, **options)
