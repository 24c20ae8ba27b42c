"""The model of matrix products against what an H200 measured, and the table that is made of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xtarget._kernels import libraries, tunings
from xtarget._kernels.tuning_files import DEFAULT, Entry, read_file
from xtarget._launch import planning
from xtarget._system import processor
from xtarget._values.symbols import Tracer
from xtarget._values.types import Target
from xtarget.spec import ArrayType

TUNED = Path(__file__).parents[2] / "benchmarks" / "tuned"
MEASURED = TUNED / "nvidia-h200.json"
CPU = "cpu:spirv64"


def ranks(values: list[float]) -> Any:
    """Equal values share their mean place."""
    found = np.asarray(values)
    return [(found < v).sum() + 0.5 * (found == v).sum() for v in found]


def product(
    m: int, n: int, k: int, a: str, b: str, target: str, units: int, *, hosted: bool = False
) -> Any:
    """The question of a product in halves.

    Args:
        hosted: the host makes tensor descriptors, as it does where no bundle is built.
    """
    kernel = libraries.find("matmul")
    types = [
        ArrayType("float16", shape, (shape[1], 1) if lies == "rows" else (1, shape[0]))
        for shape, lies in (((m, k), a), ((k, n), b))
    ]
    call = planning.call_of(
        kernel, types, {}, Target.parse(target), units, aligned=[True, True], general=not hosted
    )
    with tunings.trying({}) as seen:
        planning.make_plan(kernel, call)
    return seen[0]


def correlation(entry: Entry) -> float:
    """Spearman's, of the results of one product."""
    asked = product(
        *(entry.sizes[name] for name in "mnk"), entry.words["a"], entry.words["b"],
        "nvidia:sm_90", 132,
    ).asked  # fmt: skip
    assert dict(asked.words()) == entry.words
    told = [asked.estimate(asked.read(text)) for text in entry.results]
    real = [one.seconds or 0.0 for one in entry.results.values()]
    return float(np.corrcoef(ranks(told), ranks(real))[0, 1])


def test_the_model_orders_choices_as_the_device_does() -> None:
    entries = [entry for entry in read_file(MEASURED) if entry.words.get("operands") == "half"]
    assert len(entries) >= 25
    found = [correlation(entry) for entry in entries]
    assert np.mean(found) >= 0.8
    assert min(found) >= 0.55


@pytest.fixture
def vectors(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Says for which processor the run time makes code, whatever this machine has."""
    archs = {"avx2": "core-avx2", "avx512": "skx", "other": "corei7"}
    return lambda name: monkeypatch.setenv(processor.ARCH, archs[name])


def outer(entry: Entry) -> tunings.Served:
    """The question of a CPU's product, as an entry has it."""
    types = [
        ArrayType("float32", shape, (shape[1], 1) if entry.words[name] == "rows" else (1, shape[0]))
        for name, shape in (
            ("a", (entry.sizes["m"], entry.sizes["k"])),
            ("b", (entry.sizes["k"], entry.sizes["n"])),
        )
    ]
    call = planning.call_of(libraries.find("matmul"), types, {}, Target.parse(CPU), 2)
    with tunings.trying({}) as seen:
        planning.make_plan(libraries.find("matmul"), call)
    return seen[0]


def test_the_model_of_a_cpu_orders_tiles_as_one_does(vectors: Callable[[str], None]) -> None:
    vectors("avx2")
    entries = read_file(TUNED / "cpu-avx2.json")
    assert len(entries) >= 5
    found = []
    for entry in entries:
        asked = outer(entry).asked
        assert dict(asked.words()) == entry.words
        assert asked.estimate is not None
        told = [asked.estimate(asked.read(text)) for text in entry.results]
        real = [one.seconds or 0.0 for one in entry.results.values()]
        found.append(float(np.corrcoef(ranks(told), ranks(real))[0, 1]))
    assert np.mean(found) >= 0.8
    assert min(found) >= 0.75


@pytest.mark.parametrize(("name", "how"), [("avx2", "measured"), ("avx512", "derived")])
def test_a_cpus_choices_are_of_its_vectors(
    vectors: Callable[[str], None], name: str, how: str
) -> None:
    vectors(name)
    every = tunings.shipped_entries(CPU)
    own = [one for one in every if one.words["vectors"] == name]
    assert own
    assert {one.how for one in own} == {how}
    products = [one for one in own if one.table == "matmul"]
    assert len(products) >= 5
    for entry in products:
        served = outer(entry)
        assert served.how == how
        assert entry.best == DEFAULT
        assert served.choice == served.asked.default
    vectors("other")
    assert {outer(entry).how for entry in products} == {"default"}


def test_ranges_that_all_have_the_default_divide_no_class(vectors: Callable[[str], None]) -> None:
    vectors("avx2")
    tracer = Tracer()
    m, n, k = (tracer.symbol(name, 1024) for name in "mnk")
    types = [ArrayType("float32", (m, k), (k, 1)), ArrayType("float32", (k, n), (n, 1))]
    call = planning.call_of(libraries.find("matmul"), types, {}, Target.parse(CPU), 2)
    with tunings.trying({}) as seen:
        planning.make_plan(libraries.find("matmul"), call)
    assert seen[0].how == "measured"
    assert not tracer.failing([1600, 1600, 1600])  # of the next octave


def test_a_derived_choice_says_so_and_fits_the_arch() -> None:
    libraries.catalog()
    entries = tunings.shipped_entries("nvidia:sm_80")
    assert entries
    for entry in entries:
        assert entry.how == "derived"
        served = product(
            *(entry.sizes[name] for name in "mnk"), entry.words["a"], entry.words["b"],
            "nvidia:sm_80", 108,
        )  # fmt: skip
        assert (served.how, served.asked.text(served.choice)) == ("derived", entry.best)
        one = served.choice
        assert (one.m + one.n) * one.k * 2 * one.num_stages <= 163 * 1024


def test_what_is_measured_serves_near_sizes_only_where_a_rule_was_measured_too() -> None:
    (entry,) = [
        one for one in tunings.shipped_entries("nvidia:sm_90")
        if one.sizes == {"m": 1024, "n": 1024, "k": 1024}
        and (one.words["a"], one.words["b"]) == ("rows", "rows")
    ]  # fmt: skip
    near = product(1000, 1024, 1088, "rows", "rows", "nvidia:sm_90", 132)
    far = product(1400, 1024, 1024, "rows", "rows", "nvidia:sm_90", 132)
    assert near.asked.text(near.choice) == entry.best
    assert near.how == "measured"
    assert "H200" in near.where
    assert far.choice == far.asked.default


def test_what_was_measured_by_descriptors_of_the_kernels_own_says_nothing_of_the_hosts() -> None:
    made = product(1024, 1024, 1024, "rows", "rows", "nvidia:sm_90", 132, hosted=True)
    assert made.asked.words()["described"] == "by the host"
    assert made.choice == made.asked.default
    assert made.choice.way == "in groups"
