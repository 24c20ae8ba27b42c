"""`xtarget doctor`: what is a problem, how to mend it, and what a report leaves out."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from artifacts import SAMPLE_DEVICE
from command_line import here

from xtarget._children.child import Child
from xtarget._cli import doctor
from xtarget._devices import registry
from xtarget._values.types import ProbeReport
from xtarget.targets._host import opencl_icd


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One CPU on which kernels run, an NVIDIA driver that is too old, and an empty cache."""
    reports = [
        ProbeReport("nvidia", (), "the driver is older than CUDA 13. Update it."),
        ProbeReport("cpu", (SAMPLE_DEVICE,)),
    ]
    monkeypatch.setattr(registry, "probe_all", lambda wanted=None: reports)
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("XTARGET_DEVICE", raising=False)
    monkeypatch.setattr(opencl_icd, "SYSTEM_VENDORS", tmp_path / "vendors")
    answer(monkeypatch, {"seconds": 0.5})


def answer(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]) -> None:
    monkeypatch.setattr(Child, "ask", lambda *_, **__: (given, []))


def examined(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, list[Any]]]:
    """The exit code, and the findings by their area."""
    code, out, _ = here(capsys, "doctor", "--json", *words)
    areas: dict[str, list[Any]] = {}
    for one in json.loads(out)["findings"]:
        areas.setdefault(one["area"], []).append((one["status"], one["text"], one["mend"]))
    return code, areas


def test_a_machine_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = here(capsys, "doctor")
    assert (code, err) == (0, "")
    assert "older than CUDA 13" in out  # a vendor without a device is no problem of its own
    assert out.endswith("No problem was found.\n")


@pytest.mark.parametrize(
    "error", ["NoCompilerError: no compiler is installed", "the result of add is WRONG"]
)
def test_a_device_on_which_a_kernel_does_not_run(
    error: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, {"error": error})
    code, areas = examined(capsys)
    assert code == 1
    [(status, text, _)] = areas["cpu:0"]
    assert status == "problem"
    assert error in text


def test_a_device_whose_driver_ends_the_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(
        registry, "probe_all", lambda wanted=None: [ProbeReport("cpu", (SAMPLE_DEVICE,))]
    )

    def killed(child: Child, request: bytes) -> None:
        os.kill(child.start(), signal.SIGSEGV)

    monkeypatch.setattr(Child, "send", killed)
    code, areas = examined(capsys)
    assert code == 1
    [(status, text, mend)] = areas["cpu:0"]
    assert status == "problem"
    assert "SIGSEGV" in text
    assert "--device cpu:0" in mend


def test_no_device_at_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = [ProbeReport("cpu", (), "pyopencl is not installed.")]
    monkeypatch.setattr(registry, "probe_all", lambda wanted=None: reports)
    code, areas = examined(capsys)
    assert code == 1
    assert areas["devices"] == [
        ("problem", "there is no device", 'Any CPU can run kernels: pip install "xtarget[cpu]"')
    ]


def test_a_device_that_is_not_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, areas = examined(capsys, "--device", "nvidia:0")
    assert (code, areas["nvidia:0"][0][0]) == (1, "problem")
    assert "cpu:0" not in areas  # no kernel runs where nobody asked for it
    monkeypatch.setenv("XTARGET_DEVICE", "nvidia:3")
    code, areas = examined(capsys)
    assert code == 1
    assert "nvidia:3" in areas["devices"][0][1]


def test_a_cache_that_cannot_be_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "file"))
    code, areas = examined(capsys)
    assert code == 1
    [(status, text, mend)] = areas["cache"]
    assert (status, "not a folder" in text) == ("problem", True)
    assert "XTARGET_CACHE_DIR" in mend


def test_variables_that_mean_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XTARGET_JIT_SECONDS", "soon")
    monkeypatch.setenv("XTARGET_JITT_SECONDS", "5")
    code, areas = examined(capsys)
    assert code == 1
    one, two = areas["environment"]
    assert "XTARGET_JIT_SECONDS=soon" in one[1]
    assert "Did you mean XTARGET_JIT_SECONDS?" in two[2]


def test_an_opencl_run_time_that_was_removed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "vendors").mkdir()
    (tmp_path / "vendors" / "acme.icd").write_text("/opt/acme/libacmeocl.so\n")
    code, areas = examined(capsys)
    assert code == 0
    assert any("/opt/acme/libacmeocl.so" in text for _, text, _ in areas["opencl"])


def test_a_report_can_be_shown_to_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home" / "ada"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(home / "kernels"))
    monkeypatch.setenv("XTARGET_CACHE_REMOTE", "redis://me:hush@host:1/0")
    monkeypatch.setenv("TRITON_API_TOKEN", "hush")
    report = tmp_path / "report.md"
    assert here(capsys, "doctor", "--report", str(report))[0] == 0
    text = report.read_text()
    assert "~/kernels" in text
    assert "Acme One" in text
    assert "TRITON_API_TOKEN" in text
    assert "hush" not in text
    assert "ada" not in text


def test_a_report_that_cannot_be_written_is_refused_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(wanted: object = None) -> list[ProbeReport]:
        raise AssertionError("work is done before the report's place is looked at")

    monkeypatch.setattr(registry, "probe_all", never)
    (tmp_path / "file").write_text("")
    code, _, err = here(capsys, "doctor", "--report", str(tmp_path / "file" / "report.md"))
    assert code == 1
    assert "cannot be written" in err


def test_names_of_people_and_machines_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/data/people/ada")
    monkeypatch.setenv("USER", "lovelace")
    text = doctor.without_private_parts("/data/people/ada/x /home/bob/y lovelace my_key: 5")
    assert text == "~/x ~/y USER my_key: 5"
    assert doctor.without_private_parts("  MY_SECRET: 5") == "  MY_SECRET: (not shown)"
