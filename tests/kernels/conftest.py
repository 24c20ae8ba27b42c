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

from emulated import emulated_devices, emulated_elsewhere, emulator_absent, only_emulated

import xtarget
from xtarget._devices import registry
from xtarget._kernels import libraries
from xtarget._kernels.library import Library


@cache
def _devices() -> dict[str, Any]:
    """One device of each vendor, by name: more of the same kind would only repeat the results."""
    first: dict[str, Any] = {}
    for info in xtarget.devices():
        if info.runs_on != "fake":
            first.setdefault(info.vendor, info)
    return {info.name: info for info in first.values()}


def pytest_generate_tests(metafunc: Any) -> None:
    if "device" not in metafunc.fixturenames:
        return
    vendors = metafunc.config.getoption("--vendor", default=[])
    names: list[Any] = []
    if not only_emulated():
        names = [n for n, info in _devices().items() if not vendors or info.vendor in vendors]
    absent = emulator_absent()
    for name, long in emulated_devices(metafunc.config):
        marks = [pytest.mark.long] if long else []
        if absent is not None:
            marks.append(pytest.mark.skip(reason=absent))
        names.append(pytest.param(name, marks=marks))
    if not names:
        reasons = "; ".join(f"{r.vendor}: {r.reason}" for r in xtarget.probe() if r.reason)
        why = f"no device of {', '.join(vendors)}" if vendors else "no device"
        names = [pytest.param("none", marks=pytest.mark.skip(reason=f"{why} ({reasons})"))]
    metafunc.parametrize("device", names, scope="session")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "large: much work; on an emulated device a long test")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        device = str(getattr(getattr(item, "callspec", None), "params", {}).get("device", ""))
        if device.startswith("emu:") and (
            item.get_closest_marker("large") or emulated_elsewhere(item.nodeid, device)
        ):
            item.add_marker(pytest.mark.long)


@pytest.fixture(autouse=True)
def _report_device(request: pytest.FixtureRequest, mark_ran_on: Any) -> None:
    """The summary at the end says what the results are from."""
    if "device" in request.fixturenames:
        info = registry.open_device(request.getfixturevalue("device")).info
        mark_ran_on(info.vendor, info.runs_on, info.product)


@pytest.fixture(scope="session")
def catalog() -> Any:
    return xtarget.catalog()


@pytest.fixture(scope="session")
def rules() -> Any:
    from xtarget._arrays.dtypes import NumpyRules

    return NumpyRules()


@pytest.fixture(scope="session")
def library() -> Any:
    """`library("plans.layouts")` is that file of the kernel library."""

    folder = Library(libraries.own_folder())

    def load(name: str) -> ModuleType:
        return importlib.import_module(f"{folder.package}.{name}")

    return load
