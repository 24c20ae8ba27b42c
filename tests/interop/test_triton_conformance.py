"""ci/triton_conformance.py on a folder of tests that do all that tests can do to their runner."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not installed here")
pytest.importorskip("torch", reason="torch is not installed here")

SCRIPT = Path(__file__).resolve().parents[2] / "ci" / "triton_conformance.py"

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


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("triton_conformance", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["triton_conformance"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def run(tests: Path, *options: str) -> tuple[int, dict[str, object], str]:
    report = tests.parent / "report.json"
    done = subprocess.run(
        [
            *(sys.executable, str(SCRIPT), "--tests", str(tests), "--seconds", "1"),
            *("--rules", str(tests / "rules.toml"), "-o", str(report), *options),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert report.exists(), done.stderr
    return done.returncode, json.loads(report.read_text()), done.stdout


@pytest.mark.long
def test_every_outcome_is_told_and_none_hides_another(tests: Path) -> None:
    status, report, output = run(tests, "--files", "test_all.py", "--match", "::test_(?!many)")
    assert status == 1
    outcomes = {case.partition("::")[2]: outcome for case, outcome, _ in report["cases"]}
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
    causes = {case["id"].partition("::")[2]: case["cause"] for case in report["failures"]}
    assert "42 == 41" in causes["test_fails"] or "6 * 7" in causes["test_fails"]
    assert "SIGSEGV" in causes["test_crashes"]
    assert "Segmentation fault" in causes["test_crashes"]
    assert "test_all.py" in causes["test_crashes"]
    assert "s of the processor" in causes["test_spins"]
    assert "33.33 %" in output


def test_a_sample_is_random_repeatable_and_shards_are_its_parts() -> None:
    script = load_script()
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


def test_every_rule_has_a_reason_and_names_a_test() -> None:
    script = load_script()
    for rule in script.read_rules(script.RULES):
        assert len(rule.reason) > 20
        assert "test_" in rule.pattern.pattern


@pytest.mark.long
def test_a_file_that_cannot_be_collected_is_a_failure_with_its_reason(tests: Path) -> None:
    status, report, _ = run(tests, "--files", "test_broken.py")
    assert status == 1
    assert report["failures"][0]["outcome"] == "crashed"
    assert "a_module_that_is_not_there" in report["failures"][0]["cause"]


def test_a_folder_without_the_tests_is_refused_in_a_sentence(tests: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--tests", str(tests)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "has no language/test_core.py" in done.stderr
