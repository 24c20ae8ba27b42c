"""The functions of libdevice that OpenCL does not have, against integrals and tables."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import triton
import triton.language as tl
from spirv_cases import Case, empty
from spirv_run import run
from triton.language.extra import libdevice

COUNT = 512


@triton.jit
def elements(x, B: tl.constexpr):
    """Where the elements of this block stand, and the elements."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    return i, v


@triton.jit
def bessel(x, o, B: tl.constexpr):
    i, v = elements(x, B)
    tl.store(o + i, libdevice.j0(v))
    tl.store(o + 512 + i, libdevice.j1(v))
    tl.store(o + 1024 + i, libdevice.y0(v))
    tl.store(o + 1536 + i, libdevice.y1(v))


@triton.jit
def modified(x, o, B: tl.constexpr):
    i, v = elements(x, B)
    tl.store(o + i, libdevice.cyl_bessel_i0(v))
    tl.store(o + 512 + i, libdevice.cyl_bessel_i1(v))


@triton.jit
def errors(x, o, B: tl.constexpr):
    i, v = elements(x, B)
    tl.store(o + i, libdevice.erfcx(v))
    tl.store(o + 512 + i, libdevice.erfinv(v))


def values(fn: Any, x: Any) -> Any:
    """The kernel's rows for up to 512 values."""
    type_ = {4: "fp32", 8: "fp64"}[x.dtype.itemsize]
    padded = np.ones(COUNT, x.dtype)
    padded[: x.size] = x
    rows = 4 if fn is bessel else 2
    case = Case(
        fn,
        {"x": "*" + type_, "o": "*" + type_},
        {"B": 64},
        lambda: [padded, empty(rows * COUNT, dtype=x.dtype)],
        grid=(8, 1, 1),
        num_warps=1,
    )
    return run(case)[1].reshape(rows, COUNT)[:, : x.size].astype(np.longdouble)


# Integrals of periodic functions by the trapezoid rule, which converges faster than any power.
_STEPS = 700
_PI = 4 * np.arctan(np.longdouble(1))
_ANGLE = (np.arange(_STEPS) + 0.5).astype(np.longdouble) * (_PI / _STEPS)


def first_kind(n: int, x: Any) -> Any:
    return np.cos(n * _ANGLE - x[:, None] * np.sin(_ANGLE)).mean(1)


def modified_kind(n: int, x: Any) -> Any:
    """exp(-|x|) I_n(x)."""
    return (np.exp(x[:, None] * np.cos(_ANGLE) - np.abs(x)[:, None]) * np.cos(n * _ANGLE)).mean(1)


#: Function: arguments that a float has exactly, and values by mpmath 1.3 at 40 digits.
REFERENCE: dict[str, tuple[tuple[float, str], ...]] = {
    "y0": (
        (0.0625, "-1.836472273220849301329"),
        (0.5, "-0.4445187335067065571484"),
        (1.25, "0.2582168515945407847212"),
        (2.5, "0.4980703596152318878275"),
        (4.0, "-0.01694073932506499190364"),
        (5.75, "-0.3233332380125414271799"),
        (7.875, "0.2019065889742820100371"),
        (8.0, "0.2235214893875662205273"),
        (8.5, "0.2702051053657874760039"),
        (12.25, "-0.2043016261089473360064"),
        (20.5, "0.1334095666575904782066"),
        (44.0, "-0.08377858598304494737903"),
        (90.5, "0.08254846336255870586645"),
    ),
    "y1": (
        (0.0625, "-10.25328863150691034654"),
        (0.5, "-1.471472392670243069189"),
        (1.25, "-0.5843640366150081728516"),
        (2.5, "0.1459181379667857988788"),
        (4.0, "0.397925710557100005254"),
        (5.75, "-0.1041713081547223331625"),
        (7.875, "-0.1874117449055130117865"),
        (8.0, "-0.1580604617312474942556"),
        (8.5, "-0.0261686793985374700285"),
        (12.25, "-0.1093390740958019877881"),
        (20.5, "-0.1118790983445097298129"),
        (44.0, "-0.08726417398962227107971"),
        (90.5, "0.01529260435940001960663"),
    ),
    "erfcx": (
        (-5.5, "27443409954929.70965913"),
        (-2.25, "315.7388837316445389617"),
        (-0.5, "1.952360489182557093276"),
        (0.03125, "0.9656922246177028870519"),
        (0.75, "0.5069376502931448057914"),
        (1.5, "0.3215854164543175023543"),
        (3.75, "0.1455897212750385390457"),
        (9.0, "0.06230772403777468414654"),
        (26.5, "0.02127504668537110595521"),
        (300.0, "0.001880621497378064489471"),
    ),
    "erfinv": (
        (9.5367431640625e-07, "8.451718573121729172225e-7"),
        (0.0625, "0.05544594877278202029899"),
        (0.5, "0.4769362762044698733814"),
        (-0.75, "-0.8134198475976185416903"),
        (0.96875, "1.523019401996956110968"),
        (0.9921875, "1.880951745473139420588"),
        (-0.9990234375, "-2.331467773621947672321"),
        (0.9998779296875, "2.716655240567082223531"),
        (0.9999961853027344, "3.267703778589618033823"),
        (0.9999998807907104, "3.743921162776799624889"),
        (0.9999999403953552, "3.832506856900710909458"),
    ),
}


TYPES = [(np.float32, 2e-6), (np.float64, 6e-15)]


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
def test_bessel_functions(dtype: Any, tolerance: float) -> None:
    x = np.concatenate([np.linspace(0.01, 12, 300), np.linspace(12, 90, 100)]).astype(dtype)
    wide = x.astype(np.longdouble)
    j0, j1, _, _ = values(bessel, x)
    assert np.max(np.abs(j0 - first_kind(0, wide))) < tolerance
    assert np.max(np.abs(j1 - first_kind(1, wide))) < tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
@pytest.mark.parametrize(
    ("name", "fn", "row"),
    [("y0", bessel, 2), ("y1", bessel, 3), ("erfcx", errors, 0), ("erfinv", errors, 1)],
)
def test_tabulated(name: str, fn: Any, row: int, dtype: Any, tolerance: float) -> None:
    x = np.array([x for x, _ in REFERENCE[name]], dtype)
    expected = np.array([np.longdouble(text) for _, text in REFERENCE[name]])
    # y0 and y1 have zeros: there what counts is the height of the wave
    waves = np.sqrt(2 / (math.pi * np.abs(x.astype(np.longdouble)))) if fn is bessel else 0
    scale = np.maximum(np.abs(expected), waves)
    assert np.max(np.abs(values(fn, x)[row] - expected) / scale) < tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
def test_the_inverse_of_the_error_integral_comes_back(dtype: Any, tolerance: float) -> None:
    y = np.linspace(-0.998, 0.998, 501).astype(dtype)
    back = np.array([math.erf(float(x)) for x in values(errors, y)[1]])
    assert np.max(np.abs(back - y)) < tolerance


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_of_bessel_functions(dtype: Any) -> None:
    x = np.array([0, -1.5, np.inf, -np.inf, np.nan, 1.5, 1e-30], dtype)
    j0, j1, y0, y1 = values(bessel, x)
    i0, i1 = values(modified, x)
    assert np.abs(np.array([j0[0] - 1, j1[0], i0[0] - 1, i1[0]])).max() < 4 * np.finfo(dtype).eps
    assert (y0[0], y1[0]) == (-np.inf, -np.inf)
    assert (j0[1], j1[1]) == (j0[5], -j1[5])
    assert (i0[1], i1[1]) == (i0[5], -i1[5])
    assert np.isnan([y0[1], y1[1], y0[3], y1[3]]).all()
    assert (j0[2], j1[2], y0[2], y1[2], j0[3], j1[3]) == (0,) * 6
    assert (i0[2], i1[2], i0[3], i1[3]) == (np.inf, np.inf, np.inf, -np.inf)
    assert np.isnan([j0[4], j1[4], y0[4], y1[4], i0[4], i1[4]]).all()
    assert abs(y1[6] * np.longdouble(x[6]) * math.pi / 2 + 1) < 1e-6


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
def test_modified_bessel_functions(dtype: Any, tolerance: float) -> None:
    top = 88.0 if dtype is np.float32 else 690.0
    x = np.concatenate([np.linspace(-9, 9, 301), np.linspace(9, top, 100)]).astype(dtype)
    wide = x.astype(np.longdouble)
    got = values(modified, x)
    for n in (0, 1):
        expected = modified_kind(n, wide) * np.exp(np.abs(wide))
        error = np.abs(got[n] - expected) / np.maximum(np.abs(expected), 0.01)
        # the exponential's own error grows with its argument
        assert np.max(error / (1 + np.abs(wide) / 16)) < tolerance


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_of_the_error_integral(dtype: Any) -> None:
    ends = values(errors, np.array([np.inf, -np.inf, np.nan, 1, -1, 1.5, 0], dtype))
    assert (ends[0][0], ends[0][1]) == (0, np.inf)
    assert np.isnan(ends[0][2])
    assert (ends[1][3], ends[1][4], ends[1][6]) == (np.inf, -np.inf, 0)
    assert np.isnan(ends[1][[0, 1, 2, 5]]).all()
