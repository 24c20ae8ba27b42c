"""Any CPU as a device, through pyopencl and an OpenCL CPU run time."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from ..._errors import NoDeviceError, XTargetError
from ..._types import ProbeReport

if TYPE_CHECKING:
    from .device import CpuDevice

__all__ = ["CpuDriver"]

_INSTALL = 'pip install "xtarget[cpu]"'


class CpuDriver:
    """OpenCL CPU run times. Imports pyopencl when first asked for a device, not before."""

    vendor = "cpu"

    def absent(self) -> str | None:
        """Why there can be no device, told without loading anything; None: there may be one."""
        if importlib.util.find_spec("pyopencl") is None:
            return f"pyopencl is not installed. Install it with: {_INSTALL}"
        return None

    def probe(self) -> ProbeReport:
        try:
            from .discover import discover

            found = discover()
        except ImportError as error:
            return ProbeReport(self.vendor, reason=_no_binding(error))
        except XTargetError as error:
            return ProbeReport(self.vendor, reason=str(error))
        return ProbeReport(self.vendor, tuple(info for _, info in found.devices), found.reason)

    def open(self, ordinal: int) -> CpuDevice:
        try:
            from .device import CpuDevice
            from .discover import discover
        except ImportError as error:
            raise NoDeviceError(f"cpu:{ordinal} cannot be opened: {_no_binding(error)}") from error
        found = discover()
        if not 0 <= ordinal < len(found.devices):
            there = ", ".join(info.name for _, info in found.devices)
            raise NoDeviceError(
                f"there is no cpu:{ordinal}: "
                + (f"the devices are {there}." if there else str(found.reason))
            )
        return CpuDevice(*found.devices[ordinal])


def _no_binding(error: ImportError) -> str:
    if error.name == "pyopencl":
        return f"pyopencl is not installed. Install it with: {_INSTALL}"
    return f"pyopencl cannot be imported ({error}). Install it again with: {_INSTALL}"
