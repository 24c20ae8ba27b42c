"""Probing: whatever a vendor's library does, the caller gets a report."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


def probe(folder: Path, seconds: str = "5") -> tuple[dict[str, object], str, float]:
    """Probe `acme` in a fresh process: the report, what was printed, and how long it took."""
    import os

    script = (
        "import dataclasses, json, xtarget\n"
        "report = {r.vendor: r for r in xtarget.probe()}['acme']\n"
        "print(json.dumps(dataclasses.asdict(report)))"
    )
    path = os.pathsep.join([str(folder), *[p for p in sys.path if p]])
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": path, "XTARGET_PROBE_SECONDS": seconds},
    )
    return json.loads(done.stdout), done.stderr, time.monotonic() - start


def test_a_vendor_from_another_package_is_found(acme) -> None:
    report, errors, _ = probe(acme(GOOD))
    assert report["reason"] is None
    (device,) = report["devices"]
    assert device["name"] == "acme:0"
    assert device["details"] == {"bus": "7"}
    assert errors == ""


def test_a_library_that_blocks_is_cut_off(acme) -> None:
    report, _, seconds = probe(acme("time.sleep(3600)"), seconds="1")
    assert report["devices"] == []
    assert "did not answer within 1 s" in report["reason"]
    assert seconds < 30


def test_a_library_that_crashes_is_a_reason(acme) -> None:
    report, _, _ = probe(acme("os.kill(os.getpid(), 11)"))
    assert report["devices"] == []
    assert "signal 11" in report["reason"]


def test_a_library_that_raises_is_a_reason_with_its_text(acme) -> None:
    report, _, _ = probe(acme("raise RuntimeError('the card fell out')"))
    assert "the card fell out" in report["reason"]


def test_a_library_that_prints_is_not_heard(acme) -> None:
    noise = "print('NOISE'); sys.stderr.write('NOISE\\n'); os.write(1, b'NOISE'); " + GOOD
    report, errors, _ = probe(acme(noise))
    assert report["reason"] is None
    assert "NOISE" not in errors


def test_a_package_that_cannot_be_loaded_is_a_reason(acme) -> None:
    report, _, _ = probe(acme(GOOD, maker="something_else"))
    assert "create_driver" in report["reason"]
