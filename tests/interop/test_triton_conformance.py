"""ci/triton_conformance.py on a folder of tests that do all that tests can do to their runner."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import run_python

pytest.importorskip("triton", reason="Triton is not installed here")
pytest.importorskip("torch", reason="torch is not installed here")
pytest.importorskip("pyopencl", reason="pyopencl is not installed here")

CI = Path(__file__).resolve().parents[2] / "ci"
SCRIPT = CI / "triton_conformance.py"

CASES = """
import os, signal, time
import pytest

def test_passes(device, fresh_knobs): assert device == "cpu" and fresh_knobs is not None
def test_fails(): assert 6 * 7 == 41
def test_crashes(): os.kill(os.getpid(), signal.SIGSEGV)
def test_skips(): pytest.skip("not today")
def test_expected(): pytest.xfail("known")
def test_spins():
    while True: pass
def test_sleeps(): time.sleep(600)
@pytest.mark.parametrize("number", range(20))
def test_many(number): pass
def test_of_no_concern(): assert False
def test_after_all_that(): pass
"""
RULES = """
[[not_applicable]]
cases = ["test_all\\\\.py::test_of_no_concern$"]
reason = "it is of no concern"
"""


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    folder = tmp_path / "unit"
    folder.mkdir()
    (folder / "test_all.py").write_text(CASES)
    (folder / "test_broken.py").write_text("import a_module_that_is_not_there\n")
    (folder / "rules.toml").write_text(RULES)
    return folder


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(CI))
    return importlib.import_module("triton_conformance")


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(CI))
    return importlib.import_module("triton_conformance_report")


def run(tests: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    report = tests.parent / "report.json"
    done = run_python(
        *(SCRIPT, "--tests", tests, "--seconds", "1"),
        *("--rules", tests / "rules.toml", "-o", report, *options),
        seconds=200,
    )
    assert report.exists(), done.stderr
    return done.returncode, json.loads(report.read_text()), done.stdout


@pytest.mark.long
def test_every_outcome_is_told_and_none_hides_another(tests: Path) -> None:
    status, report, output = run(tests, "--files", "test_all.py", "--match", "::test_(?!many)")
    assert status == 1
    outcomes = {case.partition("::")[2]: outcome for case, outcome, *_ in report["cases"]}
    assert outcomes == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_crashes": "crashed",
        "test_skips": "skipped",
        "test_expected": "xfailed",
        "test_spins": "timed out",
        "test_sleeps": "timed out",
        "test_of_no_concern": "not applicable",
        "test_after_all_that": "passed",
    }
    assert report["files"]["test_all.py"]["share"] == round(2 / 6, 4)
    causes = {case.partition("::")[2]: cause for case, *_, cause in report["failures"]}
    assert "42 == 41" in causes["test_fails"] or "6 * 7" in causes["test_fails"]
    assert "SIGSEGV" in causes["test_crashes"]
    assert "Segmentation fault" in causes["test_crashes"]
    assert "test_all.py" in causes["test_crashes"]
    assert "s of the processor" in causes["test_spins"]
    cpu = {case.partition("::")[2]: seconds for case, _, _, seconds, _ in report["cases"]}
    assert cpu["test_spins"] > 1 > cpu["test_sleeps"]
    assert "33.33 %" in output


def test_a_sample_is_random_repeatable_and_shards_are_its_parts(script: Any) -> None:
    cases = [f"case {number}" for number in range(100)]

    def chosen(sample: int, seed: int, shard: tuple[int, int] = (1, 1)) -> list[str]:
        options = argparse.Namespace(sample=sample, seed=seed, shard=shard)
        picked: list[str] = script.choose(cases, options)
        return picked

    assert sorted(chosen(0, 3)) == sorted(cases) != chosen(0, 3)
    assert len(set(chosen(6, 3))) == 6
    assert chosen(6, 3) == chosen(6, 3) != chosen(6, 4)
    parts = [case for i in (1, 2, 3) for case in chosen(20, 3, (i, 3))]
    assert len(parts) == 20
    assert set(parts) == set(chosen(20, 3))


def test_every_rule_has_a_reason_and_names_a_test(script: Any) -> None:
    for rule in script.read_rules(script.RULES):
        assert len(rule.reason) > 20
        assert "test_" in rule.pattern.pattern


@pytest.mark.long
def test_a_file_that_cannot_be_collected_is_a_failure_with_its_reason(tests: Path) -> None:
    status, report, _ = run(tests, "--files", "test_broken.py")
    assert status == 1
    ((_, outcome, *_, cause),) = report["failures"]
    assert outcome == "crashed"
    assert "a_module_that_is_not_there" in cause


def test_a_folder_without_the_tests_is_refused_in_a_sentence(tests: Path) -> None:
    done = run_python(SCRIPT, "--tests", tests, seconds=60)
    assert done.returncode == 2
    assert "has no language/test_core.py" in done.stderr


@pytest.mark.long
def test_a_run_goes_on_where_another_was_ended(tests: Path) -> None:
    only = ("--files", "test_all.py", "--match", "::test_(many|fails)")
    _, first, _ = run(tests, *only, "--sample", "8")
    earlier = tests.parent / "earlier.json"
    (tests.parent / "report.json").rename(earlier)
    status, second, _ = run(tests, *only, "--resume", str(earlier))
    assert status == 1
    assert second["cases"][: len(first["cases"])] == first["cases"]
    assert second["files"]["test_all.py"]["passed"] == 20
    # what passed is kept, what failed is run again and then stands after it
    (tests / "test_all.py").write_text(CASES.replace("== 41", "== 42"))
    earlier.write_text(json.dumps(second))
    status, third, _ = run(tests, *only, "--resume", str(earlier), "--retry")
    assert status == 0
    assert third["files"]["test_all.py"]["passed"] == 21
    assert third["cases"][-1][0] == "test_all.py::test_fails"


@pytest.mark.long
def test_a_run_that_is_ended_leaves_its_report(tests: Path) -> None:
    report = tests.parent / "report.json"
    process = subprocess.Popen(
        [
            *(sys.executable, str(SCRIPT), "--tests", str(tests), "--files", "test_all.py", "-v"),
            *("--rules", str(tests / "rules.toml"), "-o", str(report)),
            *("--match", "::test_(passes|sleeps)", "--seconds", "100"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if not process.stdout.readline().startswith("passed"):  # the order is random, but fixed
        pytest.fail("the case that sleeps came first: take another seed")
    process.terminate()
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert "--resume goes on" in errors
    assert "Traceback" not in errors
    assert [case[0] for case in json.loads(report.read_text())["cases"]] == [
        "test_all.py::test_passes"
    ]


def report_of(reports: Any, path: Path, cases: dict[str, str], **other: Any) -> Path:
    made = reports.Report(
        **{"seed": 1, "limit": 40.0, "versions": {"triton": "3.9.0", "commits": ["a"]}, **other}
    )
    for case, outcome in cases.items():
        made.add(reports.Result(case, outcome, 50.0, 30.0, "why" if outcome != "passed" else ""))
    made.write(path)
    return path


def test_reports_of_shards_are_added_up(
    script: Any, reports: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = report_of(reports, tmp_path / "1", {"f.py::a": "passed", "f.py::b": "timed out"})
    second = report_of(
        reports,
        tmp_path / "2",
        {"f.py::b": "passed", "f.py::c": "failed", "g.py::d": "skipped"},
        versions={"triton": "3.9.0", "commits": ["b"]},
    )
    assert script.main(["--summary", str(first), str(second)]) == 1
    output = capsys.readouterr().out
    assert "failed: f.py::c: why" in output
    assert "66.67 %" in output
    whole = reports.joined([first, second])
    assert whole.versions["commits"] == ["a", "b"]
    assert whole.table()["f.py"]["passed"] == whole.table()["f.py"]["slow"] == 2
    assert whole.table()["g.py"]["share"] is None


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"seed": 2}, "no random sample"),
        ({"limit": 80.0}, "no random sample"),
        ({"versions": {"triton": "3.8.0", "commits": ["a"]}}, "other versions of triton"),
    ],
)
def test_reports_of_different_samples_are_not_added_up(
    script: Any,
    reports: Any,
    tmp_path: Path,
    other: dict[str, Any],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = report_of(reports, tmp_path / "1", {"f.py::a": "passed"})
    second = report_of(reports, tmp_path / "2", {"f.py::b": "passed"}, **other)
    assert script.main(["--summary", str(first), str(second)]) == 2
    assert words in capsys.readouterr().err


def test_what_is_no_report_is_refused_in_a_sentence(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("{", "[]", '{"seed": 1}'):
        (tmp_path / "report").write_text(text)
        assert script.main(["--summary", str(tmp_path / "report")]) == 2
        assert "is not a report of this program" in capsys.readouterr().err
