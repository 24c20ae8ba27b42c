"""Emulated AMD GPUs as devices: `emu:gfx942` and friends.

The AMD driver's own classes over the emulator's HIP, so what launches here is what launches on a
GPU: the same checks, the same argument bytes, the same code object.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from xtarget._values import environment
from xtarget._values.errors import NoDeviceError
from xtarget._values.types import DeviceInfo, ProbeReport
from xtarget.targets import base, optional
from xtarget.targets._objects.graphs import ListedGraph
from xtarget.targets._objects.unavailable import no_such_device
from xtarget.targets.amd.device import HipDevice
from xtarget.targets.amd.driver import describe

if TYPE_CHECKING:
    from .hip import EmulatedHip

__all__ = ["ARCHS", "EmulatorDriver"]

#: In the order of their ordinals.
ARCHS = ("gfx1100", "gfx1201", "gfx90a", "gfx942", "gfx950")
_GRID = (2**31 - 1, 65_536, 65_536)


class EmulatedDevice(HipDevice):
    """A device of this process."""

    def when_lost(self, action: Callable[[], None]) -> None:
        """Have `action` called when a kernel fails: a device opened then is as good as new. (The
        library's devices are lost for good, as GPUs are.)"""
        if self.alone:
            self.hip.when_lost = action

    def graph(self, record: Callable[[base.Stream], None]) -> optional.Graph:
        self.live()
        return ListedGraph(record, self.where)


class EmulatorDriver:
    """The emulator's devices, one for each arch. Nobody gets one without naming it."""

    @property
    def vendor(self) -> str:
        return "emu"

    def absent(self) -> str | None:
        if importlib.util.find_spec("tinygrad") is None:
            return (
                "The emulator needs the instruction tables of tinygrad 0.14.0. "
                'Install them with: pip install "xtarget[emulate]"'
            )
        return None

    def names(self) -> Sequence[str]:
        """Return the part after `emu:` of each device's name, by ordinal."""
        return ARCHS

    def probe(self) -> ProbeReport:
        reason = self.absent()
        if reason is not None:
            return ProbeReport("emu", (), reason)
        return ProbeReport("emu", tuple(self._describe(arch) for arch in ARCHS))

    def open(self, ordinal: int) -> base.Device:
        reason = self.absent()
        if reason is not None:
            raise NoDeviceError(reason)
        if not 0 <= ordinal < len(ARCHS):
            raise no_such_device("emu", ordinal, [f"emu:{arch}" for arch in ARCHS])
        arch = ARCHS[ordinal]
        if environment.emulator_library():
            return self._through_the_library(ordinal)
        hip = _new(arch, 0)
        return EmulatedDevice(
            hip,
            _named(describe(hip, 0), arch),
            count=1,
            grid_limits=_GRID,
            features={},
        )

    @staticmethod
    def _through_the_library(ordinal: int) -> base.Device:
        """The device by real calls of hip-python."""
        from .library import load

        library = load(_devices())
        return EmulatedDevice(
            library,
            _named(describe(library, ordinal), ARCHS[ordinal]),
            count=len(ARCHS),
            grid_limits=_GRID,
            features={},
            ordinal=ordinal,
        )

    def _describe(self, arch: str) -> DeviceInfo:
        return _named(describe(_new(arch, 0), 0), arch)


def _new(arch: str, ordinal: int) -> EmulatedHip:
    from .hip import EmulatedHip
    from .launch import Limits

    races = "race" in environment.emulator_checks()
    limits = Limits(environment.emulator_budget(), races, environment.emulator_processes())
    return EmulatedHip(arch, limits, ordinal)


@cache
def _devices() -> tuple[EmulatedHip, ...]:
    """The library's devices: it has the same ones for the life of the process."""
    return tuple(_new(arch, ordinal) for ordinal, arch in enumerate(ARCHS))


def _named(info: DeviceInfo, arch: str) -> DeviceInfo:
    return replace(info, name=f"emu:{arch}", driver_version="xtarget emulator, tinygrad 0.14.0")
