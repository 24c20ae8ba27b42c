"""Reports of `xtarget verify`: of results, of older reports, and of several machines."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from artifacts import SAMPLE_DEVICE
from command_line import here
from hypothesis import given
from hypothesis import strategies as st

from xtarget import XTargetError
from xtarget._values.types import DTYPES, Target
from xtarget._verify import drift, page, report
from xtarget._verify.cases import Case, cases, values
from xtarget._verify.comparison import compare, units_in_the_last_place
from xtarget._verify.verify import Row

ROOT = Path(__file__).resolve().parents[2]

# -------------------------------------------------------------------------------------- comparison


@given(st.floats(width=16, allow_nan=False, allow_infinity=False))
def test_a_unit_in_the_last_place_is_the_distance_of_neighbours(value: float) -> None:
    half = np.float16(value)
    expected = abs(float(np.nextafter(half, np.float16(np.inf), dtype=np.float16)) - float(half))
    if np.isfinite(expected) and abs(value) < 65504 and half >= 0:
        assert units_in_the_last_place(np.array(value), "float16") == expected


@pytest.mark.parametrize(("dtype", "unit"), [("float32", 2.0**-23), ("bfloat16", 2.0**-7)])
def test_units_of_one(dtype: str, unit: float) -> None:
    assert units_in_the_last_place(np.array([1.0, 1.99, 2.0]), dtype).tolist() == [
        unit,
        unit,
        2 * unit,
    ]


def test_what_is_rounded_rightly_is_off_by_half_a_unit() -> None:
    exact = np.linspace(1, 2, 1001)
    found = compare(exact.astype(ml_dtypes.bfloat16), exact, (0, 0))
    assert found.ok
    assert 0.49 < found.max_ulp <= 0.5


def test_a_kernel_that_says_it_is_exact_has_to_be() -> None:
    exact = np.array([1.0, 3.0])
    close = np.array([1.0, np.nextafter(np.float32(3), np.float32(4))], np.float32)
    assert not compare(close, exact, (0, 0)).ok
    assert compare(close, exact, (4, 0)).ok
    assert compare(close, exact).ok  # a kernel that says nothing


def test_nan_and_infinities_have_to_be_in_their_places() -> None:
    exact = np.array([np.nan, np.inf, 1.0])
    for wrong in ([1.0, np.inf, 1.0], [np.nan, -np.inf, 1.0], [np.nan, np.inf, np.nan]):
        assert compare(np.array(wrong, np.float32), exact, (64, 64)).wrong == 1
    assert compare(exact.astype(np.float32), exact, (0, 0)).ok


def test_an_element_that_is_off_is_counted_and_measured() -> None:
    exact = np.ones(100)
    result = exact.astype(np.float32)
    result[7] = 1.5
    found = compare(result, exact, (4, 4))
    assert (found.ok, found.wrong, found.size) == (False, 1, 100)
    assert found.max_abs_error == 0.5
    assert found.max_ulp == 2.0**22
    assert found.of_tolerance > 1


def test_integers_are_exact() -> None:
    assert compare(np.arange(3), np.arange(3)).ok
    assert compare(np.array([1, 2, 4]), np.arange(1, 4)).wrong == 1


def test_empty_results_are_right() -> None:
    for tolerance in (None, (0, 0), (1, 1)):
        assert compare(np.ones((0, 3), np.float32), np.ones((0, 3)), tolerance).ok


# -------------------------------------------------------------------------------------------- cases


@pytest.mark.parametrize("layout", ["contiguous", "reversed", "transposed"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "bfloat16", "float64"])
def test_inputs_have_the_shape_and_dtype_that_was_asked_for(layout: str, dtype: str) -> None:
    for kind in ("normal", "special", "extreme"):
        if kind == ("special" if dtype[0] in "iu" else "extreme"):
            continue
        array = values(Case(dtype, (5, 7), kind, layout), (5, 7), dtype, 3)
        assert array.shape == (5, 7)
        assert array.dtype.name == dtype
        assert array.flags.c_contiguous == (layout == "contiguous")
        again = values(Case(dtype, (5, 7), kind, layout), (5, 7), dtype, 3)
        assert array.tobytes() == again.tobytes()


# ------------------------------------------------------------------------------------------ reports


def made(**rows: tuple[str, float]) -> dict[str, Any]:
    found = [Row(k, "float32", status, 3, max_ulp=ulp) for k, (status, ulp) in rows.items()]
    return report.document(found, SAMPLE_DEVICE)


def test_what_is_worse_than_before_is_told() -> None:
    old = made(add=("right", 0.5), exp=("right", 1.0), sum=("right", 4.0), max=("wrong", 9.0))
    new = made(add=("right", 0.6), exp=("right", 2.5), sum=("failed", 0.0), mul=("wrong", 3.0))
    told = drift.drift(old, new)
    assert [sentence.split(":")[0] for sentence in told.worse] == [
        "exp float32",
        "sum float32 was right and is failed",
    ]
    assert [note.split(" ")[0] for note in told.notes] == ["1", "1"]  # mul is new, max was not run
    assert drift.drift(old, old) == drift.Drift((), ())


def test_reports_of_other_versions_places_and_numbers_of_calls() -> None:
    old, new = made(exp=("right", 1.0)), made(exp=("right", 2.5))
    old |= {"xtarget": "0.0.9"}
    old["device"] = {**old["device"], "target": "acme:1"}
    old["rows"][0]["cases"] = 2
    told = drift.drift(old, new)
    assert told.worse == ()
    for note, says in zip(told.notes, ("xtarget 0.0.9", "acme:1", "fewer calls then"), strict=True):
        assert says in note
    compiled = report.document((), Target("cpu", "spirv64"))
    with pytest.raises(XTargetError, match="Compare without --target"):
        drift.check_same_kind(old, compiled["device"], "old.json")
    with pytest.raises(XTargetError, match="Compare with --target"):
        drift.check_same_kind(compiled, old["device"], "old.json")


def test_the_stored_report_of_a_target_is_found() -> None:
    for file in sorted((ROOT / "docs" / "reports").glob("*.json")):
        found = report.read(file)
        device = found["device"]
        stored = drift.released(device["target"], device["runs_on"])
        assert stored == file or len(report.read(stored)["rows"]) > len(found["rows"])
    with pytest.raises(XTargetError, match=r"no report of acme:1, silicon.*cpu:spirv64"):
        drift.released("acme:1", "silicon")
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert built["targets"]["wheel"]["force-include"]["docs/reports"] == "xtarget/_reports"


def test_reports_of_several_machines_are_one_table(tmp_path: Path, capsys: Any) -> None:
    silicon = made(add=("right", 0.5), exp=("wrong", 99.0))
    one = made(add=("right", 0.5))
    one["device"]["runs_on"] = "CPU runtime"
    silicon["device"] |= {"target": "nvidia:sm_90", "runs_on": "silicon", "product": "H200"}
    for name, found in (("a.json", one), ("b.json", silicon)):
        (tmp_path / name).write_text(json.dumps(found))
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    code, out, _ = here(capsys, "verify", "--merge", *files)
    assert code == 0
    assert "| kernel | nvidia:sm_90, silicon | cpu:spirv64, CPU runtime |" in out
    assert "| exp | WRONG: float32 | not run |" in out
    assert here(capsys, "verify", "--merge", *files, "--report", str(tmp_path / "t.md"))[0] == 0
    assert (tmp_path / "t.md").read_text() == out
    assert here(capsys, "verify", "--merge", *files, "--html", str(tmp_path / "t.html"))[0] == 0
    text = (tmp_path / "t.html").read_text()
    assert '<td class="text bad">WRONG: float32</td>' in text
    assert "nvidia:sm_90, silicon" in text


def test_the_table_names_each_dtype_and_why_one_is_not_right(tmp_path: Path, capsys: Any) -> None:
    integers = [name for name, dtype in DTYPES.items() if dtype.kind in "iu"]
    rows = [Row("add", dtype, cases=3, max_ulp=0.25) for dtype in (*integers, "float32")]
    rows += [Row("sub", "bool", "refused", refused=3, reason="NumPy | knows none")]
    here_ = report.document([*rows, Row("sub", "int8", cases=3)], SAMPLE_DEVICE, extent="quick")
    there = [
        Row("add", "bool", "compiled"),
        Row("sub", "bool", "refused", reason="NumPy | knows none"),
    ]
    other = report.document(there, Target("nvidia", "sm_90"))
    for name, found in (("a.json", here_), ("b.json", other)):
        (tmp_path / name).write_bytes(report.written(found))
    code, out, _ = here(capsys, "verify", "--merge", *(str(tmp_path / f"{n}.json") for n in "ab"))
    assert code == 0
    assert "| kernel | cpu:spirv64, silicon | nvidia:sm_90, compiled |" in out
    right = "right: integers float32 (0.25 ulp); not run: bool"
    assert f"| add | {right} | compiled: bool; not run: integers float32 |" in out
    assert "| sub | right: int8; refused: bool | refused: bool; not run: int8 |" in out
    both = "cpu:spirv64, silicon; nvidia:sm_90, compiled"
    assert f"- sub, bool ({both}): NumPy | knows none" in out
    files = [str(tmp_path / f"{n}.json") for n in "ab"]
    found = json.loads(here(capsys, "verify", "--merge", *files, "--json")[1])
    assert found["rows"][1] == [
        "sub",
        ["right: int8; refused: bool", "refused: bool; not run: int8"],
    ]


def test_a_written_report_is_read_whole(tmp_path: Path) -> None:
    found = made(add=("right", 0.5), exp=("wrong", float("inf")))
    found["rows"][1]["wrong"] = ["float32[7] normal contiguous: 1 of 7 elements"]
    (tmp_path / "a.json").write_bytes(report.written(found))
    assert report.read(tmp_path / "a.json") == found
    (tmp_path / "b.json").write_bytes(report.written(made()))
    assert report.read(tmp_path / "b.json")["rows"] == []


def test_quick_cases_are_few_and_hard() -> None:
    few = list(cases("float16", "quick"))
    usual = list(cases("float16", "usual"))
    assert len(few) < len(usual) / 2 < len(list(cases("float16", "long")))
    assert any(0 in case.shape for case in few)
    assert {case.values for case in few} == {"normal", "special"}
    assert {case.values for case in cases("uint8", "quick")} == {"normal", "extreme"}


def test_a_page_says_what_is_not_right_first_and_escapes_what_others_wrote() -> None:
    found = made(add=("right", 0.5), exp=("wrong", 99.0), sum=("refused", 0.0))
    found["rows"][1]["wrong"] = ["float32[7] <script>alert(1)</script>"]
    found["rows"][2] |= {"max_ulp": None, "reason": "it takes no float32"}
    text = page.html(found, ["exp float32 was right and is wrong"]).decode()
    assert "<script" not in text
    assert "http" not in text
    order = ["Worse than the older", "Not right", "&lt;script&gt;", "All kernels", "takes no float"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert '<td class="good">right</td>' in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a report"),
        ("[]", "is not a report"),
        ('{"schema": 7}', "is a report of schema 7"),
        ('{"schema": 1, "device": {}, "rows": []}', "is not a report"),
        ('{"schema": 1, "device": {"name": 1, "target": 1, "product": 1, "runs_on": 1}, '
         '"rows": [{}]}', "is not a report"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_report(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(XTargetError, match=said):
        report.read(tmp_path / "report.json")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--dtype", "float31"], 1, "Did you mean float32?"),
        (["softmx"], 1, "Did you mean softmax"),
        (["--merge"], 1, "Name them"),
        (["--target", "acme:1"], 1, "acme"),
        (["--merge", "/nowhere/a.json"], 1, "cannot be read"),
        (["--report", "/proc/none/a.json"], 1, "cannot be written"),
        (["--compare", "/nowhere/a.json"], 1, "cannot be read"),
    ],
)
def test_wrong_words(words: list[str], code: int, said: str, capsys: Any) -> None:
    found, _, err = here(capsys, "verify", *words)
    assert found == code
    assert said in err
