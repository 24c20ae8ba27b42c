"""The model of matrix products against what an H200 measured, and the table that is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xtarget._kernels import libraries, tunings
from xtarget._kernels.tuning_files import Entry, read_file
from xtarget._launch import planning
from xtarget._values.types import Target
from xtarget.spec import ArrayType

MEASURED = Path(__file__).parents[2] / "benchmarks" / "tuned" / "nvidia-h200.json"


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
    assert made.choice.way == "described"
