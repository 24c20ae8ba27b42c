"""How the command line fails: one sentence, an exit code, and JSON where JSON was asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import here

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["run", "addd", "--json"], 1, "no kernel 'addd'"),
        (["run", "shape_of", "--json"], 1, "read .shape of the array"),
        (["kernels", "--json", "--no-such-option"], 2, "No such option"),
        (["nonsense", "--json"], 2, "No such command"),
        (["explain", "add", "--target", "acme:1", "--json"], 1, "acme"),
        (["bundle", "ls", "/no/such/file", "--json"], 1, "/no/such/file"),
        (["bundle", "build", "--timeout", "nan", "--json"], 2, "is not a time"),
        (["compile", "add", "--json", "--target", "cpu", "-o", "/dev/null/x"], 1, "/dev/null/x"),
        (["cache", "prune", "--size", "-1", "--json"], 2, "is not a size"),
    ],
)
def test_an_error_is_json_too(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, out, err = here(capsys, *words)
    assert ended == code
    assert list(json.loads(out)) == ["error"]
    assert says in json.loads(out)["error"]
    assert says in err


@pytest.mark.parametrize("value", ["nan", "-5", "0", "inf", "-inf", "1e400", "soon", ""])
def test_a_time_that_is_none(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("bundle", "build", "-o", "/dev/null/x", "--target", "cpu", f"--timeout={value}")
    code, _, err = here(capsys, *words)
    assert code == 2
    assert "is not a time" in err


@pytest.mark.sample(2, each=("command", "redirection"))
@pytest.mark.parametrize(
    ("redirection", "says"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left")]
)
@pytest.mark.parametrize("command", ["kernels", "kernels --json", "cache path"])
def test_an_output_that_cannot_be_written(command: str, redirection: str, says: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m xtarget {command} {redirection}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"the standard output cannot be written: {says}" in done.stderr


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (
            ["bundle", "build", "-o", "x.xtb", "--target", "cpu", "--kernel", "add"],
            "bundle.building.build",
        ),
        (["warmup", "profile.json"], "warmup.warm"),
        (["tune", "matmul", "--shape", "8x8"], "tune.tune"),
    ],
)
def test_an_interrupted_build_says_what_is_kept(
    words: list[str], where: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    def interrupted(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "profile.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(f"xtarget._cli.{where}", interrupted)
    code, out, err = here(capsys, *words)
    assert (code, out) == (130, "")
    assert "in the cache" in err
    assert "the same command goes on" in err
