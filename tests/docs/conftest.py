"""The device on which the manual's code and the examples run."""

from __future__ import annotations

import pytest

import xtarget


@pytest.fixture(scope="session")
def cpu() -> str:
    """The CPU device; without one this machine cannot run them."""
    report = next(r for r in xtarget.probe() if r.vendor == "cpu")
    if not report.devices:
        pytest.skip(f"no CPU device: {report.reason}")
    return report.devices[0].name
