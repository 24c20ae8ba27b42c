"""The device that foreign arrays are tried on: the first one there is (of `--vendor`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import xtarget

sys.path.insert(0, str(Path(__file__).parent))  # for the kernels of these tests


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config) -> str:
    """Its name, as text."""
    wanted = pytestconfig.getoption("--vendor")
    found = [d for d in xtarget.devices() if not wanted or d.vendor in wanted]
    if not found:
        pytest.skip("; ".join(f"{r.vendor}: {r.reason}" for r in xtarget.probe() if r.reason))
    return found[0].name


@pytest.fixture(autouse=True)
def _use_device(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, mark_ran_on: Any
) -> None:
    if "device" in request.fixturenames:
        name = request.getfixturevalue("device")
        monkeypatch.setenv("XTARGET_DEVICE", name)
        info = xtarget.device(name).info
        mark_ran_on(info.vendor, info.runs_on, info.product)
