"""Probing: whatever a vendor's library does, the caller gets a report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from processes import run_python

from xtarget._children import limits
from xtarget._devices import choice, registry
from xtarget._values.types import DeviceInfo, ProbeReport, Target

DRIVER = """
import os, sys, time
from xtarget import DeviceInfo, ProbeReport, Target


class Driver:
    vendor = "acme"

    def probe(self):
        {body}

    def open(self, ordinal):
        raise NotImplementedError


def {maker}():
    return Driver()
"""
GOOD = (
    'return ProbeReport("acme", (DeviceInfo("acme:0", Target("acme", "one"), "Acme One", 1 << 30, '
    '8, "1.0", 32, 1024, 65536, details={"bus": "7"}),))'
)


@pytest.fixture
def acme(tmp_path: Path):
    """A third party's vendor package, installed by a folder on the path; gives its probe's body."""

    def install(body: str, maker: str = "create_driver") -> Path:
        info = tmp_path / "acme-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[xtarget.targets]\nacme = acme_vendor\n")
        (tmp_path / "acme_vendor.py").write_text(DRIVER.format(body=body, maker=maker))
        return tmp_path

    return install


def probe(folder: Path, seconds: str = "5") -> tuple[dict[str, object], str]:
    """Probe `acme` in a fresh process: the report, and what was printed."""
    script = (
        "import dataclasses, json, xtarget\n"
        "report = {r.vendor: r for r in xtarget.probe()}['acme']\n"
        "print(json.dumps(dataclasses.asdict(report)))"
    )
    done = _process(script, folder, seconds)
    return json.loads(done.stdout), done.stderr


def _process(script: str, folder: Path, seconds: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *[p for p in sys.path if p]])
    return run_python("-c", script, path=path, check=True, XTARGET_PROBE_SECONDS=seconds)


def _in_a_process(script: str, folder: Path, seconds: str) -> str:
    return _process(script, folder, seconds).stdout


def test_a_vendor_from_another_package_is_found(acme) -> None:
    report, errors = probe(acme(GOOD))
    assert report["reason"] is None
    (device,) = report["devices"]
    assert device["name"] == "acme:0"
    assert device["details"] == {"bus": "7"}
    assert errors == ""


def test_a_library_that_blocks_is_cut_off(acme) -> None:
    report, _ = probe(acme("time.sleep(3600)"), seconds="1")
    assert report["devices"] == []
    assert "did not answer in time (1 s" in report["reason"]
    assert "not known whether it has a device" in report["reason"]


def test_a_library_that_is_slow_once_is_tried_again(acme, tmp_path: Path) -> None:
    mark = tmp_path / "asked"
    slow = f"there = os.path.exists({str(mark)!r}); open({str(mark)!r}, 'w').close(); "
    report, _ = probe(acme(slow + "time.sleep(0 if there else 3600); " + GOOD), seconds="1")
    assert report["reason"] is None
    assert report["devices"]


def test_a_late_answer_is_not_kept(acme, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"time.sleep(0 if os.path.exists({str(go)!r}) else 3600); "
    script = f"""
import os, xtarget
def reason():
    return next(r for r in xtarget.probe() if r.vendor == "acme").reason
print(reason())
open({str(go)!r}, "w").close()
os.environ["XTARGET_PROBE_SECONDS"] = "600"  # a busy machine starts a process late
print(reason())
"""
    said = _in_a_process(script, acme(wait + GOOD), "0.5").splitlines()
    assert "did not answer in time" in said[0]
    assert said[1] == "None"


def test_waiting_for_a_processor_is_no_delay_of_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, used = [0.0], [limits._Used(0.0, 0.0)]
    monkeypatch.setattr(limits.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(limits.Patience, "_used", lambda self: used[0])
    starved, blocked = (limits.Patience(5.0, 1) for _ in range(2))
    clock[0], used[0] = 60.0, limits._Used(3.0, 55.0)
    assert not starved.over()  # a minute on the clock at load 20
    used[0] = limits._Used(3.0, 40.0)
    assert blocked.over()
    working = limits.Patience(5.0, 1)
    used[0] = limits._Used(8.1, 40.0)
    assert working.over()


def test_the_time_of_a_process_and_of_a_thread_is_read() -> None:
    patience = limits.Patience(3600.0, os.getpid(), threading.get_native_id())
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    assert not patience.over()
    assert 0.0 < patience.busy < 3600.0


def test_run_waits_for_a_library_as_devices_does_and_asks_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A GPU whose library is late is not taken for absent for the rest of the process."""
    go = threading.Event()
    devices = {"slow": "slow:0", "quick": "quick:0"}

    class Driver:
        def __init__(self, vendor: str) -> None:
            self.vendor = vendor

        def probe(self) -> ProbeReport:
            if self.vendor == "slow":
                go.wait()
            target = Target(self.vendor, "one")
            return ProbeReport(
                self.vendor,
                (DeviceInfo(f"{self.vendor}:0", target, "One", 1, 1, "1", 32, 1024, 65536),),
            )

    monkeypatch.setattr(choice, "BUILTIN", tuple(devices))
    monkeypatch.setattr(registry, "driver", Driver)
    monkeypatch.setattr(choice, "_running", {})
    monkeypatch.setattr(choice, "_first", None)
    monkeypatch.delenv("XTARGET_DEVICE", raising=False)
    monkeypatch.setenv("XTARGET_PROBE_SECONDS", "0.05")
    assert choice.default_device() == "quick:0"
    assert "slow: its library did not answer in time" in caplog.text
    caplog.clear()
    assert choice.default_device() == "quick:0"
    assert not caplog.text
    go.set()
    choice._running["slow"]._thread.join()
    assert choice.default_device() == "slow:0"


def test_a_probe_that_raises_in_this_process_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Driver:
        def probe(self) -> ProbeReport:
            raise RuntimeError("the card fell out")

    monkeypatch.setattr(registry, "driver", lambda vendor: Driver())
    monkeypatch.setattr(choice, "_running", {})
    report, late = choice._probe_in_process("any", again=False)
    assert not late
    assert "the card fell out" in (report.reason or "")


def test_a_library_that_crashes_is_a_reason(acme) -> None:
    report, _ = probe(acme("os.kill(os.getpid(), 11)"))
    assert report["devices"] == []
    assert "died of SIGSEGV" in report["reason"]


def test_a_library_that_raises_is_a_reason_with_its_text(acme) -> None:
    report, _ = probe(acme("raise RuntimeError('the card fell out')"))
    assert "the card fell out" in report["reason"]


def test_a_library_that_prints_is_not_heard(acme) -> None:
    noise = "print('NOISE'); sys.stderr.write('NOISE\\n'); os.write(1, b'NOISE'); " + GOOD
    report, errors = probe(acme(noise))
    assert report["reason"] is None
    assert "NOISE" not in errors


def test_a_package_that_cannot_be_loaded_is_a_reason(acme) -> None:
    report, _ = probe(acme(GOOD, maker="something_else"))
    assert "create_driver" in report["reason"]


def test_a_device_that_nothing_is_compiled_for_is_preferred_to_none_only() -> None:
    from xtarget._devices import choice
    from xtarget._values.types import DeviceInfo, ProbeReport, Target

    def info(name: str, **details: str) -> DeviceInfo:
        return DeviceInfo(
            name=name,
            target=Target("amd", "gfx1100"),
            product="x",
            memory_bytes=1,
            compute_units=1,
            driver_version="1",
            warp_size=32,
            max_threads_per_block=1024,
            max_shared_bytes=1,
            details=details,
        )

    old, new = info("amd:0", unsuitable="why"), info("amd:1")
    cpu = ProbeReport("cpu", (info("cpu:0"),))
    for reports, wanted in (
        ([ProbeReport("amd", (old, new)), cpu], "amd:1"),
        ([ProbeReport("amd", (old,)), cpu], "cpu:0"),
        ([ProbeReport("amd", (old,)), ProbeReport("cpu", (), "none")], "amd:0"),
    ):
        found = choice.preferred(reports)
        assert found is not None
        assert found.name == wanted
    assert choice.preferred([ProbeReport("cpu", (), "none")]) is None
