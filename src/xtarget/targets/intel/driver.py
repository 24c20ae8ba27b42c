"""Intel GPUs as devices, through dpctl: Level Zero, and OpenCL where there is nothing better."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..._values.environment import intel_devices
from ..._values.errors import NoDeviceError, XTargetError
from ..._values.types import ProbeReport
from .._objects.unavailable import broken_binding, missing_binding, no_such_device

if TYPE_CHECKING:
    from .device import IntelDevice

__all__ = ["IntelDriver"]

_VENDOR_ID = "0x8086"
_DRM = Path("/sys/class/drm")
_DRI = Path("/dev/dri")
_WSL = Path("/dev/dxg")


def _no_gpu() -> str | None:
    """Return why no Intel GPU can be used. Reading it from Linux takes a millisecond; a SYCL run
    time takes 200 ms to start, and tells less.
    """
    if not sys.platform.startswith("linux") or _WSL.exists():
        return None
    nodes = []
    for vendor in sorted(_DRM.glob("renderD*/device/vendor")):
        try:
            if vendor.read_text(encoding="ascii").strip() == _VENDOR_ID:
                nodes.append(_DRI / vendor.parent.parent.name)
        except OSError:
            continue  # a device that is going away
    if not nodes:
        return f"no Intel GPU was found (no render node of vendor {_VENDOR_ID} in {_DRM})."
    refused = [str(node) for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    if len(refused) < len(nodes):
        return None
    if not any(node.exists() for node in nodes):
        return (
            f"there is an Intel GPU, but {', '.join(refused)} is not here. In a container, start "
            f"it with --device {_DRI}."
        )
    return (
        f"there is an Intel GPU, but no permission to use {', '.join(refused)}. Join its group: "
        f"sudo usermod -aG render $USER, and log in again."
    )


class IntelDriver:
    """SYCL devices. Imports dpctl when first asked for a device, not before.

    `XTARGET_INTEL_DEVICES` (a SYCL filter string such as `opencl:cpu`) replaces the choice of GPUs.
    """

    vendor = "intel"

    def __init__(self) -> None:
        self._located: dict[object, str] = {}

    def absent(self) -> str | None:
        """Return why no device can exist, without loading anything; None if one may exist."""
        return missing_binding("dpctl", "dpctl", self.vendor) or (
            None if intel_devices() else _no_gpu()
        )

    def probe(self) -> ProbeReport:
        why = self.absent()
        if why is not None:
            return ProbeReport(self.vendor, reason=why)
        try:
            from .discover import discover

            found = discover(intel_devices())
        except ImportError as error:
            return ProbeReport(self.vendor, reason=broken_binding(error, "dpctl", self.vendor))
        except XTargetError as error:
            return ProbeReport(self.vendor, reason=str(error))
        if not found:
            return ProbeReport(
                self.vendor,
                reason="there is an Intel GPU, but no driver that SYCL can use. Install Level Zero "
                "and the GPU's OpenCL: apt install libze-intel-gpu1 libze1 intel-opencl-icd, or "
                "dnf install intel-level-zero oneapi-level-zero intel-opencl",
            )
        return ProbeReport(self.vendor, tuple(info for _, info in found))

    def open(self, ordinal: int) -> IntelDevice:
        report = self.probe()
        if report.reason is not None:
            raise NoDeviceError(f"intel:{ordinal} cannot be opened: {report.reason}")
        if not 0 <= ordinal < len(report.devices):
            raise no_such_device(self.vendor, ordinal, [info.name for info in report.devices])
        from .device import IntelDevice
        from .discover import discover

        return IntelDevice(*discover(intel_devices())[ordinal])

    def locate(self, syclobj: object) -> str:
        """The device that USM memory lies on.

        Args:
            syclobj: what `__sycl_usm_array_interface__` names: a queue, or a filter string.

        Raises:
            NoDeviceError: it is none of the devices that are used here.
        """
        from .discover import discover, sycl_device

        device = sycl_device(syclobj)
        known = self._located.get((device, intel_devices()))
        if known is not None:
            return known
        found = discover(intel_devices())
        for candidate, info in found:
            if candidate == device:
                self._located[device, intel_devices()] = info.name
                return info.name
        there = ", ".join(info.name for _, info in found) or "none"
        raise NoDeviceError(
            f"the memory lies on {device.filter_string} ({device.name.strip()}), which is none of "
            f"the devices in use: {there}. XTARGET_INTEL_DEVICES={device.filter_string} adds it."
        )
