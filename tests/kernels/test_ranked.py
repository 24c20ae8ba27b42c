"""Medians, quantiles, and what is there most often, against NumPy."""

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


@examples(12)
@given(
    shape=st.lists(st.sampled_from((1, 2, 3, 5, 70)), min_size=1, max_size=3),
    keepdims=st.booleans(),
    data=st.data(),
)
def test_any_axes(device: str, shape: Any, keepdims: bool, data: Any) -> None:
    dtype = data.draw(st.sampled_from(("float32", "float64", "float16", "int8")))
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    x = sample(dtype, *shape[::-1]).T[::-1]
    kept = {"axis": axis, "keepdims": keepdims}
    for name in ("median", "nanmedian", "mode"):
        check(name, x, device=device, **kept)
    q = data.draw(st.sampled_from((0.3, (0, 0.25, 1), 1)))
    method = data.draw(st.sampled_from(("linear", "lower", "higher", "nearest", "midpoint")))
    check("quantile", x, device=device, q=q, method=method, **kept)


@pytest.mark.parametrize("axis", [(0, 2), (-1, 1), (1,), [0, 1, 2]])
def test_several_axes_are_one_row(device: str, axis: Any) -> None:
    x = sample("float32", 3, 4, 5)[:, ::-1]
    for keepdims in (False, True):
        for name, options in (("median", {}), ("quantile", {"q": (0.2, 0.7)})):
            own = {"axis": axis, "keepdims": keepdims, **options}
            found = xtarget.run(name, x, device=device, **own)
            right = getattr(np, name)(x, **{**own, "axis": tuple(axis)})
            np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-6)
        check("mode", np.round(x), axis=axis, keepdims=keepdims, device=device)


def test_nan(device: str) -> None:
    x = sample("float32", 6, 77)
    x[np.random.default_rng(0).random(x.shape) < 0.4] = np.nan
    x[1], x[2, :76] = np.nan, np.nan
    for axis in (1, 0, None):
        check("median", x, axis=axis, device=device)
        check("nanmedian", x, axis=axis, device=device)
    check("quantile", x, axis=1, q=0.1, device=device)
    value, count = xtarget.run("mode", np.array([np.nan, np.nan, 1.0], np.float32), device=device)
    assert (float(value), int(count)) == (1.0, 1)


def test_infinities(device: str) -> None:
    x = np.full((2, 6), np.inf, np.float32)
    x[1, :3] = -np.inf
    check("median", x, axis=1, device=device)
    found = xtarget.run("quantile", x, axis=1, q=0.9, device=device)
    np.testing.assert_array_equal(found, [np.inf, np.inf])


@pytest.mark.large
def test_the_most_frequent_of_many(device: str) -> None:
    x = sample("int32", 3, 1000) // 10
    check("mode", x, axis=1, device=device)
    check("mode", x % 2 == 0, axis=0, device=device)


X = sample("float32", 3, 4)


@pytest.mark.parametrize(
    ("name", "x", "options", "said"),
    [
        ("median", X[:0], {"axis": 0}, "median of nothing is not defined"),
        ("median", X, {"axis": 2}, "out of range"),
        ("median", X, {"axis": ()}, "give an axis, or None"),
        ("quantile", X, {"axis": (0, -2)}, "names an axis twice"),
        ("quantile", X, {"q": 1.5}, "q is 1.5; it has to be a number from 0 to 1"),
        ("quantile", X, {"q": (0.5, "x")}, "a number from 0 to 1"),
        ("quantile", X, {"method": "weibull"}, "method is 'weibull'"),
        ("mode", X[0, 0], {"axis": 0}, "give axis=None"),
    ],
)
def test_what_does_not_fit_is_said(device: str, name: str, x: Any, options: Any, said: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match=said):
        xtarget.run(name, np.asarray(x), device=device, **options)
