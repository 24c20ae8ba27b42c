"""`xtarget verify` on a device: it finds what is wrong, and nothing else."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import here

import xtarget
from xtarget._kernels import libraries
from xtarget._verify.cases import Case, meaningful, values
from xtarget._verify.verify import Row, verify


def test_right_kernels_are_right(device: str) -> None:
    specs = [xtarget.catalog()[name] for name in ("where", "exp", "sum")]
    rows = list(verify(specs, ["float32", "bool"], device))
    assert [(row.kernel, row.dtype, row.status) for row in rows] == [
        (spec.name, dtype, "right") for spec in specs for dtype in ("float32", "bool")
    ]
    assert all(row.cases >= 8 for row in rows)


def test_a_wrong_kernel_is_found_with_the_call_that_shows_it(device: str) -> None:
    def not_quite(x: Any) -> Any:
        return np.exp(x) + (x > 2.9) * 0.1

    spec = dataclasses.replace(xtarget.catalog()["exp"], reference=not_quite)
    [row] = verify([spec], ["float32"], device)
    assert row.status == "wrong"
    assert any("1025" in case for case in row.wrong)
    assert row.of_tolerance > 1


def test_what_a_kernel_refuses_is_told_with_its_reason(device: str) -> None:
    [row] = verify([xtarget.catalog()["sub"]], ["bool"], device)
    assert (row.status, row.cases) == ("refused", 0)
    assert "NumPy knows no difference" in row.reason


@pytest.mark.parametrize("how", [[], ["--executor", "processes"]], ids=["here", "executor"])
def test_a_named_kernel_without_a_reference_stops_no_other(
    how: list[str], device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = xtarget.catalog()
    bare = dataclasses.replace(catalog["tanh"], reference=None)
    found = libraries.find
    monkeypatch.setattr(
        libraries,
        "find",
        lambda name: found(name).of(bare) if name == "tanh" else found(name),
    )
    words = ["--quick", "--dtype", "float32", "--device", device, *how]
    code, out, _ = here(capsys, "verify", "tanh", "maximum", *words)
    assert code == 1
    assert "tanh cannot be verified: its spec has no reference." in " ".join(out.split())
    assert "right: float32" in out
    code, out, _ = here(capsys, "verify", "tanh", "maximum", *words, "--json")
    assert (code, len(json.loads(out)["left_out"])) == (1, 1)
    code, _, err = here(capsys, "verify", "tanh", *words)
    assert code != 0
    assert "tanh cannot be verified: its spec has no reference." in " ".join(err.split())


@pytest.mark.parametrize("kernel", ["maximum"])
def test_a_report_is_written_and_compared(
    kernel: str, device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    words = ["verify", kernel, "--dtype", "float32", "--device", device]
    html = tmp_path / "report.html"
    assert here(capsys, *words, "--report", str(file), "--html", str(html))[0] == 0
    assert f"<td>{kernel}</td><td>float32</td>" in html.read_text()
    found = json.loads(file.read_text())
    assert found["device"]["name"] == device
    assert [row["status"] for row in found["rows"]] == ["right"]
    assert here(capsys, *words, "--compare", str(file))[0] == 0
    found["rows"][0]["status"] = "right"
    found["rows"][0]["kernel"] = kernel
    file.write_text(json.dumps(found))
    code, out, _ = here(capsys, *words, "--json")
    assert code == 0
    assert json.loads(out)["ok"] is True


def test_what_was_compared_before_an_interruption_is_kept(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **named: Any) -> Any:
        yield Row("add", "float32", cases=3)
        raise KeyboardInterrupt

    monkeypatch.setattr("xtarget._verify.spread.verify", interrupted)
    file = tmp_path / "report.json"
    code, out, _ = here(capsys, "verify", "add", "--device", device, "--report", str(file))
    assert code == 130
    assert "interrupted: 1 of " in out
    found = json.loads(file.read_text())
    assert found["interrupted"] is True
    assert [row["kernel"] for row in found["rows"]] == ["add"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_elements_in_order_are_in_order_in_half_types(dtype: str) -> None:
    """With nan at their end: searchsorted is asked for nothing else."""
    case = Case(dtype, (13, 21), "special", "contiguous")
    given = meaningful("ordered", values(case, (13, 64), dtype, 0), 4)
    wide = given.astype(np.float64)
    assert given.dtype.name == dtype
    assert np.isnan(wide).any()
    np.testing.assert_array_equal(wide, np.sort(wide, axis=-1))
