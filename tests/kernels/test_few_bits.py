"""Products of few bits, and one matrix for each part, the ways that archs with units for them take:
plans, and results on the CPU, where descriptors are addresses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from test_choices import HOPPER, on_the_cpu, plan_of
from test_plans import array

import xtarget
from xtarget._kernels import libraries
from xtarget.spec import ArrayType, Plan

KERNELS = ("matmul_integer", "quantized_matmul", "fp8_matmul", "grouped_matmul", "linear_int4")


def turned(dtype: str, rows: int, columns: int) -> ArrayType:
    return ArrayType(dtype, (rows, columns), (1, rows))


def names(plan: Plan) -> list[str]:
    return [launch.source for launch in plan.launches]


def integers(
    m: int, n: int, k: int, kinds: tuple[str, str] = ("int8", "int8"), **options: Any
) -> list[str]:
    return names(
        plan_of("matmul_integer", array(kinds[0], m, k), turned(kinds[1], k, n), **options)
    )


def test_integers_come_through_descriptors() -> None:
    assert integers(8192, 8192, 8192) == ["narrow:matmul_in_turn"]
    assert integers(16, 4096, 4096) == ["narrow:matmul_in_turn"]
    laid = ["narrow:laid", "narrow:laid", "narrow:matmul_in_turn"]
    assert integers(1000, 1000, 1001) == laid
    assert integers(100, 1000, 1001) == ["narrow:matmul_integers"]  # too few rows read the copy
    assert integers(1024, 1024, 1024, ("uint8", "int8")) == [
        "narrow:sums", "narrow:laid", "narrow:matmul_in_turn"
    ]  # fmt: skip
    assert integers(8192, 8192, 8192, aligned=False)[-1] == "narrow:matmul_in_turn"
    assert integers(8192, 8192, 8192, aligned=None) == ["narrow:matmul_integers"]
    for target in ("nvidia:sm_80", "amd:gfx942", "amd:gfx1100"):
        assert integers(8192, 8192, 8192, target=target) == ["narrow:matmul_integers"]
    for target in ("cpu:spirv64", "intel:spirv64"):
        assert not any("narrow" in one for one in integers(512, 512, 512, target=target))


def test_the_units_sum_no_more_floating_numbers_than_they_keep_digits_for() -> None:
    scale = array("float32", 1)

    def fp8(k: int, dtype: str) -> Plan:
        known = libraries.find("fp8_matmul")
        from xtarget._launch import planning
        from xtarget._values.types import Target

        types = array("uint8", 4096, k), turned("uint8", k, 4096), scale, scale
        call = planning.call_of(
            known, types, {"dtype": dtype}, Target.parse(HOPPER), 132, aligned=[True] * 4
        )
        return planning.make_plan(known, call)

    assert names(fp8(8192, "bfloat16")) == ["hopper_eight_bits:matmul_in_groups"]
    assert 0 < fp8(8208, "bfloat16").launches[0].constants["FOLD"] <= 8192
    for dtype in ("float16", "float32"):  # which keep more digits than the units
        assert names(fp8(4096, dtype)) == ["mixed:matmul"]


@pytest.mark.parametrize("m", [1, 8, 9, 16, 17, 64, 65])
@pytest.mark.parametrize("target", [HOPPER, "nvidia:sm_80"])
def test_few_rows_read_weights_of_few_bits_once(m: int, target: str) -> None:
    x, scales = array("bfloat16", m, 4096), array("bfloat16", 4096, 32)
    for name, weight in (("linear_int4", array("uint8", 4096, 2048)),
                         ("linear_int8", array("int8", 4096, 4096))):  # fmt: skip
        plan = plan_of(name, x, weight, scales, target=target)
        few = m <= (64 if target == HOPPER else 32)
        own = target == HOPPER and m <= 32 and name == "linear_int4"
        kernel = ("hopper_few_rows" if m <= 8 else "hopper_some_rows") if own else "few_rows"
        assert names(plan)[0] == (f"{kernel}:matmul" if few else "mixed:matmul")
        assert not few or plan.launches[0].constants["BLOCK_M"] >= m
    short = plan_of("linear_int8", x, array("int8", 256, 4096), array("bfloat16", 256, 32))
    assert m > 64 or len(short.launches) == 2  # K is cut where columns are few
    sizes = array("bfloat16", m, 100), array("int8", 64, 100), array("bfloat16", 64)
    odd = plan_of("linear_int8", *sizes, target=target)
    assert names(odd) == ["mixed:matmul"]


def test_a_measured_tile_fits_shared_memory(library: Any) -> None:
    choices = library("plans.choices")
    for file in choices.FOLDER.glob("*.json"):
        vendor, _, arch = file.stem.partition("-")
        assert json.loads(file.read_text(encoding="utf-8"))["measured"]
        for table, size in (("products of 8 bits", 1), ("grouped products", 2)):
            for row in choices.rows(vendor, arch, table):
                m, n, k, warps, stages = row.config
                assert all(v & (v - 1) == 0 for v in (m, n, k, warps))
                assert (m + n) * k * size * stages <= 227 * 1024
        for row in choices.rows(vendor, arch, "few rows of few bits"):
            m, n, k, _, stages, slices = row.config
            packed = n * k * int(row.text["bits"]) // 8
            assert (2 * m * k + packed) * slices * stages <= 227 * 1024


@pytest.fixture
def choose(library: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes a table of choices for every arch, a CPU's too."""
    choices = library("plans.choices")
    kept = choices.rows

    def forget() -> None:
        for changed in libraries.on_change:
            for name in KERNELS:
                changed(name)

    def chosen(table: str, *entries: dict[str, Any]) -> None:
        made = tuple(map(choices._row, entries))
        monkeypatch.setattr(
            choices, "rows", lambda vendor, arch, name: made if name == table else kept("", "", "")
        )
        forget()

    yield chosen
    monkeypatch.undo()
    forget()


RNG = np.random.default_rng(7)


def bits(*shape: int, dtype: str = "uint8") -> Any:
    return RNG.integers(0, 256, shape).astype(np.uint8).view(dtype)


def test_sums_of_any_number_of_columns_fit_into_shared_memory() -> None:
    """Rows of the result that the copy engine cannot store: their sums go through shared memory."""
    pytest.importorskip("triton")
    a, b = np.empty((4000, 4096), np.int8), np.empty((4017, 4096), np.int8).T
    (made,) = xtarget.compile("matmul_integer", a, b, target=HOPPER)
    assert made.entry == "matmul_in_turn"
    assert made.shared_bytes <= 227 * 1024


@on_the_cpu
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "kinds", [("uint8", "uint8"), pytest.param(("uint8", "int8"), marks=pytest.mark.large)]
)
def test_integers_through_descriptors(
    choose: Any, library: Any, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, str]
) -> None:
    """Tiles past each end, several a block, copies of operands that lie in another way."""
    narrow = library("plans.narrow")
    monkeypatch.setitem(narrow._TILES, "cpu", narrow._TILES["nvidia"])
    monkeypatch.setattr(narrow, "_WORTH", 0)
    monkeypatch.setattr(narrow, "_READERS", 1)
    for name in ("_COPIED", "_SUMMED", "_SUMMED_ACROSS"):
        monkeypatch.setattr(narrow, name, (4, 16))
    choose("products of 8 bits", {"operands": "integers", "config": [4, 16, 16, 1, 1]})
    a, b = bits(35, 48, dtype=kinds[0]), bits(48, 21, dtype=kinds[1])
    exact = a.astype(int) @ b.astype(int)
    one = [row.source for row in planned("matmul_integer", a, b)]
    assert one[-1] == "narrow:matmul_in_turn"
    for x, y in ((a, b), (np.asfortranarray(a), np.asfortranarray(b))):
        np.testing.assert_array_equal(xtarget.run("matmul_integer", x, y, device="cpu"), exact)
    scales = RNG.random(35).astype(np.float32), np.float32([0.5])
    made = xtarget.run("quantized_matmul", a, b, *scales, device="cpu")
    np.testing.assert_allclose(made, exact * scales[0][:, None] * 0.5, rtol=1e-6)


def planned(name: str, *args: Any) -> Any:
    from xtarget._launch import planning

    target = xtarget.device("cpu").info.target
    return planning.plan_of_layouts(libraries.find(name), args, {}, target)[0].launches


@on_the_cpu
@pytest.mark.parametrize(
    "starts", [[5, 40, 40, 77, 90], [0, 33, 64, 80, 96], [90, 70, 50, 20, 3], [9, -9, 999, 2, 4]]
)
def test_a_matrix_for_each_part_through_descriptors(choose: Any, starts: list[int]) -> None:
    """Parts and rows without the other, tiles past a part's end; any starts stay inside."""
    choose("grouped products", {"operands": "half", "config": [16, 32, 16, 1, 1]})
    x = RNG.standard_normal((96, 24)).astype(np.float16)
    weight = RNG.standard_normal((4, 24, 40)).astype(np.float16)
    places = np.array(starts)
    assert planned("grouped_matmul", x, weight, places)[-1].source == "grouped:matmul_in_turn"
    made = xtarget.run("grouped_matmul", x, weight, places, device="cpu")
    if starts != sorted(starts):
        assert np.abs(made).max() < 100
        return
    exact = np.zeros((96, 40))
    for part in range(4):
        rows = slice(starts[part], starts[part + 1])
        exact[rows] = x[rows].astype(float) @ weight[part].astype(float)
    np.testing.assert_allclose(made, exact, rtol=4e-3, atol=2e-2)


@on_the_cpu
@pytest.mark.parametrize(
    ("way", "size", "zeros"),
    [("registers", 4, False), ("shared", 4, True), ("registers", 8, True)],
)
def test_few_rows(choose: Any, way: str, size: int, zeros: bool) -> None:
    """Steps past the end of K, parts of it by blocks of their own, infinite scales."""
    slices = 2 if way == "registers" else 1
    config = [4, 16, 32, 1, 1, slices]
    choose("few rows of few bits", {"bits": str(size), "way": way, "config": config})
    m, n, k, groups = 3, 21, 480, 5
    x = RNG.standard_normal((m, k)).astype(np.float16)
    weight = bits(n, k // 2 if size == 4 else k)
    scales = (RNG.random((n, groups)) + 0.5).astype(np.float16)
    more = [RNG.integers(0, 16, (n, groups)).astype(np.uint8)] if zeros else []
    name = f"linear_int{size}"
    assert planned(name, x, weight, scales, *more)[0].source == "few_rows:matmul"
    both = np.stack([weight & 15, weight >> 4], -1)
    wide = (both.reshape(n, k) if size == 4 else weight).astype(float)
    zero = more[0].astype(float)[..., None] if zeros else 8 if size == 4 else 128
    for endless in (False, True):
        if endless:
            scales[1, 2], scales[2, 4] = np.inf, -np.inf
        with np.errstate(all="ignore"):
            apart = (wide.reshape(n, groups, -1) - zero) * scales.astype(float)[..., None]
            exact = (x.astype(float) @ apart.reshape(n, k).T).astype(np.float16)
        made = xtarget.run(name, x, weight, scales, *more, device="cpu")
        np.testing.assert_allclose(made, exact, rtol=4e-3, atol=0.1)
