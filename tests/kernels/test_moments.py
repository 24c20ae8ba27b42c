"""Variances: of pieces and of whole rows, in few launches, of numbers that lie far from zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.types import Target
from xtarget.spec import ArrayType, contiguous_strides

SHAPES = [((200_003,), None), ((3, 50_001), 1), ((5001, 4), 0), ((9, 130), 1), ((4, 3, 5), (0, 2))]


def numbers(kind: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    made = np.random.default_rng(7).standard_normal(shape)
    if kind == "rising":  # the pieces' means differ
        made = np.linspace(1000, 1003, made.size).reshape(shape)
    if kind == "leading":  # the first elements say nothing of the others
        made.reshape(-1)[: min(512, made.size // 8)] += 1e4
        if len(shape) > 1:
            made[:, : min(512, shape[1] // 8)] += 1e4
    return (made + 1e6 if kind == "far" else made).astype(np.float32)


@pytest.mark.sample(3, each=("shape", "kind"))
@pytest.mark.parametrize("kind", ["near", "far", "rising", "leading"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_variances_are_exact_however_far_the_mean_is(
    device: str, shape: tuple[int, ...], axis: Any, kind: str
) -> None:
    x = numbers(kind, shape)
    exact, mean = x.astype(np.float64), x.astype(np.float64).mean(axis=axis)
    for ddof in (0, 1):
        found = xtarget.run("var", x, axis=axis, ddof=ddof, device=device)
        np.testing.assert_allclose(found, exact.var(axis=axis, ddof=ddof), rtol=4e-6)
    both = xtarget.run("var_mean", x, axis=axis, keepdims=True, device=device)
    np.testing.assert_allclose(both[0], exact.var(axis=axis, keepdims=True), rtol=4e-6)
    # of pieces that is a sum of two numbers, whose rounding is that of the largest element
    near = max(1e-6, np.abs(exact).max() * 1e-8)
    np.testing.assert_allclose(np.reshape(both[1], np.shape(mean)), mean, rtol=1e-6, atol=near)
    root = xtarget.run("std", x, axis=axis, device=device)
    np.testing.assert_allclose(root, exact.std(axis=axis), rtol=2e-6)


@pytest.mark.parametrize("n", [1, 5, 200_003])
def test_equal_elements_and_such_that_are_no_numbers(device: str, n: int) -> None:
    x = np.full(n, 0.1, np.float32)
    assert xtarget.run("var", x, device=device) <= 1e-15
    assert np.isnan(xtarget.run("var", x[:1], ddof=1, device=device))
    for wrong in (np.inf, -np.inf, np.nan):
        x[n // 2] = wrong
        variance, mean = xtarget.run("var_mean", x, device=device)
        assert np.isnan(variance)
        np.testing.assert_array_equal(mean, np.float32(wrong))


@pytest.mark.parametrize(
    ("shape", "axis", "launches"), [((1 << 20,), None, 2), ((640, 1000), 1, 1)]
)
@pytest.mark.parametrize("name", ["var", "std", "var_mean"])
def test_a_gpu_gets_two_launches_at_most(
    name: str, shape: tuple[int, ...], axis: Any, launches: int
) -> None:
    kernel = libraries.find(name)
    x = ArrayType("float32", shape, contiguous_strides(shape))
    call = planning.call_of(kernel, [x], {"axis": axis}, Target("nvidia", "sm_90"), 132)
    assert len(planning.make_plan(kernel, call).launches) == launches
