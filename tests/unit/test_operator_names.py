"""Names of operators: aliases, refused ones, those of the table that people expect."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from operators import own

import xtarget
from xtarget import UnknownKernelError
from xtarget._kernels import libraries

NAMES = Path(__file__).parents[1] / "kernels" / "operator_names.tsv"


def test_no_name_leads_to_two_rows() -> None:
    rows = [*own().values(), *libraries.of_one_library()]
    counted = Counter(name for spec in rows for name in {spec.name, *spec.aliases})
    assert [name for name, count in counted.items() if count > 1] == []


def test_every_alias_leads_to_its_row() -> None:
    for spec in (*own().values(), *libraries.of_one_library()):
        for alias in (spec.name, *spec.aliases):
            assert libraries.find(alias).spec is spec, alias


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("RealDiv", "div"),
        ("aten::sub.Tensor", "torch.sub"),
        ("aten::bitwise_not", "bitwise_not"),
        ("torch.nn.functional.gelu", "gelu"),
        ("np.arctan2", "atan2"),
        ("tf.math.floormod", "remainder"),
        ("onnx::LeakyRelu", "leaky_relu"),
        ("onnx::Flatten", "flatten_2d"),
        ("ai.onnx.Flatten", "flatten_2d"),
        ("Flatten", "flatten"),
        ("LogicalAnd", "logical_and"),
        ("swish", "silu"),
        ("ClipByValue", "clip"),
    ],
)
def test_names_of_other_libraries(written: str, name: str) -> None:
    assert libraries.find(written).spec.name == name


@pytest.mark.parametrize(
    ("written", "near"),
    [("RealDivv", "RealDiv (div)"), ("sigmoidd", "sigmoid"), ("np.arctann", "arctan (atan)")],
)
def test_an_unknown_name_is_answered_with_near_ones(written: str, near: str) -> None:
    with pytest.raises(UnknownKernelError) as error:
        libraries.find(written)
    assert near in str(error.value)


def test_a_users_kernel_has_its_name_before_an_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "_kernels", dict(libraries._kernels))
    add = libraries.find("add")
    libraries.register(replace(add.spec, name="swish", aliases=()), add.source, "mine")
    assert libraries.find("swish").spec.name == "swish"


def test_what_the_catalog_refuses_is_said_with_its_reason() -> None:
    for name, reason in libraries._names._refused.items():
        with pytest.raises(UnknownKernelError) as error:
            libraries.find(name)
        assert reason in str(error.value)


def test_names_that_people_expect_are_found_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Each leads to a row of the library, is refused with its reason, or is counted as missing in
    docs/operators.md, which is compared with the table.
    """
    with NAMES.open(encoding="utf-8", newline="") as file:
        names = [name for _, name in csv.reader(file, delimiter="\t")]
    assert len(names) == len(set(names)) == 445
    found = [name for name in names if xtarget_has(name)]
    with capsys.disabled():
        print(f"{len(found)} of {len(names)} expected names are found")
    assert {"RealDiv", "Mish", "LogicalAnd", "ThresholdedRelu", "where_np"} <= set(found)


def xtarget_has(name: str) -> bool:
    try:
        return libraries.find(name).spec.name in xtarget.catalog()
    except UnknownKernelError:
        return False


def test_flaggems_operators_are_found() -> None:
    names = (NAMES.parent / "flaggems_names.txt").read_text(encoding="utf-8").split()
    assert len(names) == len(set(names)) > 200
    absent = set()
    for name in names:
        try:
            libraries.find(name.strip("_"))
        except UnknownKernelError:
            absent.add(name)
    assert len(absent) <= 0.05 * len(names), sorted(absent)
