"""Colours of images: against references in NumPy, and those against Python's colorsys."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest
from drawing import fewer_if_emulated
from oracle import check
from refusals import refused

import xtarget


def _colours(*shape: int, dtype: str = "float32") -> Any:
    x = np.random.default_rng([*shape]).random(shape)
    x.reshape(-1, 3)[:3] = [[0, 0, 0], [0.5, 0.5, 0.5], [0.25, 0.75, 0.75]]
    return x.astype(dtype)


X = _colours(2, 5, 7, 3)
SHORT: list[tuple[str, Any, dict[str, Any]]] = [
    ("rgb_to_hsv", X, {}),
    ("hsv_to_rgb", X, {}),
    ("hsv_to_rgb", X.astype(np.float64).transpose(0, 3, 1, 2), {"axis": 1}),
    ("rgb_to_grayscale", X.astype(np.float16), {}),
    ("adjust_hue", X, {"delta": -0.3}),
    ("adjust_saturation", X[:, ::-1, 1:], {"factor": 1.75}),
    ("adjust_contrast", X, {"factor": 1.75}),
    ("adjust_contrast", X[0].transpose(2, 0, 1), {"factor": 0.5, "channels_last": False}),
    ("adjust_contrast", np.ones((40, 60, 3), np.float16), {"factor": 3}),
]


@pytest.mark.parametrize(
    ("name", "x", "options"),
    fewer_if_emulated(SHORT, 3),
)
def test_options(device: str, name: str, x: Any, options: Any) -> None:
    check(name, x, device=device, **options)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes(device: str, dtype: str) -> None:
    for name in ("rgb_to_hsv", "hsv_to_rgb", "rgb_to_grayscale", "adjust_contrast"):
        check(name, _colours(3, 33, 65, 3, dtype=dtype), device=device)


def test_the_references_are_what_colorsys_gives() -> None:
    x = _colours(50, 3, dtype="float64")
    rows = xtarget.catalog()
    hsv = rows["rgb_to_hsv"].reference(x)
    np.testing.assert_allclose(hsv, [colorsys.rgb_to_hsv(*one) for one in x], atol=1e-12)
    np.testing.assert_allclose(rows["hsv_to_rgb"].reference(hsv), x, atol=1e-12)


def test_colours_that_are_no_numbers(device: str) -> None:
    """nan goes into all three, wherever it is; a hue between finite numbers beside an infinity is
    that of its colour."""
    inf, nan = np.inf, np.nan
    x = np.float32([[nan, 1, 2], [1, nan, 2], [2, 1, nan], [1, inf, 2], [1, 2, inf], [inf, 1, 2]])
    found = check("rgb_to_hsv", x, device=device)
    assert np.isnan(found[:3]).all()
    np.testing.assert_allclose(found[3:, 0], [1 / 3, 2 / 3, 0], rtol=1e-6)
    for name in ("adjust_hue", "adjust_saturation"):
        assert np.isnan(check(name, x[:3], device=device)).all()


def test_empty_and_into_an_array(device: str) -> None:
    assert xtarget.run("rgb_to_hsv", X[:0], device=device).shape == (0, 5, 7, 3)
    assert xtarget.run("adjust_contrast", X[:0], device=device).shape == (0, 5, 7, 3)
    wide = np.zeros((2, 5, 14, 3), np.float32)
    check("adjust_hue", X, delta=0.1, out=wide[:, :, ::2], device=device)
    assert not wide[:, :, 1::2].any()


WRONG = [
    ("rgb_to_hsv", [X[..., :2]], {}, "so 2 colours along axis 3; it needs three"),
    ("adjust_hue", [X], {"delta": "red"}, "delta"),
    ("adjust_contrast", [X[0, 0]], {}, "x has 2 dimensions; it needs three or more"),
    ("rgb_to_hsv", [X], {"axis": 4}, "axis 4 is out of range"),
]


test_bad_input_is_said_in_a_sentence = refused(WRONG)
