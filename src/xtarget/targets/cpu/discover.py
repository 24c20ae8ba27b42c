"""Find the OpenCL CPU devices, or the reason why none is found."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pyopencl as cl

from ..._system.locks import Lock
from ..._system.scratch import can_write, make_room
from ..._values.types import DeviceInfo, Target
from .._host.opencl_device import common_facts
from .._host.opencl_icd import icd_vendors, intel_runtime
from .._spirv.frontend.cpu_options import CPU_BYTES, OTHER_BYTES
from .pocl import compile_options, newest_spirv
from .status import failure

__all__ = ["Found", "discover", "keep_no_files", "spirv_version"]

TARGET = Target("cpu", "spirv64")
_INSTALL = "pip install intel-opencl-rt intel-cmplr-lib-rt tbb"
_NO_PLATFORM = -1001  # CL_PLATFORM_NOT_FOUND_KHR of the loader
#: Threads of a warp that code for this target uses on a CPU: one vector register of 16 floats.
_WARP_SIZE = 16
_MIN_SPIRV = (1, 4)

_lock = Lock()


def keep_no_files(*, program_has_pyopencl: bool) -> None:
    """pyopencl keeps code that it generates for kernels' arguments, and programs, in the user's
    home, and fails where that cannot be written. What is worth keeping is in our cache.

    Args:
        program_has_pyopencl: the program uses it itself: what it keeps is its own business, where
            it can be written.
    """
    if "pyopencl.invoker" in sys.modules or getattr(cl, "_PYOPENCL_NO_CACHE", True):
        return
    if program_has_pyopencl:
        import platformdirs

        with contextlib.suppress(RuntimeError):  # no home
            folders = [platformdirs.user_cache_dir(name, name) for name in ("pytools", "pyopencl")]
            if all(map(can_write, folders)):
                return
    cl._PYOPENCL_NO_CACHE = True


class Found:
    """CPU devices in the order of their ordinals, and the reason when there are none."""

    def __init__(self, devices: list[tuple[cl.Device, DeviceInfo]], reason: str | None) -> None:
        self.devices = devices
        self.reason = reason


def spirv_version(device: cl.Device) -> tuple[int, int]:
    """The newest SPIR-V that the device takes; (0, 0) for none."""
    text = str(device.il_version)
    versions = [(int(a), int(b)) for a, b in re.findall(r"SPIR-V_(\d+)\.(\d+)", text)]
    return newest_spirv(device, max(versions, default=(0, 0)))


def _unfit(device: cl.Device) -> str | None:
    """Return why a CPU device cannot run our code, or None if it can."""
    if not device.available:
        return "is not available"
    if device.address_bits != 64 or not device.endian_little:
        return "is not a 64-bit little-endian machine"
    try:
        version = spirv_version(device)
        memory = int(device.svm_capabilities)
    except cl.Error:
        version, memory = (0, 0), 0
    if version == (0, 0):
        return "takes no SPIR-V (this build of the run time lacks it)"
    if version < _MIN_SPIRV:
        return f"takes SPIR-V {version[0]}.{version[1]}, needed is {_MIN_SPIRV[0]}.{_MIN_SPIRV[1]}"
    if not memory:
        return "has no shared virtual memory"
    return None


def _describe(device: cl.Device, platform: cl.Platform) -> DeviceInfo:
    system = cl.device_svm_capabilities.FINE_GRAIN_SYSTEM
    return DeviceInfo(
        name="cpu",
        target=TARGET,
        **common_facts(device),
        warp_size=_WARP_SIZE,
        host_memory=bool(device.svm_capabilities & system),
        fp64=bool(device.double_fp_config),
        compile_options=_compile_options(device),
        runs_on="CPU runtime",
        details={
            "platform": platform.name.strip(),
            "platform_version": platform.version.strip(),
            "spirv": "{}.{}".format(*spirv_version(device)),
        },
    )


def _compile_options(device: cl.Device) -> dict[str, bool | int]:
    """Return compiler options for the properties in which a device differs from its target."""
    options = compile_options(device)
    if not device.double_fp_config:
        options["fp64"] = False
    room = int(device.local_mem_size) - OTHER_BYTES
    if room < CPU_BYTES:
        options["dot_bytes"] = max(room, 0)
    return options


def _with_others(
    entry: tuple[cl.Device, DeviceInfo], unfit: list[str]
) -> tuple[cl.Device, DeviceInfo]:
    """Return the device, with the devices that were passed over in its details."""
    if not unfit:
        return entry
    device, info = entry
    return device, replace(info, details={**info.details, "not used": "; ".join(unfit)})


def discover() -> Found:
    """Ask the OpenCL loader. Every run time's CPU is a device of its own; Intel's comes first, so
    it is the default: the compiler is tuned for it.

    Raises:
        XTargetError: the loader or a run time failed with a status of its own.
    """
    make_room()
    # pyopencl sets this when it is imported, and its loader crashes without it: a caller may have
    # put back the environment from before
    os.environ.setdefault("PYOPENCL_HOME", str(Path(cl.__file__).parent))
    with _lock, icd_vendors():
        try:
            platforms = cl.get_platforms()
        except cl.Error as error:
            if getattr(error, "code", None) != _NO_PLATFORM:
                raise failure(error, "asking for OpenCL platforms failed") from error
            platforms = []
        if not platforms:
            problem = intel_runtime().problem
            return Found(
                [], problem or f"no OpenCL run time is installed. Install one with: {_INSTALL}"
            )
        found: list[tuple[cl.Device, DeviceInfo]] = []
        unfit: list[str] = []
        for platform in sorted(platforms, key=lambda p: "intel" not in p.vendor.lower()):
            try:
                devices = platform.get_devices(cl.device_type.CPU)
            except cl.Error as error:
                unfit.append(f"{platform.name.strip()}: {error}")
                continue
            for device in devices:
                why = _unfit(device)
                if why is not None:
                    unfit.append(f"{device.name.strip()} of {platform.name.strip()} {why}")
                    continue
                info = replace(_describe(device, platform), name=f"cpu:{len(found)}")
                found.append((device, info))
    if found:
        return Found([_with_others(entry, unfit) for entry in found], None)
    names = ", ".join(platform.name.strip() for platform in platforms)
    why = f" ({'; '.join(unfit)})" if unfit else ""
    return Found(
        [],
        f"the OpenCL platforms here ({names}) have no usable CPU device{why}. "
        f"Install one with: {_INSTALL}",
    )
