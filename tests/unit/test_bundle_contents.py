"""A bundle's few binaries, found from a kernel's examples alone, serve calls of any sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from xtarget import Target
from xtarget._bundle import reader
from xtarget._bundle.builder.classes import Class, classes
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._verify.compiled import layouts
from xtarget.spec import ABSENT, ArrayType, Call, Input, KernelSpec, Launch, Output, Plan, cdiv

SM_90 = Target.parse("nvidia:sm_90")
TARGETS = ("nvidia:sm_80", "nvidia:sm_90", "amd:gfx942", "amd:gfx1100", "intel:spirv64")


@cache
def built(name: str, target: Target = SM_90, dtype: str = "float32") -> list[Class]:
    return classes(libraries.find(name), dtype, target, views=False, full=False)


def keys(found: list[Class]) -> set[bytes]:
    return {reader.class_key(one.request) for one in found}


@pytest.mark.parametrize(
    ("targets", "most"),
    [(("nvidia:sm_90",), 100), pytest.param(TARGETS, 400, marks=pytest.mark.long)],
)
def test_a_variant_differs_in_code_not_in_a_size(targets: Sequence[str], most: int) -> None:
    """Issue 13: no more than 400 of these, which were 2,303 and then 1,295."""
    count = sum(
        len(one.variants)
        for target in targets
        for name in ("add", "softmax", "matmul")
        for one in built(name, Target.parse(target))
    )
    assert count <= most


def test_64_bit_indices_have_the_general_form_alone() -> None:
    wide = [one for one in built("add") if ("n", "i64") in one.request.signature]
    assert wide
    for one in wide:
        assert one.variants == {()}
        assert len(dict(one.request.signature)["so"]) == 4


@pytest.mark.parametrize(
    "name", ["var", "cross_entropy", "group_norm", "add_rms_norm", "cumsum", "log_softmax_backward"]
)
def test_examples_are_enough_to_serve_any_lengths(name: str) -> None:
    """None of these has an `ahead` of its own."""
    kernel, found, rng = libraries.find(name), keys(built(name)), np.random.default_rng(5)
    assert kernel.spec.ahead is None
    missed = []
    for number in range(40):
        shape = tuple(int(np.exp(rng.uniform(0, np.log(8000)))) for _ in range(2))
        shape = tuple(max(16, n // 16 * 16) for n in shape) if number % 2 else shape
        args = layouts(kernel.spec, "float32", shape)
        requests = planning.compile_requests(kernel, args, {}, SM_90, general=True)
        missed += [shape for one in requests if reader.class_key(one) not in found]
    assert len(missed) <= 1, missed


@pytest.mark.parametrize("name", ["add", "softmax", "sum", "matmul"])
def test_arrays_in_any_layout_find_their_class(name: str) -> None:
    kernel, found, rng = libraries.find(name), keys(built(name)), np.random.default_rng(6)
    for _ in range(40):
        m, n, k = (int(rng.integers(2, 3000)) for _ in range(3))
        x = ArrayType("float32", (m, n), ((n, 1), (1, m), (2 * n, 2), (n + 3, 1))[rng.integers(4)])
        y = {"add": x, "matmul": ArrayType("float32", (n, k), ((k, 1), (1, n))[rng.integers(2)])}
        args = [x, y[name]] if name in y else [x]
        options = {"axis": int(rng.integers(2))} if name in ("softmax", "sum") else {}
        for one in planning.compile_requests(kernel, args, options, SM_90, general=True):
            assert reader.class_key(one) in found, (args, options)


def test_attention_has_one_kernel_for_plain_columns_and_one_for_all_other_layouts() -> None:
    """Whichever of the arrays lie across: a binary of each combination would be one of hundreds."""
    kernel, (rows, n) = libraries.find("attention"), (128, 64)
    plain, across = (ArrayType("float32", (rows, n), steps) for steps in ((n, 1), (1, rows)))
    keys: dict[Any, list[int]] = {}
    for number in range(8):
        args = [across if number >> place & 1 else plain for place in range(3)]
        (one,) = planning.compile_requests(kernel, args, {}, SM_90, general=True)
        keys.setdefault(reader.class_key(one), []).append(number)
    assert sorted(keys.values()) == [[0], [1, 2, 3, 4, 5, 6, 7]]


def optional(call: Call) -> Plan:
    x = call.array(0)
    assert call.args[1] is ABSENT
    launch = Launch(
        "softmaxes:softmax",
        {"x": Input(0), "out": Output(), "n": x.size},
        {},
        (cdiv(x.size, 8), 1, 1),
    )
    return Plan((call.output(x.shape, x.dtype),), (launch,))


def test_an_example_may_leave_an_optional_array_out() -> None:
    spec = KernelSpec(
        "odd", ("x", "bias?"), optional, by_name=True, examples=lambda shape: [shape, None]
    )
    kernel = libraries.find("softmax").of(spec)
    found = classes(kernel, "float32", SM_90, views=False, full=False)
    assert found
