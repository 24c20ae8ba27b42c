"""Fixtures of the kernel tests: the catalog, NumPy's type rules, and every device that is there."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import xtarget
from xtarget import _kernels


@cache
def _devices(vendor: str | None) -> tuple[str, ...]:
    """One device of each vendor: more of the same kind would only repeat the results."""
    first: dict[str, str] = {}
    for info in xtarget.devices():
        if info.runs_on != "fake" and vendor in (None, info.vendor):
            first.setdefault(info.vendor, info.name)
    return tuple(first.values())


def pytest_generate_tests(metafunc: Any) -> None:
    if "device" in metafunc.fixturenames:
        names = _devices(metafunc.config.getoption("--vendor", default=None))
        reasons = "; ".join(f"{r.vendor}: {r.reason}" for r in xtarget.probe() if r.reason)
        skip = pytest.param("none", marks=pytest.mark.skip(reason=f"no device here ({reasons})"))
        metafunc.parametrize("device", names or [skip], scope="session")


@pytest.fixture(scope="session")
def catalog() -> Any:
    return xtarget.catalog()


@pytest.fixture(scope="session")
def rules() -> Any:
    from xtarget._dtypes import NumpyRules

    return NumpyRules()


@pytest.fixture(scope="session")
def library() -> Any:
    """`library("layouts")` is that file of the kernel library."""

    folder = _kernels.Library(_kernels._own_folder())

    def load(name: str) -> ModuleType:
        return importlib.import_module(f"{folder.package}.{name}")

    return load
