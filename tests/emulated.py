"""The emulated AMD devices that the suites of all devices run on: those that somebody asked for."""

from __future__ import annotations

import os

import pytest

__all__ = ["emulated_devices", "only_emulated"]

_PREFIX = "emu:"
#: One arch of RDNA and one of CDNA; the others come with the long tests.
_SHORT = ("gfx1100", "gfx942")


def only_emulated() -> bool:
    """XTARGET_DEVICE names an emulated device, so that the tests are about that one."""
    return os.environ.get("XTARGET_DEVICE", "").strip().lower().startswith(_PREFIX)


def emulated_devices(config: pytest.Config) -> list[tuple[str, bool]]:
    """Names of emulated devices, and whether each one belongs to the long tests: all of them for
    `--vendor emu`, one where XTARGET_DEVICE names it, else none."""
    given = config.getoption("--vendor")
    if only_emulated():
        name = os.environ["XTARGET_DEVICE"].strip().lower()
        return [(name, False)] if not given or "emu" in given else []
    if "emu" not in given:
        return []
    from xtarget._devices import registry
    from xtarget.targets.optional import NamesDevices

    driver = registry.driver("emu")
    assert isinstance(driver, NamesDevices)
    return [(_PREFIX + word, word not in _SHORT) for word in driver.names()]


def emulator_absent() -> str | None:
    """Why there are no emulated devices here; None: there are."""
    from xtarget._devices import registry
    from xtarget.targets.optional import KnowsAbsence

    driver = registry.driver("emu")
    assert isinstance(driver, KnowsAbsence)
    return driver.absent()
