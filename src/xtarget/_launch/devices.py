"""`xtarget.device`, `default_device`, `devices` and `probe`: this machine's devices."""

from __future__ import annotations

from .._devices import choice, registry
from .._values.types import DeviceInfo, ProbeReport
from ..targets.base import Device

__all__ = ["default_device", "device", "devices", "probe"]


def device(name: str | None = None) -> Device:
    """A device, opened once per process; None is the default device.

    Raises:
        NoDeviceError: there is no such device; the message lists those there are.
    """
    if name is not None and type(name) is not str:
        name = registry.find_device(name)
    return registry.open_device(choice.default_device() if name is None else name)


def default_device() -> DeviceInfo:
    """The device that data on no device runs on.

    Raises:
        NoDeviceError: there is no device at all; the message has every vendor's reason.
    """
    return registry.open_device(choice.default_device()).info


def probe() -> list[ProbeReport]:
    """Look for devices of every vendor, in child processes; each report has devices or a reason."""
    return registry.probe_all()


def devices() -> list[DeviceInfo]:
    """All devices of this machine, in order of preference."""
    return [info for report in probe() for info in report.devices]
