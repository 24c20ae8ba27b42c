"""Choices measured on an arch (`kernels/choices`), the ways they lead to, and their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from test_plans import array

import xtarget
from xtarget._bundle.builder import classes
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.types import Target
from xtarget.spec import ArrayType, Plan

HOPPER = "nvidia:sm_90"
on_the_cpu = pytest.mark.skipif(
    find_spec("pyopencl") is None, reason="pyopencl is not installed, which the CPU runs through"
)
Layout = tuple[int, int, str]


def matrix(rows: int, columns: int, layout: str, dtype: str) -> ArrayType:
    if layout == "T":
        return ArrayType(dtype, (rows, columns), (1, rows))
    return array(dtype, rows, columns)


def plan_of(
    kernel: str, *types: ArrayType, target: str = HOPPER, aligned: bool | None = True
) -> Plan:
    known = () if aligned is None else [aligned] * len(types)
    found = libraries.find(kernel)
    call = planning.call_of(found, types, {}, Target.parse(target), 132, aligned=known)
    return planning.make_plan(found, call)


def product(
    m: int, n: int, k: int, layout: str = "NN", dtype: str = "bfloat16", **options: Any
) -> list[str]:
    types = matrix(m, k, layout[0], dtype), matrix(k, n, layout[1], dtype)
    return [one.source.partition(":")[2] for one in plan_of("matmul", *types, **options).launches]


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_large_products_come_through_descriptors_in_every_layout(layout: str) -> None:
    for size in (4096, 6144):
        assert product(size, size, size, layout) in (["matmul_in_turn"], ["matmul_in_groups"])
    # where arrays begin anywhere, their copies do
    assert product(4096, 4096, 4096, layout, aligned=False)[:2] == ["copy", "copy"]
    assert product(128, 128, 128, layout, aligned=False) == ["matmul"]
    assert product(4096, 4096, 4096, layout, aligned=None) == ["matmul"]
    for target in ("nvidia:sm_80", "nvidia:sm_100", "amd:gfx942"):
        assert product(4096, 4096, 4096, layout, target=target) == ["matmul"]


@pytest.mark.parametrize("m", [1, 16, 33, 64])
@pytest.mark.parametrize("n", [4096, 14336])
@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_few_rows_are_one_launch(m: int, n: int, layout: str) -> None:
    types = matrix(m, 4096, "N", "bfloat16"), matrix(4096, n, layout[1], "bfloat16")
    (launch,) = plan_of("matmul", *types).launches
    alone = ("hopper_linear:few", "described:matmul_described")
    assert launch.source in alone or launch.constants["FEW"]
    assert launch.constants["BLOCK_M"] >= m


def test_rows_that_begin_anywhere_are_copied_first() -> None:
    assert product(333, 1001, 777) == ["copy", "copy", "matmul_described"]
    assert product(3001, 4111, 2777, "NT") == ["copy", "copy", "matmul_in_turn"]
    assert product(2048, 2048, 2049) == [
        "copy",
        "matmul_in_groups",
    ]  # b's rows begin as they should
    assert product(33, 1001, 777)[:3] == ["copy", "copy", "matmul_described_parts"]
    assert product(32, 1001, 777) == ["matmul"]  # too few rows read the copy


@pytest.mark.parametrize(
    ("m", "n", "k", "layout", "copies"),
    [
        (4104, 2640, 3768, "NT", 2), (4496, 744, 4312, "TT", 1), (3448, 3192, 4320, "NN", 1),
        (1008, 2168, 3472, "NN", 0), (4096, 4096, 4096, "NN", 0), (4112, 4112, 4112, "TN", 0),
    ],
)  # fmt: skip
def test_rows_at_odd_multiples_of_16_bytes_are_copied_where_a_large_product_waits_for_them(
    m: int, n: int, k: int, layout: str, copies: int
) -> None:
    made = product(m, n, k, layout)
    assert made[:-1] == ["copy"] * copies
    assert made[-1] in ("matmul_in_turn", "matmul_in_groups")


def test_a_k_that_fills_no_step_comes_through_descriptors() -> None:
    assert product(1723, 2942, 2600, "NT") == ["matmul_in_turn"]
    for layout in ("NN", "NT", "TN", "TT"):
        assert product(1000, 1000, 1000, layout) in (["matmul_described"], ["matmul_in_groups"])
        assert product(1000, 1000, 1000, layout, aligned=None) == ["matmul"]
        assert product(256, 264, 1000, layout) == ["matmul_described"]
    assert product(320, 320, 1024) == ["matmul_described"]
    assert product(320, 320, 512) == ["matmul"]


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("few", [40, 56, 64])
def test_few_rows_or_columns_of_such_a_k_do_too(few: int, layout: str) -> None:
    whole, cut = ["matmul_described"], ["matmul_described_parts", "added"]
    for many, k in ((4136, 2328), (544, 3976), (2600, 1304)):
        assert product(few, many, k, layout) in (whole, cut)
        assert product(many, few, k, layout) in (whole, cut)
    assert product(1936, 48, 2944, layout) in (whole, cut)  # few columns, whatever k is
    assert product(few, 4096, 4096, layout)[-1] not in ("matmul_described_parts", "added")


@pytest.mark.parametrize("rows", [1, 8, 16, 24, 32])
def test_a_row_that_ends_within_a_vector_of_masks_comes_through_descriptors(rows: int) -> None:
    found = product(rows, 4096, 4088, "NT")
    assert found in (["matmul_described"], ["matmul_described_parts", "added"])
    assert product(rows, 4096, 4096, "NT") == ["few"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_cpu_lays_columns_out_as_rows_that_are_read_more_than_once(dtype: str) -> None:
    def asked(*sizes: int, layout: str) -> list[str]:
        return product(*sizes, layout, dtype, target="cpu:spirv64")

    panels = "panels" if dtype == "float32" else "panels_of_pairs"
    assert asked(1, 1024, 1024, layout="NT") == ["matvec"]
    for m in (2, 16, 31):
        assert asked(m, 1024, 1024, layout="NN") == ["matmul_outer"]
        assert asked(m, 1024, 1024, layout="NT") == [panels, "matmul_outer"]
    assert asked(64, 600, 64, layout="TN") == [panels, "panels", "matmul_outer"]


@on_the_cpu
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(("m", "n", "k"), [(3, 70, 37), (17, 33, 50), (35, 530, 19)])
def test_products_by_panels(layout: str, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    exact = a.astype(float) @ b.astype(float)
    a, b = (np.asfortranarray(x) if t == "T" else x for x, t in zip((a, b), layout, strict=True))
    made = xtarget.run("matmul", a, b, device="cpu")
    np.testing.assert_allclose(made, exact, rtol=1e-5, atol=1e-5)


def test_columns_of_float32_are_copied_as_rows() -> None:
    assert product(2048, 2048, 2048, "NT", "float32") == ["transposed", "matmul"]
    assert product(2048, 2048, 2048, "NN", "float32") == ["matmul"]
    assert product(64, 2048, 2048, "NT", "float32") == ["matmul"]


def test_a_measured_tile_fits_shared_memory(library: Any) -> None:
    choices = library("plans.choices")
    files = list(choices.FOLDER.glob("*.json"))
    assert files
    for file in files:
        vendor, _, arch = file.stem.partition("-")
        told = json.loads(file.read_text(encoding="utf-8"))
        assert told["measured"]
        for table in ("matmul", "matmul with a tail", "matmul of copies"):
            for row in choices.rows(vendor, arch, table):
                m, n, k, warps, stages = row.config
                size = {"half": 2, "single": 4}[row.text["operands"]]
                stored = 0
                if row.text.get("way") == "in groups":  # each of them has tiles of its own
                    # whose columns are a power of two, or that and a smaller one
                    rest = n - (1 << n.bit_length() - 1)
                    m, warps, stored = m // (warps // 4), 4, m * min(rest or n, 64) * size
                    n -= rest
                    assert row.config[3] in (4, 8, 12, 16)
                    assert rest & (rest - 1) == 0
                assert all(v & (v - 1) == 0 for v in (m, n, k, warps))
                m, n = row.config[:2]
                assert (m + n) * k * size * stages + stored <= 227 * 1024


@pytest.fixture
def choose(library: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes a table of choices for every arch, a CPU's too."""
    choices, tuning = library("plans.choices"), library("plans.tuning_matmul")

    def chosen(**tables: list[dict[str, Any]]) -> None:
        made = {name.replace("_", " "): tuple(map(choices._row, t)) for name, t in tables.items()}
        monkeypatch.setattr(choices, "rows", lambda vendor, arch, table: made.get(table, ()))
        forget()

    def forget() -> None:
        tuning._of_words.cache_clear()
        for changed in libraries.on_change:
            for name in ("matmul", "softmax"):
                changed(name)

    yield chosen
    monkeypatch.undo()
    forget()


@on_the_cpu
@pytest.mark.parametrize("way", ["in turn", "described"])
def test_what_follows_a_product_through_descriptors(choose: Any, way: str) -> None:
    choose(matmul=[{"operands": "half", "way": way, "config": [16, 32, 16, 1, 1]}])
    rng = np.random.default_rng(1)
    shapes = (72, 40), (40, 104), (104,), (72, 104)
    a, b, c, d = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    fused = xtarget.fuse(
        lambda a, b, c, d: xtarget.run("relu", xtarget.run("matmul", a, b) + c) - d
    )
    exact = np.maximum(a.astype(float) @ b.astype(float) + c, 0) - d
    np.testing.assert_allclose(fused(a, b, c, d, device="cpu"), exact, rtol=4e-3, atol=1e-2)


@on_the_cpu
@pytest.mark.parametrize("way", ["in turn", "described"])
@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_products_through_descriptors(choose: Any, way: str, layout: str) -> None:
    """On the CPU, where descriptors are addresses: tiles past each end, and several a block."""
    choose(matmul=[{"operands": "half", "way": way, "config": [16, 32, 16, 1, 1]}])
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((72, 40), (40, 104)))
    a, b = (np.asfortranarray(x) if t == "T" else x for x, t in zip((a, b), layout, strict=True))
    made = xtarget.run("matmul", a, b, device="cpu")
    exact = a.astype(float) @ b.astype(float)
    np.testing.assert_allclose(made, exact, rtol=2e-3, atol=2e-3)
    assert f"matmul_{way.replace(' ', '_')}" in sources(a, b)


@pytest.mark.sample(4, each=("way", "layout", "m"))
@on_the_cpu
@pytest.mark.parametrize("way", ["in turn", "described"])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(("m", "n"), [(16, 32), (17, 33), (77, 101), (9, 20)])
def test_products_through_descriptors_that_end_inside_a_tile(
    choose: Any, way: str, layout: str, m: int, n: int
) -> None:
    choose(matmul=[{"operands": "half", "way": way, "config": [16, 32, 16, 1, 1]}])
    rng = np.random.default_rng(m)
    # rows that begin at multiples of 16 bytes, whatever their lengths
    a, b = (
        rng.standard_normal((rows if t == "N" else columns, 104)).astype(np.float16)
        for (rows, columns), t in zip(((m, 40), (40, n)), layout, strict=True)
    )
    a = a[:, :40] if layout[0] == "N" else a[:, :m].T
    b = b[:, :n] if layout[1] == "N" else b[:, :40].T
    made = [xtarget.run("matmul", a, b, device="cpu") for _ in range(2)]
    np.testing.assert_allclose(made[0], a.astype(float) @ b.astype(float), rtol=2e-3, atol=4e-3)
    np.testing.assert_array_equal(*made)
    assert f"matmul_{way.replace(' ', '_')}" in sources(a, b)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_a_long_k_of_few_tiles_through_descriptors_is_cut(layout: str) -> None:
    assert product(384, 256, 8192, layout) == ["matmul_described_parts", "added"]
    assert product(384, 256, 1024, layout) == ["matmul_described"]  # adding would take longer
    assert product(384, 256, 8192, layout, aligned=None) == ["matmul"]


@on_the_cpu
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("k", [512, 520, 600])
def test_pieces_of_k_through_descriptors(choose: Any, layout: str, k: int) -> None:
    if xtarget.device("cpu").info.compute_units < 2:
        pytest.skip("a single processor has nothing to share out")
    config = [16, 32, 16, 1, 1]
    row = {"operands": "half", "way": "described", "config": config, "cost": [0, 0, 100, 0, 0]}
    choose(matmul=[row])
    rng = np.random.default_rng(k)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((16, k), (k, 24)))
    a, b = (np.asfortranarray(x) if t == "T" else x for x, t in zip((a, b), layout, strict=True))
    a, b = a[:9], b[:, :20]  # rows begin at multiples of 16 bytes
    made = [xtarget.run("matmul", a, b, device="cpu") for _ in range(2)]
    np.testing.assert_allclose(made[0], a.astype(float) @ b.astype(float), rtol=2e-3, atol=6e-2)
    np.testing.assert_array_equal(*made)
    assert "matmul_described_parts" in sources(a, b)


def tile(m: int, n: int, k: int, **options: Any) -> tuple[Any, ...]:
    types = matrix(m, k, "N", "bfloat16"), matrix(k, n, "T", "bfloat16")
    constants = plan_of("matmul", *types, **options).launches[-1].constants
    return constants["BLOCK_M"], constants["BLOCK_N"]


def test_of_choices_with_a_cost_the_one_of_the_least_estimate_is_taken(choose: Any) -> None:
    def row(m: int, n: int, *cost: int, **words: str) -> dict[str, Any]:
        words = {"operands": "half", "way": "described", **words}
        return {**words, "config": [m, n, 64, 4, 4], "cost": list(cost)}

    choose(matmul=[row(128, 128, 0, 0, 300), row(64, 128, 0, 0, 200), row(64, 64, 0, 900, 200)])
    assert tile(128 * 5, 128 * 12, 256) == (64, 128)  # one tile each: 200 a step, not 300
    assert tile(128 * 11, 128 * 12, 256) == (128, 128)  # one tile each, or two of 200
    assert tile(128 * 12, 128 * 11 + 1, 256) == (128, 128)  # two tiles of 300, or four
    found = [row(64, 64, 0, 0, 100), row(128, 256, 0, 0, 1, out="stored")]
    choose(matmul=found)
    assert tile(512, 512, 256) == (128, 256)
    assert tile(512, 513, 256) == (64, 64)  # rows of the result begin anywhere
    choose(matmul=[{**found[0], "cost": []}, found[1]])
    assert tile(512, 512, 256) == (64, 64)  # the first that holds has no cost


def test_a_large_product_takes_a_tile_that_fetches_less() -> None:
    """128 x 128 took 1.17 x as long there (H100)."""
    a, b = (
        ArrayType("bfloat16", (1856, 1232), (1232, 1)),
        ArrayType("bfloat16", (1232, 2928), (1, 1232)),
    )
    constants = plan_of("matmul", a, b).launches[-1].constants
    columns = constants["BLOCK_N"] + constants.get("REST", 0)
    rows = constants.get("BLOCK_M") or constants["GROUPS"] * constants["ROWS"]
    assert rows * columns > 128 * 128


def sources(*args: Any) -> str:
    info = xtarget.device("cpu").info
    plan, _, _ = planning.plan_of_layouts(libraries.find("matmul"), args, {}, info.target)
    return " ".join(launch.source for launch in plan.launches)


@on_the_cpu
@pytest.mark.parametrize("way", ["", "whole"])
def test_softmax_of_long_rows(
    choose: Any, library: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Several elements of each column a step, with rows that begin with nothing but -inf."""
    tuning = library("plans.tuning")
    monkeypatch.setattr(tuning, "rows", lambda vendor: tuning.Rows(128, 32, 256, 512, 1))
    config = [1024, 1, 1] if way else [32, 4, 1]
    choose(softmax_of_long_rows=[{"bytes": "4", "way": way, "config": config}])
    x = np.random.default_rng(0).standard_normal((3, 999)).astype(np.float32) * 5
    x[1, :700] = -np.inf
    x[2, 5] = np.nan
    made = xtarget.run("softmax", x, device="cpu")
    power = np.exp(x[:2].astype(float) - x[:2].max(1, keepdims=True))
    np.testing.assert_allclose(made[:2], power / power.sum(1, keepdims=True), rtol=4e-6)
    assert np.isnan(made[2]).all()


@on_the_cpu
def test_copies_against_the_order_of_memory_go_by_tiles(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    transposes = library("plans.transposes")
    monkeypatch.setitem(transposes._TILES, "cpu", transposes._Tile(32, 16, 1))
    x = np.random.default_rng(0).integers(0, 99, (3, 70, 2, 45)).astype(np.int16)
    found = libraries.find("transpose")
    for axes in ((0, 3, 2, 1), (3, 0, 1, 2)):
        target = xtarget.device("cpu").info.target
        plan, _, _ = planning.plan_of_layouts(found, (x,), {"axes": axes}, target)
        assert plan.launches[0].source == "movement:transposed"
        made = xtarget.run("transpose", x, axes=axes, device="cpu")
        np.testing.assert_array_equal(made, x.transpose(axes))
    assert plan_of("transpose", array("int8", 64, 8)).launches[0].source == "movement:copy"


def test_what_needs_aligned_arrays_says_so_and_others_have_another_launch() -> None:
    types = [array("bfloat16", 4096, 4096)] * 2
    (launch,) = plan_of("matmul", *types).launches
    assert launch.on_aligned
    (launch,) = plan_of("matmul", *types, aligned=None).launches
    assert not launch.on_aligned
    found = classes.classes(
        libraries.find("matmul"), "bfloat16", Target.parse(HOPPER), views=False, full=False
    )
    general = launch.source.replace("hopper_linear", "linear")  # what bundles have instead
    tiles = {one.request.constants for one in found if one.source == general}
    assert tuple(launch.constants.items()) in tiles
