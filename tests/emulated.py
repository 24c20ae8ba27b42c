"""The emulated AMD devices that the suites of all devices run on: those that somebody asked for."""

from __future__ import annotations

import os
import zlib

import pytest

__all__ = ["emulated_devices", "emulated_elsewhere", "only_emulated"]

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


def emulated_elsewhere(case: str, device: str) -> bool:
    """Whether the short form runs a case on the other one of its two archs: each runs on one, which
    it is depends on the case's id and on `XTARGET_TEST_SEED`.

    Args:
        case: its id, which names the device.
    """
    if only_emulated() or device.removeprefix(_PREFIX) not in _SHORT:
        return False
    seed = os.environ.get("XTARGET_TEST_SEED", "0")
    number = zlib.crc32(f"{seed} {case.replace(device, '')}".encode())
    return _SHORT[number % len(_SHORT)] != device.removeprefix(_PREFIX)


def emulator_absent() -> str | None:
    """Why there are no emulated devices here; None: there are."""
    from xtarget._devices import registry
    from xtarget.targets.optional import KnowsAbsence

    driver = registry.driver("emu")
    assert isinstance(driver, KnowsAbsence)
    return driver.absent()
