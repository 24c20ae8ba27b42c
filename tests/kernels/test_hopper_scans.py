"""Cumulative sums on sm_90: which calls have a kernel of their own, what it needs, and its results
where there is such a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget._kernels import implementations, libraries
from xtarget._launch import planning
from xtarget._launch.planning import plan_of_layouts
from xtarget._values.types import Target
from xtarget.spec import ArrayType, contiguous_strides

SM_90 = Target("nvidia", "sm_90")
OWN = ["hopper_scans:cumsum"]
LONG = 1 << 22


def layout(*shape: int, dtype: str = "float32", strides: Any = None) -> ArrayType:
    return ArrayType(dtype, shape, strides or contiguous_strides(shape))


def sources(x: ArrayType, target: Target = SM_90, **options: Any) -> list[str]:
    """The kernels that a call launches on a target."""
    kernel = implementations.serving(libraries.find("cumsum"), target.vendor, target.arch)
    plan, _, _ = plan_of_layouts(kernel, [x], {**kernel.spec.options, **options}, target)
    return [launch.source for launch in plan.launches]


@pytest.mark.parametrize(
    ("x", "options"),
    [(layout(LONG), {}), (layout(1, LONG + 5, 1), {"axis": 1}), (layout(LONG), {"axis": 0})],
)
def test_a_long_row_is_read_once(x: ArrayType, options: dict[str, Any]) -> None:
    assert sources(x, **options) == OWN
    assert sources(x, Target("nvidia", "sm_80"), **options) == ["scans:scan"] * 2


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (layout(LONG - 1), {}),
        (layout(2, LONG), {}),
        (layout(LONG, 2), {"axis": 0}),
        (layout(LONG, strides=(2,)), {}),
        (layout(LONG, strides=(-1,)), {}),
        (layout(LONG, dtype="float64"), {}),
        (layout(LONG, dtype="float16"), {}),
        (layout(LONG), {"reverse": True}),
        (layout(LONG), {"exclusive": True}),
    ],
)
def test_these_calls_are_every_targets(x: ArrayType, options: dict[str, Any]) -> None:
    assert set(sources(x, **options)) == {"scans:scan"}


def test_bundles_hold_the_kernels_of_every_target() -> None:
    kernel = implementations.serving(libraries.find("cumsum"), SM_90.vendor, SM_90.arch)
    requests = planning.compile_requests(kernel, [layout(LONG)], {}, SM_90, general=True)
    assert {request.source.name for request in requests} == {"scan"}


def test_a_multiprocessor_has_room_for_its_blocks() -> None:
    x = np.zeros(LONG, np.float32)
    (artifact,) = xtarget.compile("cumsum", x, target=str(SM_90))
    assert artifact.resources.local_bytes == 0
    kernel = implementations.serving(libraries.find("cumsum"), SM_90.vendor, SM_90.arch)
    options = dict(kernel.spec.options)
    plan, _, _ = plan_of_layouts(kernel, [layout(LONG)], options, SM_90)
    (launch,) = plan.launches
    call = planning.call_of(kernel, [layout(LONG)], options, SM_90, 132)
    blocks = planning.make_plan(kernel, call).launches[0].grid[0] // 132
    assert blocks * (artifact.shared_bytes + 1024) <= 228 * 1024
    registers = artifact.resources.registers
    assert registers is not None
    assert blocks * 32 * launch.num_warps * (registers + 7) // 8 * 8 <= 65536


@pytest.mark.large
@pytest.mark.parametrize("n", [LONG, LONG + 1, LONG + 8191, 5_000_003, (1 << 25) + 77])
def test_results(device: str, n: int) -> None:
    if not device.startswith("nvidia"):
        pytest.skip("these lengths are there for the kernel of sm_90")
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    found = xtarget.run("cumsum", x, device=device)
    right = x.astype(np.float64).cumsum()
    size = np.abs(x.astype(np.float64)).cumsum()
    assert np.max(np.abs(found - right) / size) < 1e-6
    for _ in range(3):
        np.testing.assert_array_equal(xtarget.run("cumsum", x, device=device), found)
    x = np.full(n, 0.1, np.float32)
    right = np.arange(1, n + 1) * np.float64(np.float32(0.1))
    found = xtarget.run("cumsum", x, device=device)
    assert np.max(np.abs(found - right) / right) < 1e-6


@pytest.mark.large
def test_infinities_and_nan_are_those_of_the_sums(device: str) -> None:
    if not device.startswith("nvidia"):
        pytest.skip("this length is there for the kernel of sm_90")
    x = np.ones(LONG + 100, np.float32)
    x[3_000_001] = np.inf
    x[3_000_040] = -np.inf
    with np.errstate(invalid="ignore"):
        right = x.astype(np.float64).cumsum()
    np.testing.assert_array_equal(xtarget.run("cumsum", x, device=device), right)
