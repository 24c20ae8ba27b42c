"""Any CPU as a device, through pyopencl and an OpenCL CPU run time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..._values.errors import NoDeviceError, XTargetError
from ..._values.types import ProbeReport
from .._objects.unavailable import broken_binding, missing_binding, no_such_device

if TYPE_CHECKING:
    from .device import CpuDevice
    from .discover import Found

__all__ = ["CpuDriver"]

_PROGRAM_HAS_PYOPENCL = "pyopencl" in sys.modules


class CpuDriver:
    """OpenCL CPU run times. Imports pyopencl when first asked for a device, not before."""

    vendor = "cpu"

    def absent(self) -> str | None:
        """Return why no device can exist, without loading anything; None if one may exist."""
        return missing_binding("pyopencl", "pyopencl", self.vendor)

    def probe(self) -> ProbeReport:
        try:
            found = self._found()
        except XTargetError as error:
            return ProbeReport(self.vendor, reason=str(error))
        return ProbeReport(self.vendor, tuple(info for _, info in found.devices), found.reason)

    def _found(self) -> Found:
        """Raises NoDeviceError where pyopencl does not work."""
        why = self.absent()
        if why is not None:
            raise NoDeviceError(why)
        try:
            from .discover import discover, keep_no_files
        except ImportError as error:
            raise NoDeviceError(broken_binding(error, "pyopencl", self.vendor)) from error
        keep_no_files(program_has_pyopencl=_PROGRAM_HAS_PYOPENCL)
        return discover()

    def open(self, ordinal: int) -> CpuDevice:
        found = self._found()
        if not found.devices:
            raise NoDeviceError(f"there is no cpu:{ordinal}: {found.reason}")
        if not 0 <= ordinal < len(found.devices):
            raise no_such_device(self.vendor, ordinal, [info.name for _, info in found.devices])
        from .device import CpuDevice

        return CpuDevice(*found.devices[ordinal])
