"""`xtarget ci merge`: one table and a badge of what several jobs wrote."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from artifacts import SAMPLE_DEVICE
from command_line import here

from xtarget._verify import report
from xtarget._verify.verify import Row


def junit(file: Path, **tests: str) -> Path:
    """A file with these tests and outcomes."""
    inner = {"passed": "", "failed": '<failure message="no"/>', "error": "<error/>",
             "skipped": "<skipped/>"}  # fmt: skip
    cases = "".join(
        f'<testcase classname="t.a" name="{n}" time="0.5">{inner[o]}</testcase>'
        for n, o in tests.items()
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return file


def merged(capsys: Any, *words: str | Path) -> tuple[int, dict[str, Any]]:
    code, out, _ = here(capsys, "ci", "merge", "--json", *map(str, words))
    return code, json.loads(out)


def test_jobs_are_the_folders_of_a_folder(tmp_path: Path, capsys: Any) -> None:
    junit(tmp_path / "report CPU" / "tests-01.xml", a="passed", b="skipped")
    junit(tmp_path / "report CPU" / "tests-02.xml", a="passed")
    junit(tmp_path / "report | GPU" / "tests-01.xml", a="failed", b="error")
    rows = [Row("add", "int8", cases=3), Row("exp", "int8", "wrong", 1, wrong=["int8[7]: 1 of 7"])]
    found = report.document(rows, SAMPLE_DEVICE)
    (tmp_path / "report CPU" / "verify.json").write_bytes(report.written(found))
    badge = tmp_path / "badge.svg"
    code, out, _ = here(capsys, "ci", "merge", str(tmp_path), "--badge", str(badge))
    assert code == 1
    assert "| report CPU | 2 | 0 | 1 | 0 | 2 | 1 of 2 |" in out
    assert "| report \\| GPU | 0 | 2 | 0 | 0 | 1 |  |" in out
    assert "- report | GPU: t.a::a" in out
    assert "- report CPU: verify on cpu:0: exp int8: int8[7]: 1 of 7" in out
    assert "| exp | WRONG: int8 |" in out
    assert "tests: 3 failed" in str(ET.parse(badge).getroot().get("aria-label"))
    code, told = merged(capsys, tmp_path)
    assert (code, told["ok"], [job["tests"]["passed"] for job in told["jobs"]]) == (
        1,
        False,
        [2, 0],
    )


def test_a_test_that_passed_alone_is_unsteady_and_no_failure(tmp_path: Path, capsys: Any) -> None:
    junit(tmp_path / "CPU" / "tests-01.xml", a="failed", b="passed")
    junit(tmp_path / "CPU" / "tests-01-again.xml", a="passed")
    junit(tmp_path / "CPU" / "tests-02.xml", c="passed")
    code, told = merged(capsys, tmp_path)
    [job] = told["jobs"]
    assert (code, job["failures"]) == (0, [])
    assert job["tests"] == {"passed": 2, "failed": 0, "skipped": 0, "unsteady": 1}
    # another run's success is none of this one's
    junit(tmp_path / "CPU" / "tests-02.xml", b="failed")
    junit(tmp_path / "CPU" / "tests-01-again.xml", a="passed", b="passed")
    assert merged(capsys, tmp_path)[1]["jobs"][0]["failures"] == ["t.a::b"]


def test_the_badge_for_shields_and_the_table_as_a_file(tmp_path: Path, capsys: Any) -> None:
    file = junit(tmp_path / "cpu.xml", a="passed", b="passed")
    badge, table = tmp_path / "badge.json", tmp_path / "table.md"
    words = ("ci", "merge", str(file), "--badge", str(badge), "-o", str(table))
    assert here(capsys, *words)[:2] == (0, "")
    assert json.loads(badge.read_text()) == {
        "schemaVersion": 1, "label": "tests", "message": "2 passed", "color": "brightgreen"
    }  # fmt: skip
    assert "| cpu | 2 | 0 |" in table.read_text()


def test_what_pytest_itself_writes(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.fixture\ndef late():\n    yield\n    assert 0\n"
        "def test_right(): pass\ndef test_late(late): pass\n"
        "@pytest.mark.xfail\ndef test_known(): assert 0\ndef test_not(): pytest.skip('why')\n"
    )
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=out.xml", "test_it.py")
    subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, check=False)
    code, told = merged(capsys, tmp_path / "out.xml")
    assert code == 1
    assert told["jobs"][0]["tests"] == {"passed": 1, "failed": 1, "skipped": 2, "unsteady": 0}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.xml", "<html/>", "is not a JUnit file"),
        ("a.xml", "no", "is not a JUnit file"),
        ("a.xml", None, "cannot be read"),
        ("a.json", "{}", "is not a report of `xtarget verify"),
        ("", None, "there is no report in"),
    ],
)
def test_what_is_no_report(
    name: str, text: str | None, said: str, tmp_path: Path, capsys: Any
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    code, _, err = here(capsys, "ci", "merge", str(tmp_path / name))
    assert code == 1
    assert said in err


def test_a_badge_of_another_format(tmp_path: Path, capsys: Any) -> None:
    file = junit(tmp_path / "cpu.xml", a="passed")
    code, _, err = here(capsys, "ci", "merge", str(file), "--badge", str(tmp_path / "badge.png"))
    assert code == 1
    assert "neither .svg nor .json" in err
