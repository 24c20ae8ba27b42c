"""Products on sm_90 whose operands come as descriptors that the host makes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

from test_choices import HOPPER, matrix, plan_of

import xtarget
from xtarget._bundle.builder import c_binaries, call_forms
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.types import Target

#: The kernel has to make descriptors of its own in the device's memory.
MADE = "tensormap"


def operand(rows: int, columns: int, way: str) -> Any:
    made = np.empty((columns, rows) if way == "T" else (rows, columns), np.float16)
    return made.T if way == "T" else made


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_each_matrix_is_a_descriptor_with_its_lengths_and_stride(layout: str) -> None:
    n, k = 4096, 96
    made = xtarget.compile(
        "matmul", operand(n, k, layout[0]), operand(k, n, layout[1]), target=HOPPER
    )
    (code,) = made
    types = {one.name: one.type for one in code.parameters}
    for name in ("a", "b", "out"):
        assert types[name].startswith("tensormap:6:2:3:")  # float16, 128 bytes of swizzle
        assert [types[f"{name}.shape.{axis}"] for axis in (0, 1)] == ["i32", "i32"]
        assert [types[f"{name}.stride.{axis}"] for axis in (0, 1)] == ["i64", "i64"]
    accesses = {one.name: one.access for one in code.parameters}
    assert (accesses["a"], accesses["b"], accesses["out"]) == ("r", "r", "wm")
    assert code.global_scratch.nbytes == 0
    assert MADE not in code.texts["ptx"]


def test_what_a_bundle_is_built_of_makes_its_own() -> None:
    kernel, types = libraries.find("matmul"), (matrix(4096, 4096, "N", "float16"),) * 2
    found = [
        planning.make_plan(
            kernel,
            planning.call_of(
                kernel, types, {}, Target.parse(HOPPER), 132, aligned=[True, True], general=general
            ),
        ).launches[-1]
        for general in (False, True)
    ]
    assert [sorted(launch.descriptors) for launch in found] == [["a", "b", "out"], []]


def test_a_bundles_calls_take_no_binary_whose_maps_nobody_makes() -> None:
    """Of a plan that gives descriptors whether or not it is for a bundle."""
    a = operand(2048, 2048, "N")
    (code,) = xtarget.compile("matmul", a, a, target=HOPPER)
    slots = [parameter.name for parameter in code.parameters if parameter.hidden is None]
    request: Any = SimpleNamespace(aligned=())
    record = {"constants": {}, "key": "0" * 64, "source": "a.b"}
    assert call_forms._binary(request, code, slots) is None
    assert c_binaries._binary(record, (), code) is None
    plain = tuple(
        replace(one, type="*fp16" if one.type.startswith("tensormap:") else one.type)
        for one in code.parameters
    )
    other = replace(code, parameters=plain)
    assert call_forms._binary(request, other, slots) is not None
    assert c_binaries._binary(record, (), other) is not None


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(
    ("n", "k", "entry"),
    [
        (320, 1024, "described:matmul_described"),
        (1024, 1024, "hopper_products:matmul_in_groups"),
        (2048, 2048, "hopper_products:matmul_in_groups"),
        (4096, 96, "described:matmul_in_turn"),
    ],
)  # fmt: skip
def test_products_start_early(layout: str, n: int, k: int, entry: str) -> None:
    plan = plan_of(
        "matmul", matrix(n, k, layout[0], "bfloat16"), matrix(k, n, layout[1], "bfloat16")
    )
    (launch,) = plan.launches
    assert launch.source == entry
    assert launch.constants.get("EARLY", True)
    assert launch.options["launch_pdl"]
