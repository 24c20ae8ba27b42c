"""`xtarget verify --target`: what compiles for a target that is not here."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import here

import xtarget
from xtarget import CompileError, LoadError
from xtarget._verify import compiled as rows_of
from xtarget._verify.compiled import compiled


@pytest.mark.parametrize("target", ["nvidia:sm_90", "amd:gfx942", "intel:spirv64"])
def test_a_row_compiles_or_is_refused_with_the_reason(target: str) -> None:
    specs = [xtarget.catalog()[name] for name in ("sub", "layer_norm")]
    rows = list(compiled(specs, ["float16", "bool"], target))
    assert [(row.kernel, row.dtype, row.status) for row in rows] == [
        ("sub", "float16", "compiled"),
        ("sub", "bool", "refused"),
        ("layer_norm", "float16", "compiled"),
    ]
    assert [row.cases for row in rows] == [1, 0, 1]
    assert "NumPy knows no difference" in rows[1].reason


def test_an_error_of_a_compiler_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any, **named: Any) -> Any:
        raise CompileError("ptxas failed")

    monkeypatch.setattr("xtarget.compile", broken)
    [row] = compiled([xtarget.catalog()["add"]], ["int8"], "nvidia:sm_90")
    assert (row.status, row.cases) == ("failed", 0)
    assert row.wrong == ["int8[7x129]: CompileError: ptxas failed"]


@pytest.mark.parametrize("target", ["nvidia:sm_90", "amd:gfx1100", "intel:spirv64"])
def test_a_binary_without_its_entry_is_found(target: str) -> None:
    x = xtarget.spec.ArrayType("int8", (7,), (1,))
    [artifact] = xtarget.compile("neg", x, target=target)
    rows_of._check(artifact)
    with pytest.raises(LoadError, match="no entry 'other'"):
        rows_of._check(dataclasses.replace(artifact, entry="other"))
    with pytest.raises(LoadError):
        rows_of._check(dataclasses.replace(artifact, binary=artifact.binary[:40]))


def test_the_report_says_that_nothing_ran(tmp_path: Path, capsys: Any) -> None:
    file, words = tmp_path / "a.json", ("verify", "neg", "--dtype", "int8", "--target", "mi300x")
    code, out, _ = here(capsys, *words, "--report", str(file))
    assert code == 0
    assert "1 compiled for amd:gfx942: all right" in out
    found = json.loads(file.read_text())
    assert found["device"]["runs_on"] == "compiled"
    assert here(capsys, *words, "--compare", str(file))[0] == 0
    # what another row adds to the report, and nothing twice
    more = ("verify", "neg", "abs", *words[2:], "--report", str(file), "--resume")
    code, out, _ = here(capsys, *more)
    assert (code, "1 rows of" in out, "1 compiled for" in out) == (0, True, True)
    found = json.loads(file.read_text())
    assert [row["kernel"] for row in found["rows"]] == ["neg", "abs"]
    found["device"]["target"] = "amd:gfx90a"
    file.write_text(json.dumps(found))
    code, _, err = here(capsys, *more)
    assert (code, "--resume cannot go on with it" in err) == (1, True)
    code, out, _ = here(capsys, *words, "--compare", "release")
    assert (code, "of the older report were not run now" in out) == (0, True)
