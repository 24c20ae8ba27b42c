"""Products of 8-bit floating numbers by groups of warps on sm_90: which calls have them, what they
need, and their results where there is such a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

from test_choices import HOPPER
from test_plans import array

import xtarget
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.types import Target
from xtarget.spec import ArrayType, Plan

SOURCE = "hopper_eight_bits:matmul_in_groups"


def planned(m: int, n: int, k: int, target: str = HOPPER, **options: Any) -> Plan:
    known, scale = libraries.find("fp8_matmul"), array("float32", 1)
    types = array("uint8", m, k), ArrayType("uint8", (k, n), (1, k)), scale, scale
    options = {"dtype": "bfloat16", **options}
    call = planning.call_of(known, types, options, Target.parse(target), 132, aligned=[True] * 4)
    return planning.make_plan(known, call)


def sources(*sizes: int, **options: Any) -> list[str]:
    return [launch.source for launch in planned(*sizes, **options).launches]


def test_these_are_of_sums_that_the_units_make_and_results_that_the_copy_engine_stores() -> None:
    assert sources(8192, 8192, 8192) == [SOURCE]
    assert sources(1024, 1024, 1024) == [SOURCE]
    assert sources(1000, 1000, 1001) == ["narrow:laid", "narrow:laid", SOURCE]
    assert sources(8192, 8192, 8208) == ["narrow:matmul_in_turn"]  # more digits than the units keep
    assert sources(8192, 8196, 8192) == ["narrow:matmul_in_turn"]  # rows of the result
    for target in ("nvidia:sm_80", "nvidia:sm_100", "amd:gfx942"):
        assert SOURCE not in sources(8192, 8192, 8192, target=target)


def test_a_block_for_each_multiprocessor_makes_the_tiles_in_turn() -> None:
    for m, n in ((8192, 8192), (512, 1024)):
        (launch,) = planned(m, n, 4096).launches
        rows, columns = (int(str(launch.constants[name])) for name in ("ROWS", "BLOCK_N"))
        assert launch.grid == (min(132, -(-m // (2 * rows)) * -(-n // columns)), 1, 1)


@pytest.mark.parametrize("sizes", [(8192, 8192, 8192), (1024, 1024, 1024)])
def test_tiles_stay_in_registers_and_shared_memory(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b, scale = np.empty((m, k), np.uint8), np.empty((n, k), np.uint8).T, np.ones(1, np.float32)
    (made,) = xtarget.compile(
        "fp8_matmul", a, b, scale, scale, dtype="bfloat16", target="nvidia:sm_90"
    )
    assert made.entry == "matmul_in_groups"
    assert made.resources.local_bytes == 0
    assert made.shared_bytes <= 227 * 1024


@pytest.mark.large
@pytest.mark.parametrize("kinds", [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3")])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1000, 1112, 272), (129, 136, 128), (300, 4096, 4000), (1001, 1000, 1001)]
)
def test_results(
    device: str, m: int, n: int, k: int, whole: bool, kinds: tuple[str, str]
) -> None:  # fmt: skip
    """Tiles past the ends, a K that fills no step, one factor or one for each row and column, and
    nothing written beside the result."""
    if not device.startswith("nvidia"):
        pytest.skip("a kernel of NVIDIA's sm_90")
    torch = pytest.importorskip("torch")
    types = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    a, b = (
        torch.randn(rows, k, device="cuda").to(types[kind])
        for rows, kind in zip((m, n), kinds, strict=True)
    )
    scales = [torch.rand(1 if whole else rows, device="cuda") + 0.5 for rows in (m, n)]
    wide = torch.full((m, n + 8), 7.0, device="cuda", dtype=torch.bfloat16)
    formats = dict(zip(("format_a", "format_b"), kinds, strict=True))
    given = a.view(torch.uint8), b.view(torch.uint8).T, *scales
    xtarget.run("fp8_matmul", *given, out=wide[:, :n], dtype="bfloat16", **formats)
    first, second = (
        x.double() * scale.double()[:, None] for x, scale in zip((a, b), scales, strict=True)
    )
    exact = first @ second.T
    assert float((wide[:, :n].double() - exact).norm() / exact.norm()) < 4e-3
    assert bool((wide[:, n:] == 7).all())
    again = xtarget.run("fp8_matmul", *given, dtype="bfloat16", **formats)
    assert torch.equal(wide[:, :n], again)
