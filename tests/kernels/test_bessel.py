"""Bessel functions against values by mpmath at 30 digits: the kernels, and the references."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import xtarget
from xtarget._kernels import libraries

#: Doubles, and at each the value of a function.
X = np.array([0.5, 2.5, 4.984375, 10.25, 20.5, 27.5, 71.5, 1000.25, 123456.75])
RIGHT = {
    "j0": [
        *(0.9384698072408129, -0.048383776468198, -0.1827012994972182, -0.24897577978284946),
        *(0.11509696025367476, -0.000992228905067405, -0.0025491716448353082),
        *(0.022846535354858314, -0.0015851993543475626),
    ],
    "j1": [
        *(0.2422684576748739, 0.49709410246427405, -0.3257867751169794, -0.01902045569686857),
        *(0.13625468819339573, 0.15214189320465693, 0.09430869296611807),
        *(0.010711720806184072, -0.0016259722373682638),
    ],
    "y0": [
        *(-0.44451873350670656, 0.4980703596152319, -0.3061660409120779, -0.0068952738387493715),
        *(0.1334095666575905, 0.1521348331300462, 0.09432421284597454),
        *(0.010700299059596676, -0.0016259658172954573),
    ],
    "y1": [
        *(-1.471472392670243, 0.1459181379667858, 0.1531365243977655, 0.24893222500650522),
        *(-0.11187909834450974, 0.0037575699285242307, 0.0032088115999649794),
        *(-0.022841189398253216, 0.0015851927691968631),
    ],
}


@pytest.mark.parametrize("name", list(RIGHT))
def test_float64_is_right_to_its_last_digits(device: str, name: str) -> None:
    """CUDA's own lose up to 13 bits above 17."""
    found = xtarget.run(name, X, device=device)
    np.testing.assert_allclose(found, RIGHT[name], rtol=1e-15, atol=2e-15)


@pytest.mark.parametrize("name", ["j0", "j1"])
def test_signs_and_limits(device: str, name: str) -> None:
    x = np.array([-0.5, -20.5, np.inf, -np.inf, np.nan])
    found = xtarget.run(name, x, device=device)
    sign = -1 if name == "j1" else 1
    right = [sign * RIGHT[name][0], sign * RIGHT[name][4], 0, 0, np.nan]
    np.testing.assert_allclose(found, right, rtol=0, atol=2e-15)


@pytest.mark.parametrize("name", ["y0", "y1"])
def test_there_is_no_second_kind_below_zero(device: str, name: str) -> None:
    x = np.array([-0.5, -20.5, 0.0, np.inf, -np.inf, np.nan])
    found = xtarget.run(name, x, device=device)
    np.testing.assert_array_equal(found, [np.nan, np.nan, -np.inf, 0, np.nan, np.nan])


@pytest.mark.parametrize("scipy", [True, False], ids=["scipy", "no_scipy"])
@pytest.mark.parametrize("name", list(RIGHT))
def test_the_reference_is_right_with_and_without_scipy(
    monkeypatch: pytest.MonkeyPatch, name: str, scipy: bool
) -> None:
    """torch's own, which once stood in for SciPy's, is off by up to 8e-7 between 2 and 12."""
    if not scipy:
        monkeypatch.setitem(sys.modules, "scipy.special", None)
    reference = libraries.find(name).spec.reference
    assert reference is not None
    found = np.asarray(reference(X))
    np.testing.assert_allclose(found, RIGHT[name], rtol=1e-15, atol=2e-15)


@pytest.mark.parametrize("name", list(RIGHT))
def test_the_reference_at_the_ends(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    reference = libraries.find(name).spec.reference
    assert reference is not None
    x = np.array([0.0, np.inf, np.nan, 5e-324, -np.inf])
    right = {
        "j0": [1, 0, np.nan, 1, 0],
        "j1": [0, 0, np.nan, 0, 0],
        "y0": [-np.inf, 0, np.nan, -473.9990734230043, np.nan],
        "y1": [-np.inf, 0, np.nan, -np.inf, np.nan],
    }
    np.testing.assert_allclose(np.asarray(reference(x)), right[name], rtol=1e-15, atol=0)
