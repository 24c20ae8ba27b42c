"""xtarget: one Triton kernel library on any vendor's GPU, and on any CPU.

    xtarget.run("add", a, b)

Importing this module loads no array library, no Triton and no vendor's binding: names are resolved
when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import spec
    from ._bundle import Bundle, load_bundle
    from ._cache import CacheStats, cache_stats
    from ._device_array import Array, asarray
    from ._env import cache_dir
    from ._errors import (
        ArgumentError,
        CompileError,
        DeviceLostError,
        DriverError,
        FrozenError,
        LaunchError,
        LoadError,
        NoCompilerError,
        NoDeviceError,
        OutOfMemoryError,
        OutOfResourcesError,
        UnknownKernelError,
        UnknownTargetError,
        UntrustedError,
        XTargetError,
    )
    from ._kernels import catalog, load_library
    from ._run import compile, default_device, device, devices, probe, run
    from ._types import Artifact, DeviceInfo, ProbeReport, Target
    from ._user_kernels import kernel

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Array",
    "Artifact",
    "Bundle",
    "CacheStats",
    "CompileError",
    "DeviceInfo",
    "DeviceLostError",
    "DriverError",
    "FrozenError",
    "KernelFault",
    "LaunchError",
    "LoadError",
    "NoCompilerError",
    "NoDeviceError",
    "OutOfMemoryError",
    "OutOfResourcesError",
    "ProbeReport",
    "Target",
    "UnknownKernelError",
    "UnknownTargetError",
    "UnsupportedInstruction",
    "UntrustedError",
    "XTargetError",
    "asarray",
    "cache_dir",
    "cache_stats",
    "catalog",
    "compile",
    "default_device",
    "device",
    "devices",
    "kernel",
    "load_bundle",
    "load_library",
    "probe",
    "run",
    "spec",
]

_HOME = {
    "_bundle": ("Bundle", "load_bundle"),
    "_cache": ("CacheStats", "cache_stats"),
    "_device_array": ("Array", "asarray"),
    "_env": ("cache_dir",),
    "_errors": (
        "KernelFault",
        "UnsupportedInstruction",
        *(name for name in __all__ if name.endswith("Error")),
    ),
    "_kernels": ("catalog", "load_library"),
    "_run": ("compile", "default_device", "device", "devices", "probe", "run"),
    "_types": ("Artifact", "DeviceInfo", "ProbeReport", "Target"),
    "_user_kernels": ("kernel",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "spec":
        value = importlib.import_module(f"{__name__}.spec")
    elif name in _MODULE_OF:
        value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
