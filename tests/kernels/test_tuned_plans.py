"""Variants that `xtarget tune` may try for attention, convolutions and sorting: they reach the
launches, and results are the same by each of them."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from oracle import expected
from test_plans import array

import xtarget
from xtarget._kernels import libraries, tunings
from xtarget._launch import planning
from xtarget._launch.prepared import Prepared
from xtarget._values.types import Target

HOPPER, CPU = "nvidia:sm_90", "cpu:spirv64"
#: On the CPU: the table, the operator, shapes and options.
OUTER: list[tuple[str, str, tuple[tuple[int, ...], ...], dict[str, Any]]] = [
    ("attention by outer products", "attention", ((8, 130, 16), (8, 70, 16), (8, 70, 16)), {}),
    ("convolution by outer products", "conv2d", ((1, 16, 12, 20), (8, 16, 3, 3)), {"padding": 1}),
]
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
#: Of the tables that none of these asks.
OTHERS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *((name, (array("float32", 512, 512),), {}) for name in ("exp", "softmax", "cumsum")),
    ("sum", (array("float32", 8192, 8192),), {"axis": 0}),
    ("matmul", (array("float16", 512, 512),) * 2, {}),
    ("matmul", (array("float16", 4000, 4017), array("float16", 4017, 4001)), {}),
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


def test_tables_have_the_numbers_that_plans_ask() -> None:
    """So measurements of these numbers can be imported, and those that we ship serve."""
    seen = [
        one
        for name, types, options in (*(call[1:] for call in CALLS), *OTHERS)
        for one in planned(name, types, options, {})[1]
    ]
    for _, name, shapes, options in OUTER:
        seen += planned(name, [array("float32", *one) for one in shapes], options, {}, CPU)[1]
    asked = {one.asked.table: list(one.asked.default._asdict()) for one in seen}
    assert json.loads((libraries.own_folder() / "tables.json").read_text("utf-8")) == asked
    for target in (CPU, "nvidia:sm_80", HOPPER):
        for entry in tunings.shipped_entries(target):
            names = [part.partition("=")[0] for part in entry.best.split(", ")]
            assert names in (["default"], asked[entry.table])
    served = {
        one.asked.words()["kernel"]: one.how for one in seen if one.asked.table == "reduction"
    }
    assert served["sum"] == "measured"


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


@pytest.mark.parametrize(("table", "name", "shapes", "options"), OUTER)
def test_a_choice_reaches_the_launches_of_outer_products(
    table: str, name: str, shapes: Any, options: Any
) -> None:
    types = [array("float32", *shape) for shape in shapes]
    usual, seen = planned(name, types, options, {}, CPU)
    (asked,) = [one.asked for one in seen if one.asked.table == table]
    variants = list(asked.variants())
    assert 10 <= len(variants) <= 40
    for one in variants:
        plan, _ = planned(name, types, options, {table: one}, CPU)
        assert plan.outputs == usual.outputs
        numbers = one._asdict()
        assert all(n & (n - 1) == 0 for n in numbers.values())
        assert numbers.get("keys", 512) % numbers.get("width", 1) == 0
    changed = {str(planned(name, types, options, {table: one}, CPU)[0]) for one in variants}
    assert len(changed) >= 8


@pytest.mark.skipif(find_spec("pyopencl") is None, reason="pyopencl is not installed")
@pytest.mark.parametrize(("table", "name", "shapes", "options"), OUTER)
def test_sums_are_the_same_by_each_choice_of_outer_products(
    table: str, name: str, shapes: Any, options: Any
) -> None:
    rng = np.random.default_rng(0)
    args = tuple(rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    types = [array("float32", *shape) for shape in shapes]
    right = expected(name, args, options)
    _, seen = planned(name, types, options, {}, str(xtarget.device("cpu").info.target))
    asked = next(one.asked for one in seen if one.asked.table == table)
    for one in asked.variants():
        if sum(a != b for a, b in zip(one, asked.default, strict=True)) > 1:
            continue  # each number by itself
        for changed in libraries.on_change:
            changed(name)  # plans are made anew
        with tunings.trying({table: one}):
            launch = Prepared(name, args, None, "cpu", None, options)
        np.testing.assert_allclose(launch(), right, rtol=1e-4, atol=1e-5)
    for changed in libraries.on_change:
        changed(name)


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
