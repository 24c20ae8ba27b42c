"""What `xtarget tune` may try for attention, convolutions and sorting: it reaches the launches, and
results are the same by each of them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from test_plans import array

import xtarget
from xtarget._kernels import libraries, tunings
from xtarget._launch import planning
from xtarget._launch.prepared import Prepared
from xtarget._values.types import Target

HOPPER = "nvidia:sm_90"
CALLS: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
    ("attention of sm_90", "attention", (array("bfloat16", 4, 32, 4096, 128),) * 3, {}),
    (
        "attention",
        "attention",
        (array("bfloat16", 8, 32, 1, 128), *(array("bfloat16", 8, 8, 8192, 128),) * 2),
        {},
    ),
    (
        "convolution",
        "conv2d",
        (array("bfloat16", 32, 128, 56, 56), array("bfloat16", 128, 128, 3, 3)),
        {"padding": 1},
    ),
    ("convolution", "conv2d", (array("float32", 8, 3, 56, 56), array("float32", 64, 3, 7, 7)), {}),
    ("sort", "sort", (array("float32", 64, 2000),), {}),
    ("sort", "sort", (array("float32", 64, 131072),), {}),
    ("sort", "randperm", (), {"n": 100_000, "seed": 1}),
]


def planned(name: str, types: Any, options: Any, taken: Any, target: str = HOPPER) -> Any:
    with tunings.trying(taken) as seen:
        plan, _, _ = planning.plan_of_layouts(
            libraries.find(name), types, options, Target.parse(target)
        )
    return plan, seen


@pytest.mark.parametrize(("table", "name", "types", "options"), CALLS)
def test_a_choice_reaches_the_launches(table: str, name: str, types: Any, options: Any) -> None:
    usual, seen = planned(name, types, options, {})
    (asked,) = {
        str(one.asked.default): one.asked for one in seen if one.asked.table == table
    }.values()
    variants = list(asked.variants())
    assert 3 <= len(variants) <= 60
    assert asked.default in variants
    others = 0
    for one in variants:
        plan, _ = planned(name, types, options, {table: one})
        assert plan.outputs == usual.outputs
        others += plan.launches != usual.launches
    assert others >= 2  # some numbers are of kernels that this call does not need


@pytest.mark.parametrize("target", [HOPPER, "amd:gfx942"])
def test_tiles_stay_those_of_matrix_units(target: str) -> None:
    for table, name, types, options in CALLS:
        _, seen = planned(name, types, options, {}, target)
        for one in seen:
            for variant in one.asked.variants() if one.asked.table == table else ():
                numbers = variant._asdict()
                sides = ("queries", "keys", "channels", "positions", "k")
                assert all(numbers[side] >= 16 for side in sides if side in numbers)
                warps = numbers.get("num_warps", 1)
                assert warps & (warps - 1) == 0


@pytest.mark.skipif(find_spec("pyopencl") is None, reason="pyopencl is not installed")
@pytest.mark.parametrize("shape", [(3, 100), (2, 5000)])
def test_rows_have_one_order_by_each_choice(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    _, seen = planned(
        "sort", (array("float32", *shape),), {}, {}, str(xtarget.device("cpu").info.target)
    )
    asked = next(one.asked for one in seen if one.asked.table == "sort")
    for one in asked.variants():
        for changed in libraries.on_change:
            changed("sort")  # plans are made anew
        with tunings.trying({"sort": one}):
            launch = Prepared("sort", (x,), None, "cpu", None, {})
        np.testing.assert_array_equal(launch(), np.sort(x))
    for changed in libraries.on_change:
        changed("sort")
